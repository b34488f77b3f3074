package agents

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The local agent takes over from the reference's, which lived in the manager's
// own namespace; agents of other clusters take over from nobody.
func TestAdoptFrom(t *testing.T) {
	m := Manager{
		Settings: registration.Settings{AgentImage: "a:1", Bootstrap: registration.Bootstrap{Namespace: "fleet-local"}},
		System:   registration.System{Namespace: "cattle-fleet-system", ManagerID: "m"},
	}
	for name, c := range map[string]struct {
		namespace, cluster, lives, want string
	}{
		"Local":      {"fleet-local", "local", "cattle-fleet-local-system", "cattle-fleet-system"},
		"LocalThere": {"fleet-local", "local", "cattle-fleet-system", ""},
		"Downstream": {"fleet-default", "c1", "other", ""},
		"OtherLocal": {"fleet-default", "local", "other", ""},
	} {
		a, err := m.Wanted(&fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.cluster},
			Spec:       fleet.ClusterSpec{AgentNamespace: c.lives, KubeConfigSecret: "k"},
		})
		if err != nil {
			t.Fatal(err)
		}
		o, err := a.Objects()
		if err != nil {
			t.Fatal(err)
		}
		if got := o.ConfigMap.Data[registration.KeyAdoptFrom]; got != c.want {
			t.Errorf("%s: takes over from %q, want %q", name, got, c.want)
		}
	}
}
