package helm

import (
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// mayNotBeEmpty reports whether it would be a mistake if nothing were left of a release
// that had objects. A bundle without a chart of its own is never meant to be empty;
// with a chart a user may have switched everything off by an option, but not while the
// options are unchanged.
func mayNotBeEmpty(d Deployment, p bundleFiles, before []record) bool {
	if d.Options.AllowEmpty || !hasObjects(before) {
		return false
	}
	if _, own := chartDir(p.files, d.helm()); !own {
		return true
	}
	was := optionsOf(lastGood(before))
	return was != "" && was == optionsOf(d.Memory.DeploymentID)
}

// lastGood is the deployment id of the newest revision that was deployed, else of
// the newest of all; empty if another implementation made it.
func lastGood(list []record) string {
	id := ""
	for _, r := range list {
		if r.readable && (r.Info.Status == release.Deployed || id == "") {
			id = readMemory(r.Chart.Metadata.Annotations).DeploymentID
		}
	}
	return id
}

// optionsOf is the half of a deployment id that identifies the options.
func optionsOf(deploymentID string) string {
	_, options, _ := strings.Cut(deploymentID, ":")
	return options
}
