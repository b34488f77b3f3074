package agentmanagement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The Secrets of a registration token that the reference has made bear no label of
// ours. A manager adopts them when it starts, and makes them again when they are deleted.
func adoptedSecrets(t *testing.T, g *managerProcess) {
	const token = "of-the-reference"
	g.token(fleet.NamespaceDefault, token, 0)
	tokens, secrets := kube.StoreOf[*fleet.ClusterRegistrationToken](g.admin), kube.StoreOf[*corev1.Secret](g.admin)
	made, err := tokens.Get(t.Context(), kube.Key{Namespace: fleet.NamespaceDefault, Name: token})
	if err != nil {
		t.Fatal(err)
	}
	g.halt()
	for _, name := range []string{token, naming.AccountToken(registration.TokenAccount(made))} {
		key := kube.Key{Namespace: fleet.NamespaceDefault, Name: name}
		harness.Revise(t, g.admin, key, func(s *corev1.Secret) { s.Labels = nil })
	}
	g.run()
	for _, name := range []string{token, naming.AccountToken(registration.TokenAccount(made))} {
		key := kube.Key{Namespace: fleet.NamespaceDefault, Name: name}
		var before *corev1.Secret
		until(t, "Secret "+name+" is adopted", func() bool {
			before, err = secrets.Get(t.Context(), key)
			return err == nil && before.Labels[fleet.LabelManagerID] == g.install.ID
		})
		if err := secrets.Delete(t.Context(), key, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		until(t, "Secret "+name+" is made again", func() bool {
			again, err := secrets.Get(t.Context(), key)
			return err == nil && again.UID != before.UID
		})
	}
}
