package get

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// strayNamespaces are the namespaces of GitRepos and Bundles that match no cluster, by name.
func (o Options) strayNamespaces(entries []tableEntry) []string {
	if o.kind.Plural != "repos" && o.kind.Plural != "bundles" {
		return nil
	}
	var out []string
	for _, e := range entries {
		if untargeted(e.object) {
			out = append(out, e.object.GetNamespace())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func untargeted(u *unstructured.Unstructured) bool {
	o, err := client.Convert[struct {
		Status struct {
			Conditions []fleet.Condition `json:"conditions"`
		} `json:"status"`
	}](u)
	return err == nil && view.Untargeted(o.Status.Conditions)
}
