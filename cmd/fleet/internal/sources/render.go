package sources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// KnownOf returns the clusters and groups that were read. If no group was read, the
// groups are unknown.
func KnownOf(where string, clusters []*fleet.Cluster, groups []*fleet.ClusterGroup) lint.Known {
	known := lint.Known{Where: where}
	for _, c := range clusters {
		known.Clusters = append(known.Clusters, plantarget.NamesOf(c.Name, c.Labels)...)
	}
	for _, g := range groups {
		known.Groups = append(known.Groups, g.Name)
	}
	return known
}

// RecentKubernetes is the version that charts see unless another is given.
const RecentKubernetes = schema.Linked

// NewEmptySelector returns a selector that selects everything.
func NewEmptySelector() *metav1.LabelSelector { return &metav1.LabelSelector{} }

// NothingRendered is what to say where no object is rendered.
const NothingRendered = "nothing is rendered: no object is left to deploy"

// WithValues are the options of a version with its Helm values.
func WithValues(v deployment.Version) (fleet.BundleDeploymentOptions, error) {
	return options.WithValues(v.Options, v.Values)
}
