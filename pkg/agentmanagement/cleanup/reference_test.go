package cleanup

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// made is the metadata of an object that the reference made for a registration.
func made(namespace, name, request string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{fleet.LabelManaged: registration.True}
	maps.Copy(all, labels)
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: all, Annotations: map[string]string{
		"objectset.rio.cattle.io/owner-gvk":  "fleet.cattle.io/v1alpha1, Kind=ClusterRegistration",
		"objectset.rio.cattle.io/owner-name": request, "objectset.rio.cattle.io/owner-namespace": "ws",
	}}
}

// Accounts and rights that the reference made for a registration go with it, and Secrets
// with credentials when no agent can fetch them any more. What belongs to a registration, to a
// user or to another manager stays.
func TestSweepOfTheReference(t *testing.T) {
	in := managertest.System.RegistrationNamespace()
	anothers := map[string]string{fleet.LabelManagerID: "another"}
	looptest.Run(t, looptest.Loop{
		Start: start, Settles: 5 * time.Hour, Rests: 2 * time.Hour,
		Given: func(w *looptest.World) {
			w.Server.MakeNamespace("ws")
			w.Server.MakeNamespace("cluster")
			w.Server.MakeNamespace(in)
			looptest.Make(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "live"}})
			looptest.Change(w, "ws", "live", func(r *fleet.ClusterRegistration) { r.Status.Granted = true })
			for _, request := range []string{"live", "gone"} {
				looptest.Make(w, &corev1.ServiceAccount{ObjectMeta: made("cluster", request, request, nil)})
				looptest.Make(w, &rbacv1.Role{ObjectMeta: made("ws", request, request, nil)})
				looptest.Make(w, &rbacv1.RoleBinding{ObjectMeta: made("ws", request, request, nil), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: request}})
				looptest.Make(w, &rbacv1.ClusterRoleBinding{ObjectMeta: made("", request, request, nil), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "fleet-content"}})
			}
			looptest.Make(w, &corev1.ServiceAccount{ObjectMeta: made("cluster", "anothers", "gone", anothers)})
			looptest.Make(w, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster", Name: "users"}})
			looptest.Make(w, &corev1.Secret{ObjectMeta: made(in, "c-1", "live", nil), Type: fleet.SecretTypeAgentCredential})
			looptest.Make(w, &corev1.Secret{ObjectMeta: made(in, "anothers", "live", anothers), Type: fleet.SecretTypeAgentCredential})
			looptest.Make(w, &corev1.Secret{ObjectMeta: made(in, "other-type", "live", nil), Type: corev1.SecretTypeOpaque})
		},
		Then: func(w *looptest.World) {
			for name, stays := range map[string]bool{"live": true, "gone": false, "anothers": true, "users": true} {
				if there := looptest.Read[*corev1.ServiceAccount](w, "cluster", name) != nil; there != stays {
					w.Errorf("ServiceAccount %s: want it there: %v, got %v", name, stays, there)
				}
			}
			for name, stays := range map[string]bool{"live": true, "gone": false} {
				there := []bool{
					looptest.Read[*rbacv1.Role](w, "ws", name) != nil, looptest.Read[*rbacv1.RoleBinding](w, "ws", name) != nil,
					looptest.Read[*rbacv1.ClusterRoleBinding](w, "", name) != nil,
				}
				for _, is := range there {
					if is != stays {
						w.Errorf("rights of %s: want them there: %v, got %v", name, stays, there)
					}
				}
			}
			for name, stays := range map[string]bool{"c-1": false, "anothers": true, "other-type": true} {
				if there := looptest.Read[*corev1.Secret](w, in, name) != nil; there != stays {
					w.Errorf("Secret %s: want it there: %v, got %v", name, stays, there)
				}
			}
		},
	})
}

// A registration that is made between two looks keeps what is its own.
func TestSweepOfTheReferenceLooksTwice(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start, Settles: 2 * time.Hour,
		Given: func(w *looptest.World) {
			w.Server.MakeNamespace("ws")
			w.Server.MakeNamespace("cluster")
			looptest.Make(w, &corev1.ServiceAccount{ObjectMeta: made("cluster", "late", "late", nil)})
		},
		When: func(w *looptest.World) {
			w.Pass(registration.OrphanTimeout / 2)
			looptest.Make(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "late"}})
			looptest.Change(w, "ws", "late", func(r *fleet.ClusterRegistration) { r.Status.Granted = true })
		},
		Then: func(w *looptest.World) {
			if looptest.Read[*corev1.ServiceAccount](w, "cluster", "late") == nil {
				w.Error("the account was deleted")
			}
		},
	})
}
