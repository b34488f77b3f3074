package dryrun

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// noCustomization is what "# Matched:" says where no customization matches.
const noCustomization = "none"

// matchCluster decides for the cluster that the flags describe. A fleet.yaml without
// targets of its own is for the clusters that the GitRepo selects: the manager
// deploys it without a customization to those that no customization matches, and
// with mode AllMatches with all customizations that match.
func (in *testInput) matchCluster(compiled *deployment.Compiled, place *deployment.Place) (plantarget.Verdict, error) {
	v := compiled.Match(&place.Cluster)
	switch {
	case !in.customizes():
		return v, nil
	case v.Target < 0:
		v.Deploy, v.Target = true, len(in.Spec.Targets)
		v.Reason = "no customization matches: the options are those of " + in.file.Path + " without one; there are " + targetNames(in.Bundle)
		return v, nil
	case in.Spec.TargetCustomizationMode != fleet.TargetCustomizationAllMatches:
		return v, nil
	}
	every := fleet.GitTarget{ClusterSelector: sources.NewEmptySelector()}
	spec := in.Spec
	spec.Targets = append(slices.Clone(spec.Targets), bundle.TargetOf(every))
	spec.TargetRestrictions = []fleet.BundleTargetRestriction{bundle.RestrictionOf(every)}
	m, err := plantarget.Compile(&spec)
	if err != nil {
		return v, err
	}
	all := m.Match(&place.Cluster)
	if all.Deploy {
		all.Reason = v.Reason
	}
	return all, nil
}

// customizes reports whether the fleet.yaml has customizations and no targets of
// its own.
func (in *testInput) customizes() bool {
	place, _ := in.file.Target(0) // targets are before customizations
	return len(place) > 0 && place[0] == "targetCustomizations" && len(in.Spec.TargetRestrictions) == 0
}

// decidingNames are the names of the target that decided and of the customizations that
// apply. Where the GitRepo has the target, the first customization stands for it.
func (in *testInput) decidingNames(v plantarget.Verdict) (target string, customizations []string) {
	for _, i := range v.Customizations {
		customizations = append(customizations, preview.TargetName(in.Bundle, i))
	}
	n := len(in.Spec.Targets)
	switch {
	case n == 0 || v.Target < n:
		return preview.TargetName(in.Bundle, v.Target), customizations
	case len(customizations) == 0:
		return noCustomization, nil
	}
	return customizations[0], customizations[1:]
}

// maxBelow is how many bundles below a directory an error names.
const maxBelow = 10

// noBundle is the error for a directory without fleet.yaml that renders to nothing,
// such as the root of a repository. It names the bundles below.
func (o *Options) noBundle(in *testInput) error {
	if in.empty != "" {
		return fmt.Errorf("%w: %s", cli.ErrInput, in.empty)
	}
	var below []string
	dirs, _ := bundle.Discover(os.DirFS(in.root), []string{in.dir})
	for _, d := range dirs {
		if d.Path != in.dir && !d.Bare {
			below = append(below, d.Path)
		}
	}
	text := o.Dir + " has no fleet.yaml and no manifests"
	if n := len(below); n > maxBelow {
		below = append(below[:maxBelow], fmt.Sprintf("%d more", n-maxBelow))
	}
	if len(below) > 0 {
		text += "; bundles below it: " + strings.Join(below, ", ")
	}
	return fmt.Errorf("%w: nothing is rendered: %s", cli.ErrInput, text)
}
