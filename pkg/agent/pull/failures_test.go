package pull

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// cut begins an answer, and cuts the connection.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte("the beginning"))
	panic(http.ErrAbortHandler)
}

// What may pass by itself is waited for, what may not is an error that stays; both for the
// index and for the archive. Nothing is left on disk.
func TestChartFailures(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		waits  bool
		reason string
	}{
		"Busy":      {webtest.Status(http.StatusTooManyRequests), true, web.ReasonUnreachable},
		"Broken":    {webtest.Status(http.StatusInternalServerError), true, web.ReasonUnreachable},
		"Cut":       {cut, true, web.ReasonUnreachable},
		"Gone":      {webtest.Status(http.StatusGone), false, web.ReasonNotFound},
		"Missing":   {webtest.Status(http.StatusNotFound), false, web.ReasonNotFound},
		"Forbidden": {webtest.Status(http.StatusForbidden), false, web.ReasonAuthenticationRefused},
	} {
		for _, path := range []string{"/index.yaml", "/archives/app-1.0.0.tgz"} {
			t.Run(name+path, func(t *testing.T) {
				s := webtest.Repository(t, webtest.Options{
					Charts: []webtest.Chart{packed("1.0.0", "one")}, Handlers: map[string]http.HandlerFunc{path: c.answer},
				})
				dir := t.TempDir()
				_, err := New(Config{Dir: dir}).Chart(t.Context(), chart.Request{Repo: s.URL, Chart: "app"}, chart.Credentials{})
				if reconcile.IsRequeue(err) != c.waits || reconcile.ReasonOf(err) != c.reason {
					t.Errorf("want %s, waiting %t, got %s: %v", c.reason, c.waits, reconcile.ReasonOf(err), err)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left on disk: %v, %v", left, err)
				}
			})
		}
	}
}

// Two charts are pulled at a time. One that waits for its turn ends with its context.
func TestChartWaitsForItsTurn(t *testing.T) {
	began, goOn := make(chan struct{}, atOnce+1), make(chan struct{})
	s := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/index.yaml": func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-goOn
		webtest.Status(http.StatusNotFound)(w, r)
	}}})
	p, request := New(Config{Dir: t.TempDir()}), chart.Request{Repo: s.URL, Chart: "app"}
	done := make(chan error, atOnce)
	for range atOnce {
		go func() {
			_, err := p.Chart(t.Context(), request, chart.Credentials{})
			done <- err
		}()
	}
	for range atOnce {
		<-began
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := p.Chart(ctx, request, chart.Credentials{}); !errors.Is(err, context.DeadlineExceeded) || len(began) > 0 {
		t.Errorf("want it to wait for its turn, got %v", err)
	}
	close(goOn)
	for range atOnce {
		if err := <-done; reconcile.ReasonOf(err) != web.ReasonNotFound {
			t.Error(err)
		}
	}
}

// A fault of the disk is an error that names no temporary file.
func TestChartDiskFails(t *testing.T) {
	dir := t.TempDir() + "/missing"
	_, err := New(Config{Dir: dir}).Chart(t.Context(), chart.Request{Repo: "http://127.0.0.1:1", Chart: "app"}, chart.Credentials{})
	if err == nil || err.Error() != "keep a chart on disk for a moment: no such file or directory" {
		t.Errorf("got %v", err)
	}
}
