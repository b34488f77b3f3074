package downstream

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An agent that moves takes what it had in its former namespace along. What another
// manager, or another Cluster, has there stays.
func TestMove(t *testing.T) {
	own := clusterimport.Mark{Manager: "m1", Workspace: "ws", Cluster: "site"}
	for name, c := range map[string]struct {
		mark clusterimport.Mark // of the agent that is there
		goes bool
	}{
		"Own":          {own, true},
		"OtherManager": {clusterimport.Mark{Manager: "m2", Workspace: "ws", Cluster: "site"}, false},
		"OtherCluster": {clusterimport.Mark{Manager: "m1", Workspace: "ws", Cluster: "other"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t)
			client := s.Connect("manager")
			cluster := func(m clusterimport.Mark) *Cluster {
				d := New(client, m)
				d.Issued = func(context.Context, clusterimport.Account) (string, error) { return "", nil }
				return d
			}
			agent := registration.Agent{Namespace: "former", Image: "agent"}
			there := cluster(c.mark)
			things, err := there.agentObjects(agent, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := there.createObjects(t.Context(), agent.Namespace, things, registration.Bootstrapping{}, nil); err != nil {
				t.Fatal(err)
			}
			agent.Namespace = "new"
			if err := cluster(own).Move(t.Context(), Order{Agent: agent, From: "former"}); err != nil {
				t.Fatal(err)
			}
			for kind, gone := range map[string]bool{
				"Deployment":     isGone[*appsv1.Deployment](t, client, fleet.SecretAgent),
				"ServiceAccount": isGone[*corev1.ServiceAccount](t, client, fleet.SecretAgent),
				"ConfigMap":      isGone[*corev1.ConfigMap](t, client, fleet.ConfigMapAgent),
				"Secret":         isGone[*corev1.Secret](t, client, fleet.SecretAgentBootstrap),
			} {
				if gone != c.goes {
					t.Errorf("%s: gone: %v, want %v", kind, gone, c.goes)
				}
			}
		})
	}
}

// isGone reports whether the former namespace has no object of a name.
func isGone[P kube.Object](t *testing.T, c *kube.Client, name string) bool {
	t.Helper()
	_, err := kube.StoreOf[P](c).Get(t.Context(), kube.Key{Namespace: "former", Name: name})
	if err != nil && !kube.IsGone(err) {
		t.Fatal(err)
	}
	return err != nil
}
