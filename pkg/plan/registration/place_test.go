package registration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// A Cluster of rancher/fleet has status.namespace and no annotation of ours; its
// namespace names it in annotations.
func TestPlaceOf(t *testing.T) {
	const own, other = "fleet-default/c1", "fleet-default/c2"
	ours := naming.ClusterNamespace("fleet-default", "c1")
	theirs := naming.ClusterNamespace("fleet-default", "c2")
	cases := map[string]struct {
		why        string
		annotation string
		status     string
		owners     Owners
		want       string
		refused    string // part of the text
	}{
		"Reference":             {"name, status and the namespace's own annotations agree", "", ours, Owners{ours: own}, ours, ""},
		"SecondNamespace":       {"who may create namespaces must not be able to stop deployments", "", ours, Owners{ours: own, "cluster-x": own}, ours, ""},
		"StatusEmpty":           {"an existing namespace is not adopted for a new Cluster", "", "", Owners{ours: own}, "", NoNamespaceYet},
		"StatusNamesAnother":    {"an agent may write the status of its Cluster", "", theirs, Owners{ours: own, theirs: other}, "", "naming rule"},
		"StatusNamesForeign":    {"a namespace of any other name is not the Cluster's, whatever it says", "", "evil", Owners{ours: own, "evil": own}, "", "naming rule"},
		"NamespaceSaysNothing":  {"a namespace without Fleet's marks was not made for a Cluster", "", ours, Owners{}, "", "is not there"},
		"NamespaceNamesAnother": {"one namespace is of one Cluster", "", ours, Owners{ours: other}, "", "belongs to Cluster " + other},
		"Marked":                {"the default manager is this project's and has chosen", "ns", "ns", Owners{}, "ns", ""},
		"MarkedAndOfAnother":    {"who edits a Cluster must not reach another's namespace", theirs, theirs, Owners{theirs: other}, "", "belongs to Cluster " + other},
		"MarkedAndStatusDiffer": {"see decision 11", ours, theirs, Owners{ours: own}, "", NoNamespaceYet},
		"DefaultManager":        {"it marks the Cluster first", "", ours, nil, "", NoNamespaceYet},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cl := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c1"}}
			cl.Status.Namespace = c.status
			if c.annotation != "" {
				cl.Annotations = map[string]string{AnnotationDeploymentNamespace: c.annotation}
			}
			got, why := PlaceOf(cl, c.owners)
			if got != c.want || (why == "") != (c.refused == "") || !strings.Contains(why, c.refused) {
				t.Errorf("%s: got %q, %q, want %q, %q", c.why, got, why, c.want, c.refused)
			}
		})
	}
}
