package rights_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/rights"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// ownSecret is the Secret that the documented Role of a team names.
const ownSecret = "team-git"

// kubeconfigText is the data of a kubeconfig's Secret here.
const kubeconfigText = "a kubeconfig of an administrator"

// secretsOfAWorkspace tries to get at Secrets of a workspace by writing them: as a user
// with the Role that was recommended before this version, which may write all of them,
// and with the one of today.
func secretsOfAWorkspace(t *testing.T, w *world) {
	w = w.in(t)
	everything := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "update", "patch", "delete", "deletecollection"}}
	w.hub.Account(w, fleet.NamespaceDefault, "former")
	w.hub.Allow(w, rbacv1.Subject{Kind: "ServiceAccount", Namespace: fleet.NamespaceDefault, Name: "former"}, fleet.NamespaceDefault, everything)
	for _, name := range []string{"east-kubeconfig", ownSecret} {
		_, err := kube.StoreOf[*corev1.Secret](w.hub.Admin).Create(w.Context(), secret(name, map[string][]byte{"value": []byte(kubeconfigText)}))
		w.must(err)
	}
	labelled := func() bool {
		ns, _ := get[*corev1.Namespace](w, "", fleet.NamespaceDefault)
		return ns.Labels[fleet.LabelWorkspace] == "true"
	}
	w.until("the manager has labelled the workspace", labelled)
	change(w, kube.Key{Name: fleet.NamespaceDefault}, func(n *corev1.Namespace) { delete(n.Labels, fleet.LabelWorkspace) })
	w.until("the manager labels it again", labelled)
	marker := base64.StdEncoding.EncodeToString([]byte(kubeconfigText))
	shown := func(token, name, marker string) []string {
		return rights.Shown(t, kube.Access{URL: w.hub.Cluster.URL(), CA: w.hub.Cluster.CA(), Token: token}.REST(), fleet.NamespaceDefault, name, marker)
	}
	former, today := w.accountToken("former"), w.accountToken("team")
	w.until("the policy holds", func() bool { return kube.IsForbidden(w.relabel(former, ownSecret)) })

	if got := rights.Shown(t, w.hub.Cluster.REST(), fleet.NamespaceDefault, "east-kubeconfig", marker); !slices.Contains(got, "merge patch, dry") ||
		!slices.Contains(got, "update, dry") && !slices.Contains(got, "apply, dry") {
		t.Errorf("an administrator reads by writing, else this test proves nothing: %v", got)
	}
	values, _ := get[*corev1.Secret](w, fleet.NamespaceDefault, "all")
	for name, marker := range map[string]string{
		"east-kubeconfig": marker, "all": base64.StdEncoding.EncodeToString(values.Data[fleet.KeyValues])[:64],
	} {
		for who, token := range map[string]string{"former Role": former, "today's Role": today} {
			if got := shown(token, name, marker); len(got) > 0 {
				t.Errorf("%s: Secret %s is shown by: %s", who, name, strings.Join(got, ", "))
			}
		}
	}
	if got := shown(today, ownSecret, marker); !slices.Contains(got, "get") {
		t.Errorf("a team reads its own Secret, got %v", got)
	}
	if err := w.relabel(today, ownSecret); err != nil {
		t.Errorf("a team changes its own Secret: %v", err)
	}
	w.created(t, former)
}

// relabel changes a label of a Secret with a token.
func (w *world) relabel(token, name string) error {
	_, err := kube.StoreOf[*corev1.Secret](w.as(token)).PatchRaw(w.Context(), kube.Key{Namespace: fleet.NamespaceDefault, Name: name},
		types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))
	return err
}

// created tries what a user who may make Secrets can put into one.
func (w *world) created(t *testing.T, token string) {
	mine := kube.StoreOf[*corev1.Secret](w.as(token))
	stolen := secret("stolen", nil)
	stolen.Type, stolen.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
	redirects := func(key string) *corev1.Secret {
		return secret("redirects", map[string][]byte{"value": []byte("x"), key: []byte("https://evil.example.com")})
	}
	for name, c := range map[string]struct {
		secret *corev1.Secret
		says   string // empty: it is made
	}{
		"Plain":   {secret("plain", map[string][]byte{"username": []byte("u")}), ""},
		"Token":   {stolen, "serviceaccounts/token"},
		"Address": {redirects("apiServerURL"), "redirect"},
		"CA":      {redirects("apiServerCA"), "redirect"},
	} {
		_, err := mine.Create(w.Context(), c.secret)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: want a refusal that says %q, got %v", name, c.says, err)
		}
	}
	err := w.relabel(token, "plain")
	if !kube.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "admission.secrets") {
		t.Errorf("want what helps, got %v", err)
	}
	// Who may redirect agents may.
	who := rbacv1.Subject{Kind: "ServiceAccount", Namespace: fleet.NamespaceDefault, Name: "former"}
	w.hub.Allow(w, who, fleet.NamespaceDefault, rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: []string{"clusters"}, Verbs: []string{"redirect"}})
	if _, err := mine.Create(w.Context(), redirects("apiServerURL")); err != nil {
		t.Errorf("who may redirect agents may: %v", err)
	}
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name}, Data: data}
}
