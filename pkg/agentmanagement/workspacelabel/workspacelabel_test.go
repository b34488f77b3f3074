package workspacelabel

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A namespace with a GitRepo, a Cluster or a token gets the label, and no other one does.
func TestWorkspaceLabel(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: managertest.Start(func(p managertest.Ports) []kube.Runner {
			return New(scope.Scope{}, p.Client, p.Caches).Runnables()
		}),
		Given: func(w *looptest.World) {
			for _, name := range []string{"repo", "cluster", "token", "none"} {
				w.Server.MakeNamespace(name)
			}
		},
		When: func(w *looptest.World) {
			looptest.Make(w, &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "repo", Name: "one"}})
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster", Name: "one"}})
			looptest.Make(w, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "token", Name: "one"}})
		},
		Then: func(w *looptest.World) {
			for name, want := range map[string]string{"repo": registration.True, "cluster": registration.True, "token": registration.True, "none": ""} {
				if got := looptest.Read[*corev1.Namespace](w, "", name).Labels[fleet.LabelWorkspace]; got != want {
					w.Errorf("namespace %s: want the label to be %q, got %q", name, want, got)
				}
			}
		},
	})
}

// A label that a user removes comes back.
func TestWorkspaceLabelRemoved(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: managertest.Start(func(p managertest.Ports) []kube.Runner {
			return New(scope.Scope{}, p.Client, p.Caches).Runnables()
		}),
		Given: func(w *looptest.World) {
			looptest.Make(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "repo", Labels: map[string]string{fleet.LabelWorkspace: registration.True}}})
			looptest.Make(w, &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "repo", Name: "one"}})
		},
		When: func(w *looptest.World) {
			looptest.Change(w, "", "repo", func(n *corev1.Namespace) { n.Labels = nil })
		},
		Then: func(w *looptest.World) {
			if looptest.Read[*corev1.Namespace](w, "", "repo").Labels[fleet.LabelWorkspace] == "" {
				w.Error("the label has not come back")
			}
		},
	})
}
