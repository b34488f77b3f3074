package agentrollout

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The local agent takes over from rancher/fleet's agent, which lived in the
// manager's own namespace, or from the namespace that it was moved from. Agents
// of other clusters take over from no agent.
func TestAdoptFrom(t *testing.T) {
	m := Manager{
		Settings: registration.Settings{AgentImage: "a:1", Bootstrap: registration.Bootstrap{Namespace: "fleet-local"}},
		System:   registration.System{Namespace: "cattle-fleet-system", ManagerID: "m"},
	}
	for name, c := range map[string]struct {
		namespace, cluster, lives, want string
		moved                           registration.LocalMove
	}{
		"LocalMoved": {"fleet-local", "local", "new", "old", registration.LocalMove{From: "old"}},
		"Local":      {"fleet-local", "local", "cattle-fleet-local-system", "cattle-fleet-system", registration.LocalMove{}},
		"LocalThere": {"fleet-local", "local", "cattle-fleet-system", "", registration.LocalMove{}},
		"Downstream": {"fleet-default", "c1", "other", "", registration.LocalMove{}},
		"OtherLocal": {"fleet-default", "local", "other", "", registration.LocalMove{}},
	} {
		a, err := m.DesiredAgent(c.moved.Annotate(&fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.cluster},
			Spec:       fleet.ClusterSpec{AgentNamespace: c.lives, KubeConfigSecret: "k"},
		}))
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

// The bundle of an agent that turned back on its way says again from whom it takes
// over; that of one that was never moved stays as it was made.
func TestOwnOfMoved(t *testing.T) {
	m := Manager{Settings: registration.Settings{Bootstrap: registration.Bootstrap{Namespace: "fleet-local"}}}
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-local", Name: "local"},
		Spec:       fleet.ClusterSpec{AgentNamespace: "here", KubeConfigSecret: "k"},
	}
	moved := registration.LocalMove{From: "before"}.Annotate(c)
	if m.SettingsDigest(c) == m.SettingsDigest(moved) {
		t.Error("from whom an agent takes over is part of its bundle")
	}
	if m.SettingsDigest(c) != m.SettingsDigest(registration.LocalMove{Leaves: []string{"elsewhere"}}.Annotate(c)) {
		t.Error("what is left elsewhere is not")
	}
}
