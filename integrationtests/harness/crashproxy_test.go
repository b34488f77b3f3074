package harness

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// answering is an API server: it takes a write, and answers when the test says
// so.
type answering struct{ taken, answer chan string }

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	a.taken <- req.URL.Path
	select {
	case <-a.answer:
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// A write that was under way when the agent died ends with its answer, and none that
// comes later is passed on.
func TestCrashProxy(t *testing.T) {
	for _, after := range []bool{false, true} {
		at := Point{Write: 1, After: after}
		t.Run(at.String(), func(t *testing.T) {
			dir, group := t.TempDir(), process.NewGroup()
			defer group.Close(time.Second)
			agentProcess, err := group.Start(process.Spec{Name: "victim", Path: "/bin/sleep", Args: []string{"1000"}, Dir: dir, Log: filepath.Join(dir, "log")})
			if err != nil {
				t.Fatal(err)
			}
			api := answering{make(chan string, 10), make(chan string)}
			r := &CrashProxy{next: api}
			r.watches(agentProcess)
			r.Arm(&at)
			living, dies := context.WithCancel(t.Context())
			defer dies()
			write := func(path string) chan error {
				end := make(chan error, 1)
				req := httptest.NewRequestWithContext(living, http.MethodDelete, path, nil)
				go func() {
					resp, err := r.RoundTrip(req)
					if err == nil {
						_ = resp.Body.Close()
					}
					end <- err
				}()
				return end
			}
			first := write("/first")
			<-api.taken
			fatal := write("/fatal")
			if after {
				<-api.taken
			} else {
				<-agentProcess.Done()
			}
			if err := <-write("/later"); err == nil {
				t.Error("a write was passed on after the point had come")
			}
			dies()
			if r.Quiet() {
				t.Error("the first write has no answer yet")
			}
			api.answer <- ""
			if after {
				api.answer <- ""
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
			if err := <-fatal; err == nil {
				t.Error("the agent has heard of the fatal write")
			}
			<-agentProcess.Done()
			if got := len(r.Seen()); got != 2 || !r.Quiet() || len(api.taken) > 0 {
				t.Errorf("%d writes, quiet: %t", got, r.Quiet())
			}
		})
	}
}
