package view

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Test objects are in one workspace, of one repository, and well unless an
// option says otherwise.
const (
	space  = "shops"
	oldSHA = "aaaaaaa000000000000000000000000000000000"
	newSHA = "bbbbbbb000000000000000000000000000000000"
)

var now = time.Date(2026, 8, 24, 14, 10, 44, 0, time.UTC)

func ago(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }

func cond(kind string, status corev1.ConditionStatus, reason, message string, since time.Duration) fleet.Condition {
	return fleet.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(since)}
}

func repo(change ...func(*fleet.GitRepo)) *fleet.GitRepo {
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "app", Generation: 1}}
	r.Status.ObservedGeneration = 1
	r.Status.Commit, r.Status.PollingCommit = oldSHA, oldSHA
	r.Status.GitJobStatus = "Current"
	r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionTrue, "", "", time.Hour)}
	for _, f := range change {
		f(r)
	}
	return r
}

func bundle(name string, change ...func(*fleet.Bundle)) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
		Namespace: space, Name: name, Generation: 1,
		Labels: map[string]string{fleet.LabelRepoName: "app", fleet.LabelCommit: oldSHA},
	}}
	b.Status.ObservedGeneration = 1
	b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionTrue, "", "", time.Hour)}
	for _, f := range change {
		f(b)
	}
	return b
}

// on says how many clusters a bundle has, and which of them are not ready.
func on(desired int, bad ...fleet.NonReadyResource) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		s := &b.Status.Summary
		s.DesiredReady, s.Ready = desired, desired-len(bad)
		worst := fleet.Ready
		for _, r := range bad {
			switch r.State {
			case fleet.ErrApplied:
				s.ErrApplied++
			case fleet.WaitApplied:
				s.WaitApplied++
			case fleet.Modified:
				s.Modified++
			case fleet.OutOfSync:
				s.OutOfSync++
			case fleet.Pending:
				s.Pending++
			case fleet.NotReady:
				s.NotReady++
			}
			if r.State.Rank() > worst.Rank() {
				worst = r.State
			}
		}
		s.NonReadyResources = bad
		if worst != fleet.Ready {
			b.Status.Display.State = string(worst)
			b.Status.Conditions = []fleet.Condition{
				cond(fleet.ConditionReady, corev1.ConditionFalse, string(worst), fmt.Sprintf("%s(%d)", worst, len(bad)), 10*time.Minute),
			}
		}
	}
}

func bad(cluster string, state fleet.BundleState, message string) fleet.NonReadyResource {
	return fleet.NonReadyResource{Name: space + "/" + cluster, State: state, Message: message}
}

// canary is a partition of a bundle with clusters that are not ready.
func canary(bad ...fleet.NonReadyResource) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		p := fleet.PartitionStatus{Name: "canary", Count: len(bad), Summary: fleet.BundleSummary{DesiredReady: len(bad), NonReadyResources: bad}}
		b.Status.PartitionStatus = append(b.Status.PartitionStatus, p)
	}
}

// starting is a bundle on a cluster where an object is not ready yet.
func starting(cluster string) fleet.NonReadyResource {
	r := bad(cluster, fleet.NotReady, "")
	r.NonReadyStatus = []fleet.NonReadyStatus{{
		Kind: "Deployment", Namespace: "x", Name: "y", Summary: fleet.Summary{Transitioning: true, Message: []string{"0/1 available"}},
	}}
	return r
}

func cluster(name string, change ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: space, Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
	}}
	c.Status.Namespace = "cluster-" + name
	c.Status.Agent.LastSeen = metav1.NewTime(now.Add(-10 * time.Second))
	c.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionTrue, "", "", time.Hour)}
	for _, f := range change {
		f(c)
	}
	return c
}

func away(since time.Duration) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Status.Display.State = fleet.Offline
		c.Status.Agent.LastSeen = metav1.NewTime(now.Add(-since))
		c.Status.Conditions = []fleet.Condition{
			cond(fleet.ConditionReady, corev1.ConditionTrue, "", "", since),
			cond(fleet.ConditionConnected, corev1.ConditionFalse, fleet.ReasonOffline, "the agent missed 3 check-ins", since),
		}
		c.Status.Display.ReadyBundles = "2/2"
	}
}

// deployment is one that is Ready with the old commit.
func deployment(bundle, cluster string, change ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster-" + cluster, Name: bundle, Generation: 1,
		Labels: map[string]string{
			fleet.LabelRepoName: "app", fleet.LabelCommit: oldSHA,
			fleet.LabelBundleName: bundle, fleet.LabelBundleNamespace: space,
			fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: space,
		},
	}}
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = "s-old:o", "s-old:o"
	bd.Status.AppliedDeploymentID = "s-old:o"
	bd.Status.Ready, bd.Status.NonModified = true, true
	for _, f := range change {
		f(bd)
	}
	return bd
}

// written is a deployment that was written for the new commit, and not yet
// applied.
func written(bd *fleet.BundleDeployment) {
	bd.Labels[fleet.LabelCommit] = newSHA
	bd.Generation = 2
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = "s-new:o", "s-new:o"
}

func applied(bd *fleet.BundleDeployment) {
	written(bd)
	bd.Status.AppliedDeploymentID = "s-new:o"
}

func failed(reason, message string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) {
		written(bd)
		for _, c := range []struct {
			kind   string
			status corev1.ConditionStatus
		}{{fleet.ConditionDeployed, corev1.ConditionFalse}, {fleet.ConditionStalled, corev1.ConditionTrue}} {
			bd.Status.Conditions = append(bd.Status.Conditions, fleet.Condition{
				Type: c.kind, Status: c.status, Reason: reason, Message: message, ObservedGeneration: bd.Generation,
			})
		}
	}
}
