package monitor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// contentNamedBy returns the name of the Content that a Bundle names instead of holding resources;
// empty if it names none.
func contentNamedBy(b *fleet.Bundle) string {
	if b.Spec.ContentsID != "" || deployment.PulledByAgents(&b.Spec) {
		return ""
	}
	return b.Annotations[fleet.AnnotationContent]
}

// bundle looks for the faults of a Bundle. Bundles of HelmOps, of a user and of agents have no
// GitRepo.
func (j *judge) bundle(b BundleObject) {
	j.finalizers("Bundle", b)
	if b.DeletionTimestamp != nil {
		j.found.BundlesWithDeletionTimestamp++
	}
	if isLeaving(b) {
		return
	}
	add := func(to *[]Bundle, issue string) {
		if issue != "" {
			entry := newBundle(b)
			entry.Issue = issue
			*to = append(*to, entry)
		}
	}
	if b.Bytes > gitrepo.InlineBytes {
		add(&j.found.LargeBundles, fmt.Sprintf("%d KiB", b.Bytes>>10))
	}
	if issue := j.lacksContent(b.Bundle); issue != "" {
		j.withoutContent[keyOf(b)] = true
		add(&j.found.BundlesWithMissingContent, issue)
	}
	if !j.in.isSettled(b) {
		return
	}
	add(&j.found.BundlesWithMissingGitRepo, j.lacksGitRepo(b.Bundle))
	j.valuesOf(b, b.Spec.ValuesHash, fleet.SecretTypeBundleValues)
	if j.in.Suspended {
		return
	}
	if b.Generation != b.Status.ObservedGeneration {
		add(&j.found.BundlesWithGenerationMismatch, generationText(b.Generation, b.Status.ObservedGeneration))
		return
	}
	add(&j.found.BundlesWithNoDeployments, j.lacksDeployments(b.Bundle))
}

// lacksDeployments returns why a Bundle that has targets has no BundleDeployment.
func (j *judge) lacksDeployments(b *fleet.Bundle) string {
	_, read := j.in.Reach[Deployments]
	all := j.in.Reach[Deployments].All
	switch {
	case !read, b.Spec.Paused, len(b.Spec.Targets) == 0, j.deployed[keyOf(b)] > 0:
		return ""
	case b.Status.Summary.DesiredReady == 0:
		return "its targets match no cluster"
	case !all:
		return "" // they may be where the user sees none
	}
	return fmt.Sprintf("it has %d clusters and no BundleDeployment", b.Status.Summary.DesiredReady)
}

func (j *judge) lacksGitRepo(b *fleet.Bundle) string {
	name := b.Labels[fleet.LabelRepoName]
	if name == "" || !j.in.covers(GitRepos, b.Namespace) || j.repos[types.NamespacedName{Namespace: b.Namespace, Name: name}] != nil {
		return ""
	}
	return fmt.Sprintf("GitRepo %q does not exist", name)
}

func (j *judge) lacksContent(b *fleet.Bundle) string {
	id := contentNamedBy(b)
	if _, exists := j.contents[id]; id == "" || exists || !j.in.covers(Contents, "") {
		return ""
	}
	return fmt.Sprintf("Content %q does not exist", id)
}

// contentsOf returns the names of the Contents that a BundleDeployment uses. Its resources may be in a
// registry, or in a chart that the agent downloads.
func contentsOf(bd *fleet.BundleDeployment) []string {
	if bd.Spec.OCIContents || bd.Spec.HelmChartOptions != nil || bd.Annotations[fleet.AnnotationWithdrawn] != "" {
		return nil
	}
	var out []string
	for _, id := range []string{bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID} {
		if name := contentName(id); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func contentName(deploymentID string) string {
	name, _, _ := strings.Cut(deploymentID, ":")
	return name
}
