package bundle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// TestWithheldSources: what a Bundle names is judged with what its namespace uses
// Secrets for, and with the setting of the manager.
func TestWithheldSources(t *testing.T) {
	s := scene(t, 1, func(b *fleet.Bundle) {
		b.Spec.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "named"}}
		b.Spec.HelmOpOptions = &fleet.BundleHelmOptions{SecretName: "charts"}
	})
	s.secretUses = []deployment.SecretUse{{Namespace: "ns", Name: "named", For: "the kubeconfig of Cluster \"east\""}}
	named, charts, other := deployment.Source{Kind: deployment.KindSecret, Name: "named"}, deployment.Source{Kind: deployment.KindSecret, Name: "charts"}, deployment.Source{Kind: deployment.KindSecret, Name: "other"}
	e := &copyController{base: &base{}}
	for _, c := range []struct {
		one     deployment.Source
		typ     corev1.SecretType
		require bool
		want    string
	}{
		{other, fleet.SecretTypeRegistrationValues, false, "cluster-registration-values"},
		{other, corev1.SecretTypeServiceAccountToken, false, "service-account-token"},
		{named, corev1.SecretTypeOpaque, false, "kubeconfig of Cluster"},
		{charts, fleet.SecretTypeBundleValues, false, "bundle-values"},
		{charts, corev1.SecretTypeOpaque, true, ""},
		{named, corev1.SecretTypeOpaque, true, "requireLabel"},
	} {
		e.cfg.RequireDownstreamLabel = c.require
		if got := e.withheldReason(s, c.one, deployment.Origin{Type: c.typ}); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s of type %s: got %q, want %q", c.one, c.typ, got, c.want)
		}
	}
	err := withheldError([]string{"a", "b", "c"})
	if reconcile.ReasonOf(err) != deployment.ReasonWithheld || err.Error() != "downstreamResources: a (and 2 more)" {
		t.Errorf("got %v", err)
	}
}
