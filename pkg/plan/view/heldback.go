package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Holders are the objects that may hold a deployment back, as far as they are
// known.
type Holders struct {
	Repo    *fleet.GitRepo
	Bundle  *fleet.Bundle
	Cluster *fleet.Cluster
}

// Pause returns who has paused what: the GitRepo, else the Bundle, else the Cluster; nil
// where none of them is paused.
func (h Holders) Pause() *Pause {
	var p Pause
	switch {
	case h.Bundle != nil && h.Bundle.Spec.Paused && h.Repo != nil && h.Repo.Spec.Paused:
		p = PauseOf(h.Repo)
	case h.Bundle != nil && h.Bundle.Spec.Paused:
		p = PauseOf(h.Bundle)
	case h.Cluster != nil && h.Cluster.Spec.Paused:
		p = PauseOf(h.Cluster)
	default:
		return nil
	}
	return &p
}

// HeldBack reports whether a deployment does not get its newest version, or the agent
// may not apply it.
func HeldBack(bd *fleet.BundleDeployment) bool {
	return bd.Spec.Paused || bd.Spec.OffSchedule || bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID
}

// HeldMessage is DeploymentMessage, and where the agent says nothing, what holds the
// deployment back. It is empty only for a deployment that is Ready.
func HeldMessage(bd *fleet.BundleDeployment, h Holders, now time.Time) string {
	state := DeploymentState(bd)
	if text := DeploymentMessage(bd); text != "" || state == fleet.Ready {
		return text
	}
	closed := WindowClosed(bd, now)
	switch {
	case closed != "" && !bd.Spec.Paused:
		return closed
	case bd.Spec.Paused:
		if p := h.Pause(); p != nil {
			return p.Text(now)
		}
		return "paused"
	case state == fleet.OutOfSync || bd.Spec.DeploymentID == "":
		return cmp.Or(rolloutMessage(h.Bundle, ClusterOf(bd)), "the newest version is staged, and the rollout has not let it through yet")
	case state == fleet.WaitApplied:
		return "the agent has not reported on the newest version yet"
	}
	return fmt.Sprintf("it is %s", state)
}

// NotLetThrough returns why a deployment that is Ready has not got the newest version of
// its Bundle, to which the rollout has not come: the deployment itself does not know of
// that version, and has the commit of the one before. It is empty where the Bundle is nil.
func NotLetThrough(b *fleet.Bundle, bd *fleet.BundleDeployment) string {
	if b == nil || isBehindSpec(b) || DeploymentState(bd) != fleet.Ready {
		return ""
	}
	for _, list := range summariesOf(b) {
		if r := SummaryEntry(list, ClusterOf(bd)); r != nil && r.State == fleet.OutOfSync {
			return resourceMessage(r)
		}
	}
	if b.Status.Summary.OutOfSync > 0 && bd.Labels[fleet.LabelCommit] != b.Labels[fleet.LabelCommit] {
		return cmp.Or(rolloutMessage(b, ClusterOf(bd)), notReached)
	}
	return ""
}

// rolloutMessage returns the message of a Bundle's status about a cluster that does
// not get the newest version, or about others that wait for the same; empty if
// there is none.
func rolloutMessage(b *fleet.Bundle, cluster Key) string {
	if b == nil {
		return ""
	}
	for _, list := range summariesOf(b) {
		if r := SummaryEntry(list, cluster); r != nil && r.Message != "" {
			return r.Message
		}
	}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionWaiting); c != nil && c.Status == corev1.ConditionTrue {
		text, _, _ := strings.Cut(c.Message, "; ")
		return text
	}
	return ""
}

// summariesOf are the summary of a Bundle and those of its partitions.
func summariesOf(b *fleet.Bundle) []*fleet.BundleSummary {
	lists := []*fleet.BundleSummary{&b.Status.Summary}
	for i := range b.Status.PartitionStatus {
		lists = append(lists, &b.Status.PartitionStatus[i].Summary)
	}
	return lists
}

// SummaryEntry returns what a summary says of a cluster; nil where it does not name it.
func SummaryEntry(s *fleet.BundleSummary, cluster Key) *fleet.NonReadyResource {
	return entryOf(s, cluster.String())
}

// entryOf is the entry of a name in a summary; nil where there is none.
func entryOf(s *fleet.BundleSummary, name string) *fleet.NonReadyResource {
	for i := range s.NonReadyResources {
		if s.NonReadyResources[i].Name == name {
			return &s.NonReadyResources[i]
		}
	}
	return nil
}
