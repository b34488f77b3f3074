package harness

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Account makes a service account, if there is none of this name, and returns a
// connection as that account.
func (h *Hub) Account(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	h.Namespace(t, namespace)
	_, err := kube.StoreOf[*corev1.ServiceAccount](h.Admin).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	})
	if err != nil && !kube.IsExists(err) {
		t.Fatal(err)
	}
	token, err := h.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h.bearer(token.Status.Token)
}

// bearer is a connection as whoever a token is.
func (h *Hub) bearer(token string) *rest.Config {
	out := rest.AnonymousClientConfig(h.Cluster.REST())
	out.BearerToken = token
	return out
}

// Allow gives a service account rights: in one namespace, or everywhere where that
// is empty.
func (h *Hub) Allow(t testing.TB, who rbacv1.Subject, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole"}
	meta := metav1.ObjectMeta{GenerateName: who.Name + "-", Namespace: namespace}
	roles := h.Client.RbacV1()
	role, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: who.Name + "-"}, Rules: rules,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref.Name = role.Name
	if namespace == "" {
		_, err = roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{who}, RoleRef: ref,
		}, metav1.CreateOptions{})
	} else {
		_, err = roles.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{who}, RoleRef: ref,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Account makes the agent of a Site work as the service account fleet-agent in its
// own cluster, with the rights that the chart gives it, and no more.
func (s *Site) Account() {
	s.Helper()
	s.Own = s.Down.Account(s.TB, s.Namespace, "fleet-agent")
	s.Down.Allow(s.TB, rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "fleet-agent"}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
}

// Administrator is the kubeconfig of somebody who may do everything in a cluster,
// whom its audit log knows by a name of its own.
func (h *Hub) Administrator(t testing.TB, who string) []byte {
	t.Helper()
	account := h.Account(t, "kube-system", who)
	h.Allow(t, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: who}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	return h.Kubeconfig(account.BearerToken)
}
