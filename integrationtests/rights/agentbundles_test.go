package rights_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// bundlesOfAgents tries to get around the limits of a workspace with the name of an agent's
// Bundle, as a user who may write all Bundles there.
func bundlesOfAgents(t *testing.T, w *world) {
	w = w.in(t)
	w.hub.Account(w, fleet.NamespaceDefault, "publisher")
	who := rbacv1.Subject{Kind: "ServiceAccount", Namespace: fleet.NamespaceDefault, Name: "publisher"}
	w.hub.Allow(w, who, fleet.NamespaceDefault, rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: []string{"bundles"}, Verbs: []string{"get", "create", "update", "patch"}})
	mine := kube.StoreOf[*fleet.Bundle](w.as(w.accountToken("publisher")))
	bundle := func(name string, labels map[string]string) *fleet.Bundle {
		b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name, Labels: labels}}
		b.Spec.Paused = true
		return b
	}
	ofGitRepo := map[string]string{fleet.LabelRepoName: "none"}
	refused := func(err error) bool {
		return kube.IsForbidden(err) && strings.Contains(fmt.Sprint(err), "takes the verb redirect")
	}
	w.until("the policy holds", func() bool {
		_, err := mine.Create(w.Context(), bundle("fleet-agent-east", nil))
		return refused(err)
	})
	for name, b := range map[string]*fleet.Bundle{"OtherName": bundle("fleet-agents", nil), "OfGitRepo": bundle("fleet-agent-west", ofGitRepo)} {
		if _, err := mine.Create(w.Context(), b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	west := kube.Key{Namespace: fleet.NamespaceDefault, Name: "fleet-agent-west"}
	patch := func(store *kube.Store[*fleet.Bundle], text string) error {
		_, err := store.PatchRaw(w.Context(), west, types.MergePatchType, []byte(text))
		return err
	}
	if err := patch(mine, `{"metadata":{"labels":null}}`); !refused(err) {
		t.Errorf("without its label the Bundle would be that of an agent, got %v", err)
	}
	admin := kube.StoreOf[*fleet.Bundle](w.hub.Admin)
	if err := patch(admin, `{"metadata":{"labels":null}}`); err != nil {
		t.Errorf("who may lead agents may: %v", err)
	}
	for name, text := range map[string]string{"Spec": `{"spec":{"paused":false}}`, "Pull": `{"metadata":{"annotations":{"fleet.cattle.io/pull":"x"}}}`} {
		if err := patch(mine, text); !refused(err) {
			t.Errorf("%s of an agent's Bundle: got %v", name, err)
		}
	}
	if err := patch(mine, `{"metadata":{"annotations":{"seen":"yes"}}}`); err != nil {
		t.Errorf("other annotations: %v", err)
	}
	for _, name := range []string{"fleet-agents", "fleet-agent-west"} {
		w.must(admin.Delete(w.Context(), kube.Key{Namespace: fleet.NamespaceDefault, Name: name}, kube.Precondition{}))
	}
}
