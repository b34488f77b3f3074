package monitor

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deployment looks for the faults of a BundleDeployment.
func (j *judge) deployment(bd *fleet.BundleDeployment) {
	j.finalizers("BundleDeployment", bd)
	if bd.DeletionTimestamp != nil {
		j.found.BundleDeploymentsWithDeletionTimestamp++
	}
	add := func(to *[]Deployment, issue string) {
		if issue != "" {
			entry := newDeployment(bd)
			entry.Issue = issue
			*to = append(*to, entry)
		}
	}
	add(&j.found.StuckBundleDeployments, j.stuck(bd))
	if isLeaving(bd) {
		return
	}
	if behind := behindSync(bd); behind != "" && j.isOverdue(bd, changedAt(bd)) && !isHeld(bd) {
		add(&j.found.BundleDeploymentsWithSyncGenerationMismatch, behind)
	}
	j.checkContents(bd)
	if !j.in.isSettled(bd) {
		return
	}
	add(&j.found.BundleDeploymentsWithMissingBundle, j.lacksBundle(bd))
	j.valuesOf(bd, bd.Spec.ValuesHash, fleet.SecretTypeBundleDeployment)
}

// isHeld reports whether the agent is to leave the cluster as it is.
func isHeld(bd *fleet.BundleDeployment) bool {
	return bd.Spec.Paused || bd.Spec.OffSchedule || bd.Spec.WaitingForValues
}

// stuck returns why a BundleDeployment does not get any further; empty if it does, or if its agent has
// not had the time.
func (j *judge) stuck(bd *fleet.BundleDeployment) string {
	since := changedAt(bd)
	if bd.DeletionTimestamp != nil {
		since = bd.DeletionTimestamp.Time
	}
	if !j.isOverdue(bd, since) {
		return ""
	}
	age := j.in.Now.Sub(since).Round(time.Second)
	switch {
	case bd.DeletionTimestamp != nil:
		return fmt.Sprintf("it was deleted %s ago, finalizers %q keep it", age, bd.Finalizers)
	case bd.Annotations[fleet.AnnotationWithdrawn] != "":
		return fmt.Sprintf("the agent was ordered to uninstall it %s ago", age)
	case isHeld(bd):
		return ""
	case bd.Spec.DeploymentID != bd.Status.AppliedDeploymentID:
		return fmt.Sprintf("the agent has not applied the version of %s ago", age)
	}
	return behindSync(bd)
}

func behindSync(bd *fleet.BundleDeployment) string {
	want := bd.Spec.Options.ForceSyncGeneration
	have := bd.Status.SyncGeneration
	switch {
	case want <= 0 || have != nil && *have == want:
		return ""
	case have == nil:
		return fmt.Sprintf("forceSyncGeneration is %d, none was applied", want)
	}
	return fmt.Sprintf("forceSyncGeneration is %d, %d was applied", want, *have)
}

// isOverdue reports whether the agent of a BundleDeployment has checked in after a change and Grace. An
// agent that is away has not; its Cluster is the fault, unless it is away by plan. If the Cluster
// does not exist, no agent is expected to do anything, and the change is overdue after Grace.
func (j *judge) isOverdue(bd *fleet.BundleDeployment, since time.Time) bool {
	if j.in.Now.Sub(since) < Grace {
		return false
	}
	cluster := clusterOf(bd)
	c, exists := j.clusters[cluster]
	if !exists {
		return j.in.covers(Clusters, cluster.Namespace)
	}
	return c.LastSeen.Sub(since) >= Grace
}

func (j *judge) lacksBundle(bd *fleet.BundleDeployment) string {
	bundle := bundleOf(bd)
	if bundle.Name == "" || bd.Annotations[fleet.AnnotationKept] != "" || !j.in.covers(Bundles, bundle.Namespace) {
		return ""
	}
	if _, exists := j.bundles[bundle]; exists {
		return ""
	}
	return fmt.Sprintf("Bundle %q does not exist", bundle)
}

// checkContents reports a BundleDeployment whose present or next Content is missing or being deleted.
func (j *judge) checkContents(bd *fleet.BundleDeployment) {
	if len(contentsOf(bd)) == 0 || !j.in.covers(Contents, "") {
		return
	}
	issue := ContentIssue{
		Namespace: bd.Namespace, Name: bd.Name, ContentName: contentName(bd.Spec.DeploymentID),
		StagedContentName: contentName(bd.Spec.StagedDeploymentID), AppliedContentName: contentName(bd.Status.AppliedDeploymentID),
	}
	now := j.checkContent(&issue, "", issue.ContentName)
	next := j.checkContent(&issue, "staged ", issue.StagedContentName)
	if len(issue.Issues) == 0 {
		return
	}
	issue.ContentExists = now != nil
	if now != nil {
		issue.ContentDeletionTimestamp = timeText(now.DeletionTimestamp)
	}
	staged := next != nil
	issue.StagedContentExists = &staged
	_, applied := j.contents[issue.AppliedContentName]
	issue.AppliedContentExists = &applied
	j.contentIssues = append(j.contentIssues, issue)
	if b, exists := j.bundles[bundleOf(bd)]; exists && !j.withoutContent[bundleOf(bd)] {
		j.withoutContent[bundleOf(bd)] = true
		entry := newBundle(b)
		entry.Issue = fmt.Sprintf("BundleDeployment %s: %s", types.NamespacedName{Namespace: bd.Namespace, Name: bd.Name}, issue.Issues[0])
		j.found.BundlesWithMissingContent = append(j.found.BundlesWithMissingContent, entry)
	}
}

func (j *judge) checkContent(issue *ContentIssue, what, name string) *ContentObject {
	if name == "" {
		return nil
	}
	c, exists := j.contents[name]
	switch {
	case !exists:
		issue.Issues = append(issue.Issues, fmt.Sprintf("%sContent %q does not exist", what, name))
		return nil
	case c.DeletionTimestamp != nil:
		issue.Issues = append(issue.Issues, fmt.Sprintf("%sContent %q is being deleted", what, name))
	}
	return &c
}

// content returns what a snapshot has of a Content, and counts it. used reports whether an object that
// was read uses it. The parts of a large Content are used by their index.
func (j *judge) content(c ContentObject) (shown Content, used bool) {
	j.finalizers("Content", &c)
	if c.DeletionTimestamp != nil {
		j.found.ContentsWithDeletionTimestamp++
	}
	id := c.Name
	if index := c.Labels[fleet.LabelContentOf]; index != "" {
		id = index
	}
	used = j.uses[id]+j.named[id] > 0
	if !used && j.in.Reach[Deployments].All && j.in.Reach[Bundles].All && j.in.isSettled(&c) {
		j.found.ContentsWithZeroReferenceCount++
	}
	return Content{Name: c.Name, Size: c.Bytes, Removal: removalOf(&c), ReferenceCount: j.uses[id]}, used
}
