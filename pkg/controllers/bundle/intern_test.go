package bundle

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Two deployments hold the same texts in the same memory, and nothing else
// than before.
func TestListsShareTexts(t *testing.T) {
	made := func(cluster string) *fleet.BundleDeployment {
		of := func(s string) string { return strings.Clone(s) }
		bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: of("app"), Namespace: of("ns-" + cluster),
			Labels: map[string]string{of("bundle"): of("app"), of("cluster"): of(cluster)}, Annotations: map[string]string{of("hash"): of("x")}}}
		bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID = of("s-1:2"), of("s-1:2"), of("s-1:2")
		bd.Status.Conditions = []fleet.Condition{{Type: of("Ready"), Status: "True", Message: of("fine"), LastUpdateTime: of("2026-11-21T17:00:00Z")}}
		return bd
	}
	s := newInterner()
	a, b := made("c1"), made("c2")
	for _, bd := range []*fleet.BundleDeployment{a, b} {
		want := bd.DeepCopy()
		s.deployment(bd)
		if d := cmp.Diff(want, bd); d != "" {
			t.Errorf("sharing changes nothing: -want +got\n%s", d)
		}
	}
	same := func(what, x, y string) {
		t.Helper()
		if unsafe.StringData(x) != unsafe.StringData(y) {
			t.Errorf("%s: %q is kept twice", what, x)
		}
	}
	same("name", a.Name, b.Name)
	same("label", a.Labels["bundle"], b.Labels["bundle"])
	same("annotation", a.Annotations["hash"], b.Annotations["hash"])
	same("deployment id", a.Spec.DeploymentID, b.Status.AppliedDeploymentID)
	same("condition", a.Status.Conditions[0].Message, b.Status.Conditions[0].Message)

	for n := range 3 * maxTexts {
		s.text(fmt.Sprint(n))
	}
	if len(s.texts) > maxTexts {
		t.Errorf("%d texts are kept", len(s.texts))
	}
	if got := s.text("again"); got != "again" {
		t.Errorf("got %q", got)
	}
}
