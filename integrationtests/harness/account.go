package harness

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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

// bearer is a connection with a token as its only credential.
func (h *Hub) bearer(token string) *rest.Config {
	out := rest.AnonymousClientConfig(h.Cluster.REST())
	out.BearerToken = token
	return out
}

// Allow gives a service account rights: in one namespace, or everywhere where that
// is empty. It returns when the API server goes by them: it learns of a role and of
// its binding in its own time.
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
	for _, rule := range rules {
		Wait(t, Timeout, fmt.Sprintf("%s may %v", who.Name, rule), func() bool { return h.may(t, who, namespace, rule) })
	}
}

// Revoke takes away from a service account all rights that it has everywhere, and
// returns when the API server goes by that.
func (h *Hub) Revoke(t testing.TB, who rbacv1.Subject) {
	t.Helper()
	bindings, roles := kube.StoreOf[*rbacv1.ClusterRoleBinding](h.Admin), kube.StoreOf[*rbacv1.ClusterRole](h.Admin)
	list, err := bindings.List(t.Context(), "", "")
	must(t, err)
	var rules []rbacv1.PolicyRule
	for _, b := range list {
		if !slices.Contains(b.Subjects, who) {
			continue
		}
		role, err := roles.Get(t.Context(), kube.Key{Name: b.RoleRef.Name})
		must(t, err)
		rules = append(rules, role.Rules...)
		must(t, bindings.Delete(t.Context(), kube.KeyOf(b), kube.Precondition{}))
	}
	for _, rule := range rules {
		Wait(t, Timeout, fmt.Sprintf("%s may not %v", who.Name, rule), func() bool { return !h.may(t, who, "", rule) })
	}
}

// may reports whether the API server lets a service account do the first thing that a
// rule is about.
func (h *Hub) may(t testing.TB, who rbacv1.Subject, namespace string, rule rbacv1.PolicyRule) bool {
	t.Helper()
	ask := authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + who.Namespace + ":" + who.Name}
	if len(rule.Resources) == 0 {
		ask.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: rule.Verbs[0], Path: rule.NonResourceURLs[0]}
	} else {
		resource, sub, _ := strings.Cut(rule.Resources[0], "/")
		ask.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: sub,
		}
		if len(rule.ResourceNames) > 0 {
			ask.ResourceAttributes.Name = rule.ResourceNames[0]
		}
	}
	return h.Allows(t, ask)
}

// Allows reports whether the API server grants what ask asks for.
func (h *Hub) Allows(t testing.TB, ask authorizationv1.SubjectAccessReviewSpec) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: ask}
	answer, err := h.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Allowed
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

// Administrator is a kubeconfig with all rights in a cluster, for an account of
// its own that the audit log names.
func (h *Hub) Administrator(t testing.TB, who string) []byte {
	t.Helper()
	account := h.Account(t, "kube-system", who)
	h.Allow(t, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: who}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	return h.Kubeconfig(account.BearerToken)
}
