package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	now := noon
	m.now = func() time.Time { return now }
	if text := scrape(t, m); strings.Contains(text, "contact_seconds") || strings.Contains(text, "agent_releases{") {
		t.Errorf("shows what is not known yet:\n%s", text)
	}
	m.setStates(func() map[fleet.BundleState]int { return map[fleet.BundleState]int{fleet.Ready: 7, fleet.Modified: 1} })
	m.recordAct(deploy.Act{Verb: release.Install, Result: deploy.OK, Took: 300 * time.Millisecond})
	m.recordAct(deploy.Act{Verb: release.Hold, Result: deploy.Held})
	m.recordDrift(2)
	m.recordReconcile("ok", time.Millisecond)
	m.recordCheckIn("ok")
	m.recordCheckIn("error")
	now = now.Add(90 * time.Second)
	text := scrape(t, m)
	for _, want := range []string{
		`fleet_agent_releases{state="Ready"} 7`, `fleet_agent_releases{state="Modified"} 1`, `fleet_agent_releases{state="ErrApplied"} 0`,
		`fleet_agent_actions_total{result="ok",verb="install"} 1`, `fleet_agent_actions_total{result="held",verb="hold"} 1`,
		`fleet_agent_action_seconds_count{verb="install"} 1`, `fleet_agent_drift_found_total 2`, `fleet_agent_manager_contact_seconds 90`,
		`fleet_agent_checkins_total{result="error"} 1`, `fleet_reconcile_seconds_count{loop="deploy",result="ok"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `fleet_agent_action_seconds_count{verb="hold"}`) {
		t.Error("a decision by which nothing is done has no duration")
	}
}

// A program without metrics passes nil.
func TestNoMetrics(t *testing.T) {
	var m *Metrics
	m.recordAct(deploy.Act{})
	m.recordDrift(1)
	m.recordReconcile("ok", 0)
	m.recordCheckIn("ok")
	m.setStates(nil)
	cfg := &rest.Config{}
	if m.countRequests(cfg, serverOwn) != cfg {
		t.Error("a connection that is not counted was changed")
	}
}

type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestRequestsAreCounted(t *testing.T) {
	m := NewMetrics()
	answers := []func(*http.Request) (*http.Response, error){
		func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: http.StatusOK}, nil },
		func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests}, nil
		},
		func(*http.Request) (*http.Response, error) { return nil, errors.New("no answer") },
	}
	cfg := m.countRequests(&rest.Config{}, serverManager)
	for _, answer := range answers {
		req := httptest.NewRequest(http.MethodPatch, "https://manager/secret/path", nil)
		if resp, err := cfg.WrapTransport(trip(answer)).RoundTrip(req); err == nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
	}
	text := scrape(t, m)
	for _, code := range []string{"200", "429", "error"} {
		if want := `fleet_agent_requests_total{code="` + code + `",method="PATCH",server="manager"} 1`; !strings.Contains(text, want) {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "path") {
		t.Error("a label holds a path")
	}
}
