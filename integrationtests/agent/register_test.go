package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An agent registers with a token that may do nothing but ask, forgets it, and
// joins again with a new one when its credential was revoked.
func TestAgentRegisters(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	ctx := t.Context()
	_, err := kube.StoreOf[*corev1.Namespace](w.admin).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet.NamespaceRegistration}})
	must(t, err)
	_, err = kube.StoreOf[*corev1.ConfigMap](w.admin).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: fleet.ConfigMapAgent},
		Data:       map[string]string{fleet.KeyConfig: `{"agentTLSMode": "strict", "clientID": "me", "labels": {"env": "prod"}}`},
	})
	must(t, err)
	w.allowAsking()
	w.bootstrap()
	w.start()

	request := w.request("")
	if request.Spec.ClientID != "me" || len(request.Spec.ClientRandom) < 26 || request.Spec.ClusterLabels["env"] != "prod" ||
		request.Labels[fleet.LabelRegistrationToken] != "tok" || !strings.HasPrefix(request.Name, "request-") {
		t.Errorf("request %+v", request)
	}
	w.answer(request)
	w.checkedIn(time.Time{})
	secrets := kube.StoreOf[*corev1.Secret](w.admin)
	gone := func() bool {
		_, err := secrets.Get(ctx, kube.Key{Namespace: agentNS, Name: fleet.SecretAgentBootstrap})
		return kube.IsGone(err)
	}
	harness.Wait(t, harness.Timeout, "the token is forgotten", gone)
	w.order("joined", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.state("joined", fleet.Ready)

	// The credential is revoked: nothing happens until there is a new token.
	all, err := secrets.List(ctx, deployNS, "")
	must(t, err)
	for _, s := range all {
		if s.Type == corev1.SecretTypeServiceAccountToken {
			must(t, secrets.Delete(ctx, kube.KeyOf(s), kube.Precondition{}))
		}
	}
	contact := func() map[string]string {
		cm, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(ctx, kube.Key{Namespace: agentNS, Name: "fleet-agent-contact"})
		must(t, err)
		return cm.Data
	}
	harness.Wait(t, harness.Timeout, "the refusal is noticed", func() bool { return contact()["refused"] == "true" })
	if w.data("joined", "a") != "one" {
		t.Error("something was removed")
	}
	revoked := time.Now()
	w.bootstrap()
	second := w.request(request.Name)
	if second.Spec.ClientID != "me" || second.Spec.ClientRandom == request.Spec.ClientRandom {
		t.Errorf("second request %+v", second.Spec)
	}
	w.answer(second)
	w.checkedIn(revoked)
	harness.Wait(t, harness.Timeout, "the new token is forgotten", gone)
	w.order("joined", spec{files: []string{"a.yaml", cm("a", "two")}})
	w.state("joined", fleet.Ready)
}

// allowAsking makes the account of a registration token.
func (w *agentWorld) allowAsking() {
	w.Helper()
	ctx := w.Context()
	_, err := kube.StoreOf[*corev1.ServiceAccount](w.admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "tok"}})
	must(w.T, err)
	_, err = w.client.RbacV1().Roles(workspace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tok"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{fleet.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = w.client.RbacV1().RoleBindings(workspace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tok"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tok"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: workspace, Name: "tok"}},
	}, metav1.CreateOptions{})
	must(w.T, err)
}

// bootstrap writes the Secret that the chart writes.
func (w *agentWorld) bootstrap() {
	w.Helper()
	b := registration.Bootstrapping{
		APIServerURL: w.cluster.REST().Host, APIServerCA: caOf(w.T, w.cluster.REST()),
		Token: w.token(workspace, "tok"), TokenName: "tok", ClusterNamespace: workspace, RegistrationNamespace: fleet.NamespaceRegistration,
	}
	_, err := kube.StoreOf[*corev1.Secret](w.admin).Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: fleet.SecretAgentBootstrap}, Data: b.Data(),
	})
	must(w.T, err)
}

// request waits for a request other than the one that is known.
func (w *agentWorld) request(known string) *fleet.ClusterRegistration {
	w.Helper()
	var out *fleet.ClusterRegistration
	harness.Wait(w.T, harness.Timeout, "the agent asks", func() bool {
		list, err := kube.StoreOf[*fleet.ClusterRegistration](w.admin).List(w.Context(), workspace, "")
		must(w.T, err)
		for _, r := range list {
			if r.Name != known {
				out = r
			}
		}
		return out != nil
	})
	return out
}

// answer grants a request.
func (w *agentWorld) answer(r *fleet.ClusterRegistration) {
	w.Helper()
	ctx := w.Context()
	name := naming.RegistrationSecret(r.Spec.ClientID, r.Spec.ClientRandom)
	in := fleet.NamespaceRegistration
	_, err := w.client.RbacV1().Roles(in).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = w.client.RbacV1().RoleBindings(in).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: workspace, Name: "tok"}},
	}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = kube.StoreOf[*corev1.Secret](w.admin).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}, Type: fleet.SecretTypeAgentCredential,
		Data: map[string][]byte{
			"token": []byte(w.token(deployNS, "request")), "deploymentNamespace": []byte(deployNS), "clusterNamespace": []byte(workspace),
			"clusterName": []byte("c1"), "systemNamespace": []byte(agentNS),
		},
	})
	must(w.T, err)
}

// checkedIn waits for a sign of life after a time.
func (w *agentWorld) checkedIn(after time.Time) {
	w.Helper()
	harness.Wait(w.T, harness.Timeout, "the agent checks in", func() bool {
		c, err := w.clusters.Get(w.Context(), kube.Key{Namespace: workspace, Name: "c1"})
		must(w.T, err)
		return c.Status.Agent.LastSeen.After(after.Add(time.Second))
	})
}
