package fleetyaml

import (
	"reflect"

	"gopkg.in/yaml.v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// Targets are a file of targets: those that a GitRepo has in its specification.
type Targets struct {
	// Targets are the clusters that the bundles are for.
	Targets []fleet.BundleTarget `json:"targets,omitempty"`
	// TargetRestrictions are the only clusters that may be selected.
	TargetRestrictions []fleet.BundleTargetRestriction `json:"targetRestrictions,omitempty"`
}

// ParseTargets reads a file of targets. path is where it stands, for findings. With a
// finding of severity Error the Targets must not be used. It is decoded as fleet.yaml
// is, but a key that nothing reads is an error: without it the bundles may go to other
// clusters.
func ParseTargets(path string, data []byte) (Targets, []finding.Finding) {
	c := &checker{path: path, unknown: finding.Error, belongs: belongsInTargets}
	root, found := c.firstDocument(data)
	if root == nil {
		return Targets{}, found
	}
	c.checkValue(root, decodeTarget{reflect.TypeFor[Targets](), "", true})
	if finding.HasErrors(c.found) {
		return Targets{}, c.sortedFindings()
	}
	targets, err := decodeAs[Targets](data)
	if err != nil {
		line, _, text := syntax(data, err)
		c.addFinding(&yaml.Node{Line: line}, finding.Error, finding.RuleType, "cannot be read: "+text, "")
	}
	targets.validate(&validator{f: &File{Path: path, root: root}, c: c})
	return targets, c.sortedFindings()
}

// validate refuses selectors that cannot be used, as in fleet.yaml.
func (t *Targets) validate(v *validator) {
	for i := range t.Targets {
		v.selector(t.Targets[i].ClusterSelector, "targets", i, "clusterSelector")
		v.selector(t.Targets[i].ClusterGroupSelector, "targets", i, "clusterGroupSelector")
	}
	for i := range t.TargetRestrictions {
		v.selector(t.TargetRestrictions[i].ClusterSelector, "targetRestrictions", i, "clusterSelector")
		v.selector(t.TargetRestrictions[i].ClusterGroupSelector, "targetRestrictions", i, "clusterGroupSelector")
	}
}

// belongsInTargets is where a key that is unknown in a place of a file of targets is
// known. It is empty for others.
func belongsInTargets(key string, s decodeTarget) string {
	if _, selects := fields(reflect.TypeFor[fleet.GitTarget]())[key]; selects && s.where == "" {
		return "it belongs in an entry of targets"
	}
	return properPlace(key, s)
}
