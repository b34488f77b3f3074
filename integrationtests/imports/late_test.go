package imports

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// late is how much later than of anything else the manager hears of Clusters here.
const late = 4 * time.Second

// A manager that has not heard yet of what it has noted of an import does not do it
// again, whatever wakes it up: the agent is given its registration token once.
func TestLateCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.managerProcess.Halt(w)
	w.managerProcess.Wrap = func(next http.RoundTripper) http.RoundTripper { return lateWatch{next} }
	w.managerProcess.Run(w)
	since := time.Now()
	harness.AgentOf(w, w.hub, "agent-late")
	w.secret("late", w.hub.Administrator(w, importer))
	w.cluster("late")
	w.installed("late")
	w.registeredAgain("late", nil)
	w.until("the token has ended", func() bool { return w.tokens() == 0 })
	list, err := w.hub.Requests(since)
	w.must(err)
	var given []harness.Request
	for _, r := range list {
		if r.Writes() && r.Code < 300 && r.Name == fleet.SecretAgentBootstrap && r.User == "system:serviceaccount:kube-system:"+importer {
			given = append(given, r)
		}
	}
	if len(given) != 1 {
		t.Errorf("want one token for the agent:\n%s", harness.Lines(given))
	}
}

// A lateWatch passes on what it hears of Clusters, later.
type lateWatch struct{ next http.RoundTripper }

func (l lateWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err == nil && strings.HasSuffix(req.URL.Path, "/clusters") && req.URL.Query().Has("watch") {
		resp.Body = delay(resp.Body)
	}
	return resp, err
}

// delay returns the data of body, each piece some time after it arrived.
func delay(body io.ReadCloser) io.ReadCloser {
	type piece struct {
		data []byte
		err  error
		at   time.Time
	}
	pieces := make(chan piece, 10_000)
	go func() {
		for {
			data := make([]byte, 64<<10)
			n, err := body.Read(data)
			pieces <- piece{data[:n], err, time.Now().Add(late)}
			if err != nil {
				return
			}
		}
	}()
	out, in := io.Pipe()
	go func() {
		for p := range pieces {
			time.Sleep(time.Until(p.at)) // this is the delay
			if _, err := in.Write(p.data); err != nil || p.err != nil {
				_ = in.CloseWithError(p.err)
				return
			}
		}
	}()
	return closers{out, body}
}

// closers closes both a pipe and the source of its data.
type closers struct {
	*io.PipeReader
	from io.Closer
}

func (c closers) Close() error {
	_ = c.PipeReader.Close()
	return c.from.Close()
}
