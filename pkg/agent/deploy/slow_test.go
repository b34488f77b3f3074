package deploy

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An agent that is at work for long says so once, whatever the interval of its
// check-ins; one that is quick does not.
func TestSlowDeploymentChecksIn(t *testing.T) {
	cases := map[string]struct {
		why   string
		takes time.Duration
		want  int
	}{
		"Quick":   {"its report is the sign of life", 59 * time.Second, 0},
		"Slow":    {"the manager gives up after two minutes", 61 * time.Second, 1},
		"Hanging": {"once is enough to show that it lived after the promotion", time.Hour, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := 0
				s := &Session{CheckIn: func() { got++ }}
				end := s.timeout()
				time.Sleep(c.takes)
				synctest.Wait()
				end()
				time.Sleep(time.Hour)
				synctest.Wait()
				if got != c.want {
					t.Errorf("%s: checked in %d times, want %d", c.why, got, c.want)
				}
			})
		})
	}
}

// Without a manager there is no check-in to send.
func TestSlowDeploymentAlone(t *testing.T) {
	var s *Session
	s.timeout()()
	(&Session{}).timeout()()
}

// A slowServer answers every request after a time, and has nothing.
type slowServer struct{ takes time.Duration }

func (s slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.takes)
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// Whatever it is that takes so long, here reading the content, it is noticed.
func TestDeployIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, err := kube.Connect(kube.Config{REST: &rest.Config{Host: "http://manager", Transport: slowServer{61 * time.Second}}, FieldManager: "test"})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		s := &snapshot{
			session: &Session{CheckIn: func() { got++ }, Contents: kube.StoreOf[*fleet.Content](up)},
			bd:      &fleet.BundleDeployment{}, spec: fleet.BundleDeploymentSpec{DeploymentID: "s-1:x"},
		}
		l := &releases{payloads: &payloads{}, sharing: newSharing(time.Now, nil)}
		if err := l.deploy(t.Context(), s, release.Action{Verb: release.Install}); reconcile.ReasonOf(err) != reasonNoContent {
			t.Fatalf("not the end that was prepared: %v", err)
		}
		synctest.Wait()
		if got != 1 {
			t.Errorf("checked in %d times, want once", got)
		}
	})
}
