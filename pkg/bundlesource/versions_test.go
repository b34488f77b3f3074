package bundlesource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// repository serves an index, to who has the password.
type repository struct {
	versions    atomic.Value // string: of the chart web
	down        atomic.Bool
	asked, sent atomic.Int32
}

func (r *repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	if _, password, _ := req.BasicAuth(); password != "p" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.down.Load() {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	version, _ := r.versions.Load().(string)
	w.Header().Set("ETag", `"`+version+`"`)
	if req.Header.Get("If-None-Match") == `"`+version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	r.sent.Add(1)
	_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n  web:\n  - {name: web, version: %s, urls: [web.tgz]}\n  - {name: web, version: 0.1.0, urls: [old.tgz]}\n", version)
}

func newVersions(t *testing.T) (*Reader, *repository, chart.Request, chart.Access) {
	t.Helper()
	repo := &repository{}
	repo.versions.Store("v1.2.0")
	s := httptest.NewServer(repo)
	t.Cleanup(s.Close)
	loopback, err := address.Parse([]string{"127.0.0.0/8", "::1/128"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Dir: t.TempDir(), Addresses: loopback})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	q := chart.Request{Repo: s.URL, Chart: "web"}
	return r, repo, q, chart.HelmOpAccess(chart.Credentials{Username: "u", Password: "p"}, []chart.Request{q})
}

// A thousand callers with one repository and the same credentials cost one download per
// interval; an index that has not changed is not sent again.
func TestResolveSharesOneDownload(t *testing.T) {
	r, repo, q, access := newVersions(t)
	ask := func(maxAge time.Duration) {
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				asked := make(chan bool, 1)
				version, next, err := r.Resolve(t.Context(), q, access, maxAge, func() { asked <- true })
				if reconcile.ReasonOf(err) == ReasonBusy {
					<-asked
					version, next, err = r.Resolve(t.Context(), q, access, maxAge, nil)
				}
				if err != nil || version != "v1.2.0" || next > maxAge {
					t.Errorf("got %q, %s, %v", version, next, err)
				}
			})
		}
		all.Wait()
	}
	ask(time.Hour)
	ask(time.Hour)
	if n := repo.asked.Load(); n != 1 {
		t.Errorf("the repository was asked %d times", n)
	}
	if _, _, err := r.Resolve(t.Context(), q, access, 0, nil); err != nil {
		t.Error(err)
	}
	if asked, sent := repo.asked.Load(), repo.sent.Load(); asked != 2 || sent != 1 {
		t.Errorf("asked %d times, sent %d times", asked, sent)
	}
	repo.versions.Store("1.3.0")
	if version, _, err := r.Resolve(t.Context(), q, access, 0, nil); err != nil || version != "1.3.0" {
		t.Errorf("got %q, %v", version, err)
	}
}

// What a repository has answered to one set of credentials does not reach another.
func TestResolveKeepsCredentialsApart(t *testing.T) {
	r, _, q, access := newVersions(t)
	if _, _, err := r.Resolve(t.Context(), q, access, time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	other := chart.HelmOpAccess(chart.Credentials{Username: "u", Password: "wrong"}, []chart.Request{q})
	if version, _, err := r.Resolve(t.Context(), q, other, time.Hour, nil); err == nil {
		t.Errorf("got %q with a wrong password", version)
	}
}

// A source that fails is left alone for a while, however many ask, and works again after.
func TestResolveBacksOff(t *testing.T) {
	r, repo, q, access := newVersions(t)
	repo.down.Store(true)
	_, next, err := r.Resolve(t.Context(), q, access, time.Hour, nil)
	if err == nil || next <= 0 {
		t.Errorf("got %v, next %s", err, next)
	}
	repo.down.Store(false)
	var known *listing // the only one
	for _, known = range r.listings.known {
		known.last.asked = time.Now().Add(time.Minute) // however slow the machine is
	}
	for range 5 {
		if _, _, again := r.Resolve(t.Context(), q, access, time.Hour, nil); !errors.Is(again, err) {
			t.Errorf("got %v", again)
		}
	}
	if n := repo.asked.Load(); n != 1 {
		t.Errorf("a failed repository was asked %d times at once", n)
	}
	known.last.asked = time.Now().Add(-next)
	if version, _, err := r.Resolve(t.Context(), q, access, time.Hour, nil); err != nil || version != "v1.2.0" || known.last.failures != 0 {
		t.Errorf("got %q, %v after %d failures", version, err, known.last.failures)
	}
}

// The delay after failures of a source grows, and its answer has an age.
func TestAnswerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := versionsAnswer{asked: time.Now(), err: errors.New("down"), failures: 1}
		often := failed
		often.failures = 4
		if a, b := failed.left(time.Hour), often.left(time.Hour); a <= 0 || b <= a {
			t.Errorf("want a growing delay, got %s and %s", a, b)
		}
		answer := versionsAnswer{asked: time.Now()}
		time.Sleep(20 * time.Minute)
		if got := answer.left(time.Hour); got != 40*time.Minute {
			t.Errorf("got %s", got)
		}
		if got := (versionsAnswer{}).left(time.Hour); got > 0 {
			t.Errorf("what was never asked may be used for %s", got)
		}
	})
}

// A caller does not wait for a source that another one asks.
func TestResolveDoesNotWait(t *testing.T) {
	asked, answer := make(chan bool), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- true
		<-answer
	}))
	defer s.Close()
	r, _, _, _ := newVersions(t)
	q := chart.Request{Repo: s.URL, Chart: "web"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, _, err := r.Resolve(ctx, q, chart.Access{}, time.Hour, nil)
		done <- err
	}()
	<-asked
	ready := make(chan bool, 1)
	if _, _, err := r.Resolve(t.Context(), q, chart.Access{}, time.Hour, func() { ready <- true }); reconcile.ReasonOf(err) != ReasonBusy {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("want the error of the context")
	}
	<-ready // also without an answer
	close(answer)
}

// A source that names one version itself is not asked.
func TestResolveFixed(t *testing.T) {
	r, repo, _, _ := newVersions(t)
	digest := "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for source, want := range map[string]string{
		"oci://registry.example.com/web:1.0.0": "1.0.0", "oci://registry.example.com/web@" + digest: "",
	} {
		version, next, err := r.Resolve(t.Context(), chart.Request{Repo: source}, chart.Access{}, time.Hour, nil)
		if version != want || next != 0 || err != nil {
			t.Errorf("%s: got %q, %s, %v", source, version, next, err)
		}
	}
	if repo.asked.Load() > 0 {
		t.Error("a source was asked")
	}
}
