package workspace

import (
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

const readers = "readers"

// makeRole makes a GlobalRole that lets ana read secrets in every workspace.
func makeRole(w *looptest.World) {
	looptest.Make(w, &management.GlobalRole{
		ObjectMeta: metav1.ObjectMeta{Name: readers, Finalizers: []string{"example.com/kept"}},
		InheritedFleetWorkspacePermissions: &management.FleetWorkspacePermission{
			ResourceRules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
		},
	})
	looptest.Make(w, &management.GlobalRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ana"}, GlobalRoleName: readers, UserName: "ana"})
}

func givenSpaceAndRoles(w *looptest.World) {
	install(w, kindGlobalRole, kindGlobalGrant)
	makeSpace(w, team)
}

// bound are the bindings of the role of the GlobalRole in the workspace.
func bound(w *looptest.World) []string {
	in, _ := plan.RoleNames(readers)
	var out []string
	for _, name := range looptest.Names[*rbacv1.RoleBinding](w, team) {
		if looptest.Read[*rbacv1.RoleBinding](w, team, name).RoleRef.Name == in {
			out = append(out, name)
		}
	}
	return out
}

// A user who is bound to a GlobalRole gets its rights in a workspace.
func TestGlobalRole(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenSpaceAndRoles, When: makeRole,
		Then: func(w *looptest.World) {
			if got := bound(w); len(got) != 1 {
				w.Errorf("want one binding, got %v", got)
			}
		},
	})
}

// The rights of a GlobalRole that is deleted go at once, although a finalizer keeps it.
func TestGlobalRoleDeleted(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			givenSpaceAndRoles(w)
			makeRole(w)
		},
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			if len(bound(w)) == 0 {
				w.Fatal("there are no rights")
			}
			looptest.Remove[*management.GlobalRole](w, "", readers)
		},
		Then: func(w *looptest.World) {
			in, _ := plan.RoleNames(readers)
			if got := bound(w); len(got) > 0 || slices.Contains(looptest.Names[*rbacv1.ClusterRole](w, ""), in) {
				w.Errorf("the rights are still there: %v", got)
			}
		},
	})
}

// The maker of a workspace gets rights in it, and loses them with it.
func TestCreator(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: func(w *looptest.World) { install(w) },
		When: func(w *looptest.World) {
			looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team, Annotations: map[string]string{plan.AnnotationCreator: "ana"}}})
		},
		Then: func(w *looptest.World) {
			b := looptest.Read[*rbacv1.RoleBinding](w, team, "fleetworkspace-admin-binding-"+team)
			if b == nil || len(b.Subjects) != 1 || b.Subjects[0].Name != "ana" {
				w.Errorf("got %+v", b)
			}
		},
	})
}

// An object that Rancher maintains is not changed, also where the manager would give the
// same rights another way; in the mode standalone it is.
func TestRightsOfRancher(t *testing.T) {
	for mode, changed := range map[plan.Mode]bool{plan.Auto: false, plan.Standalone: true} {
		t.Run(string(mode), func(t *testing.T) {
			s := kubetest.New(t)
			rights := newOwnedKinds(s.Connect("test"), mode)
			own := plan.OfCreator(&management.FleetWorkspace{
				ObjectMeta: metav1.ObjectMeta{Name: team, UID: "u", Annotations: map[string]string{plan.AnnotationCreator: "ana"}},
			}).ClusterRoles[0]
			there := own.DeepCopy()
			there.Annotations, there.Rules = map[string]string{fleet.AnnotationObjectSetID: "workspace"}, nil
			if _, err := rights.roles.store.Create(t.Context(), there); err != nil {
				t.Fatal(err)
			}
			err := rights.apply(t.Context(), plan.Rights{ClusterRoles: []*rbacv1.ClusterRole{own}}, plan.Rights{})
			got, readErr := rights.roles.store.Get(t.Context(), kube.KeyOf(own))
			if readErr != nil {
				t.Fatal(readErr)
			}
			if (len(got.Rules) > 0) != changed || (err == nil) != changed {
				t.Errorf("got %v, %v", got.Rules, err)
			}
		})
	}
}
