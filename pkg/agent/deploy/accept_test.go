package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// The manager may write the Secret with the values before or after the BundleDeployment.
// Only the values of the desired version are accepted.
func TestValuesOfAnotherVersionAreNotAccepted(t *testing.T) {
	up := kubetest.New(t).Connect("test")
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	s := &snapshot{name: "web", bd: bd, session: &Session{Namespace: bd.Namespace, Secrets: kube.StoreOf[*corev1.Secret](up)}}
	if _, err := s.session.Secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: bd.ObjectMeta, Data: map[string][]byte{fleet.KeyValues: []byte(`{"replicas":1}`)},
	}); err != nil {
		t.Fatal(err)
	}
	s.spec.ValuesHash = options.DeploymentValuesHash([]byte(`{"replicas":1}`), nil)
	if got, err := values(t.Context(), s); err != nil || string(got) != `{"replicas":1}` {
		t.Errorf("want the values of the Secret, got %q, %v", got, err)
	}
	s.spec.ValuesHash = options.DeploymentValuesHash([]byte(`{"replicas":2}`), nil)
	if got, err := values(t.Context(), s); reconcile.ReasonOf(err) != reasonValues {
		t.Errorf("want a wait with reason %s, got %q, %v", reasonValues, got, err)
	}
}

// Content that is not the one of its id is not accepted. It is read again, since a user
// may repair the Content.
func TestDamagedContentIsNotAccepted(t *testing.T) {
	up := kubetest.New(t).Connect("test")
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: "a: 1"}}}
	other := content.Manifest{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: "a: 2"}}}
	s := &snapshot{name: "web", session: &Session{Contents: kube.StoreOf[*fleet.Content](up)}}
	id := content.ID(m)
	s.spec.DeploymentID = id + ":x"
	if _, err := s.session.Contents.Create(t.Context(), &fleet.Content{
		ObjectMeta: metav1.ObjectMeta{Name: id}, Content: content.Compress(content.Encode(other)),
	}); err != nil {
		t.Fatal(err)
	}
	_, err := (&payloads{}).fetchFiles(t.Context(), s)
	if reconcile.ReasonOf(err) != content.ReasonDamaged || !reconcile.IsRequeue(err) {
		t.Errorf("want a wait with reason %s, got %v", content.ReasonDamaged, err)
	}
}
