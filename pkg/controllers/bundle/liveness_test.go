package bundle

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// A server answers with what it holds, by resource and name.
type server struct {
	objects map[string]any
	status  int // of all answers; 0: as it should be
	asked   []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	name := path.Join(path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path))
	s.asked = append(s.asked, r.Method+" "+name)
	status, body := http.StatusOK, s.objects[name]
	if body == nil {
		status, body = http.StatusNotFound, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	if s.status != 0 {
		status, body = s.status, metav1.Status{Status: "Failure", Code: int32(s.status)}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, nil
}

// Before a cluster counts as silent the manager asks the API server: perhaps it
// is the manager that has heard nothing.
func TestSilenceIsConfirmed(t *testing.T) {
	begin := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	cluster := func(version string, seen time.Time) *fleet.Cluster {
		c := &fleet.Cluster{TypeMeta: metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c1", UID: "c1", ResourceVersion: version}}
		stamp := metav1.NewTime(seen)
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fleet.FieldManagerAgent, Subresource: "status", Time: &stamp}}
		return c
	}
	deployment := func(version, current, applied string) *fleet.BundleDeployment {
		bd := &fleet.BundleDeployment{TypeMeta: metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "c-c1", Name: "app", UID: "app", ResourceVersion: version, Labels: map[string]string{
				fleet.LabelBundleName: "app", fleet.LabelBundleNamespace: "ns", fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "ns"}}}
		bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID = current, current, applied
		return bd
	}
	old, silent := deployment("3", "s-2:x", "s-1:x"), cluster("1", begin)
	cases := map[string]struct {
		why    string
		server server
		want   bool // silent
		fails  bool
	}{
		"Silent":    {"no agent has reported it", server{objects: map[string]any{"bundledeployments/app": old, "clusters/c1": silent}}, true, false},
		"Reported":  {"its report did not come through", server{objects: map[string]any{"bundledeployments/app": deployment("9", "s-2:x", "s-2:x"), "clusters/c1": silent}}, false, false},
		"CheckedIn": {"its check-in did not", server{objects: map[string]any{"bundledeployments/app": old, "clusters/c1": cluster("9", begin.Add(time.Minute))}}, false, false},
		"Gone":      {"the deployment was deleted; the cluster says nothing all the same", server{objects: map[string]any{"clusters/c1": silent}}, true, false},
		"Away":      {"the API server does not answer", server{status: http.StatusServiceUnavailable}, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := begin
			log := logrus.New()
			log.SetOutput(io.Discard)
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: "http://manager", Transport: &c.server}, FieldManager: "test"})
			if err != nil {
				t.Fatal(err)
			}
			e := New(Config{Namespace: "cattle-fleet-system", ManagerID: "me", CheckinInterval: time.Hour, Now: func() time.Time { return now }},
				client, logrus.NewEntry(log)).handlers
			e.targeting.observeCluster(cluster("1", begin))
			key := kube.Key{Namespace: "ns", Name: "app"}
			for _, bd := range []*fleet.BundleDeployment{deployment("2", "s-1:x", "s-1:x"), deployment("3", "s-2:x", "s-1:x")} {
				e.stripDeployment(bd)
				e.enqueue(e.table.SetDeployment(bd))
			}
			if next, err := e.liveness.reconcileSilence(t.Context(), key); err != nil || next.After != rollout.SilentAfter || len(c.server.asked) > 0 {
				t.Fatalf("too early: %v, %v, %v", next, err, c.server.asked)
			}
			now = now.Add(rollout.SilentAfter)
			next, err := e.liveness.reconcileSilence(t.Context(), key)
			if (err != nil) != c.fails || next.After != 0 {
				t.Errorf("%v, %v", next, err)
			}
			if got := silentOf(e.table); got != c.want {
				t.Errorf("%s: silent %v, want %v; asked %v", c.why, got, c.want, c.server.asked)
			}
			if c.fails {
				c.server.status, c.server.objects = 0, map[string]any{"bundledeployments/app": old, "clusters/c1": silent}
				next, err = e.liveness.reconcileSilence(t.Context(), key)
				if err != nil || next.After != rollout.SilentAfter || silentOf(e.table) {
					t.Errorf("it has its full time again: %v, %v", next, err)
				}
			}
		})
	}
}

func silentOf(t *fleetstate.State) bool {
	for _, c := range t.Candidates("ns") {
		if c.Silent {
			return true
		}
	}
	return false
}
