package target

import (
	"fmt"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Groups are the cluster groups of one workspace, compiled.
type Groups struct {
	members []membership
}

type membership struct {
	group    Group
	selector labels.Selector
}

// CompileGroups prepares the cluster groups of one workspace. A group without selector has
// no members. The errors name the groups whose selector cannot be read; these have no
// members either, and do not affect the others.
func CompileGroups(groups []*fleet.ClusterGroup) (Groups, []error) {
	var out Groups
	var errs []error
	for _, g := range groups {
		if g.Spec.Selector == nil {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(g.Spec.Selector)
		if err != nil {
			errs = append(errs, fmt.Errorf("selector of cluster group %q: %w", g.Name, err))
			continue
		}
		out.members = append(out.members, membership{group: Group{Name: g.Name, Labels: g.Labels}, selector: s})
	}
	sort.Slice(out.members, func(i, j int) bool {
		return out.members[i].group.Name < out.members[j].group.Name
	})
	return out, errs
}

// Selecting returns the groups that select a cluster with these labels, by name.
func (g Groups) Selecting(set map[string]string) []Group {
	var out []Group
	for i := range g.members {
		if g.members[i].selector.Matches(labels.Set(set)) {
			out = append(out, g.members[i].group)
		}
	}
	return out
}
