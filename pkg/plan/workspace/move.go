package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// A cluster moves to another workspace when its management Cluster names that one. Then
// there are two Fleet Clusters of one name for it: the old one, which is deleted, and the
// new one. Only Rancher's object is safe from members of workspaces: labels and annotations
// of Clusters alone move nothing.

// Annotations of moves, on Clusters. They are Fleet's own.
const (
	// AnnotationMovedFrom is "<namespace>/<name>/<uid>" of the Cluster whose place this
	// one takes: its agent was found to work for that one, and what users had set there
	// was carried over.
	AnnotationMovedFrom = "fleet.cattle.io/moved-from"
	// AnnotationWithdrawIn on a Cluster that has moved away is the order to withdraw
	// what of it the new workspace does not deploy, and the "<namespace>/<name>" of
	// the Cluster there. AnnotationWithdrawnIn repeats it when that is done.
	AnnotationWithdrawIn  = "fleet.cattle.io/withdraw-in"
	AnnotationWithdrawnIn = "fleet.cattle.io/withdrawn-in"
	// AnnotationMoveGrace is for how long the new workspace may take to deploy what the old
	// one has deployed, before the rest is withdrawn: a duration, DefaultGrace where it is
	// not set, "never" keeps the rest forever.
	AnnotationMoveGrace = "fleet.cattle.io/move-grace"
)

// Times of moves.
const (
	// DefaultGrace is for how long nothing is withdrawn after the agent has arrived.
	DefaultGrace = 10 * time.Minute
	// MoveTimeout is how long the old Cluster waits for the new one, and for the
	// agent to work with it. After that it goes, and nothing is withdrawn.
	MoveTimeout = time.Hour
	// moveLook is when something is looked at again whose changes no watch reports.
	moveLook = 5 * time.Second
)

// Never is the value of AnnotationMoveGrace that keeps everything.
const Never = "never"

// Destination returns the workspace that a Fleet Cluster has moved to; empty: it has not. m
// is its management Cluster, nil where there is none.
func Destination(c *fleet.Cluster, m *management.Cluster) string {
	switch {
	case m == nil, m.DeletionTimestamp != nil, m.Spec.Internal, m.Name != c.Labels[fleet.LabelManagementCluster]:
		return ""
	case m.Spec.FleetWorkspaceName == c.Namespace:
		return ""
	}
	return m.Spec.FleetWorkspaceName
}

// FindSuccessor returns the Cluster that takes the place of one that moves to a workspace; nil:
// it is not there yet. same are all Clusters of the same management Cluster.
func FindSuccessor(c *fleet.Cluster, to string, same []*fleet.Cluster) *fleet.Cluster {
	for _, s := range same {
		if s.Namespace == to && s.Name == c.Name && s.DeletionTimestamp == nil {
			return s
		}
	}
	return nil
}

// FormerClusters returns the Clusters whose place one takes, those first that are deleted already:
// none where its management Cluster m names another workspace. same are all Clusters of the
// same management Cluster.
func FormerClusters(c *fleet.Cluster, m *management.Cluster, same []*fleet.Cluster) []*fleet.Cluster {
	if m == nil || m.Name != c.Labels[fleet.LabelManagementCluster] || m.Spec.Internal || m.Spec.FleetWorkspaceName != c.Namespace {
		return nil
	}
	var out []*fleet.Cluster
	for _, s := range same {
		if s.Namespace != c.Namespace && s.Name == c.Name {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *fleet.Cluster) int {
		if x, y := a.DeletionTimestamp == nil, b.DeletionTimestamp == nil; x != y {
			if y {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Namespace, b.Namespace)
	})
	return out
}

// CarryUserFields returns a Cluster with what users had set on the one before: its clientID, so that
// its agent is known again, and what neither Rancher nor a user has said of the new one.
// Labels and fields that the new one has stay as they are.
func CarryUserFields(c, former *fleet.Cluster) *fleet.Cluster {
	out := c.DeepCopy()
	out.Labels = withMissing(out.Labels, naming.UserKeys(former.Labels))
	delete(out.Annotations, AnnotationMovedFrom)
	out.Annotations = withMissing(out.Annotations, map[string]string{AnnotationMovedFrom: recognised(former)})
	if grace := former.Annotations[AnnotationMoveGrace]; grace != "" {
		out.Annotations = withMissing(out.Annotations, map[string]string{AnnotationMoveGrace: grace})
	}
	s, f := &out.Spec, former.Spec.DeepCopy()
	if s.ClientID == "" {
		s.ClientID = f.ClientID
	}
	if s.AgentNamespace == "" {
		s.AgentNamespace = f.AgentNamespace
	}
	if s.TemplateValues == nil {
		s.TemplateValues = f.TemplateValues
	}
	if s.HostNetwork == nil {
		s.HostNetwork = f.HostNetwork
	}
	if s.CheckIn == nil {
		s.CheckIn = f.CheckIn
	}
	s.Paused = s.Paused || f.Paused
	return out
}

// RecognisesAgent reports whether the agent of a Cluster was found to have worked for another
// one, whose place it takes.
func RecognisesAgent(c, former *fleet.Cluster) bool {
	return former.UID != "" && c.Annotations[AnnotationMovedFrom] == recognised(former)
}

func recognised(c *fleet.Cluster) string { return keyOf(c) + "/" + string(c.UID) }

// withMissing is m with the entries of more that it lacks.
func withMissing(m, more map[string]string) map[string]string {
	out := maps.Clone(more)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, m)
	return out
}

// A DeletionState is what is known of a Cluster that is deleted.
type DeletionState struct {
	To         string         // Destination
	New        *fleet.Cluster // the result of FindSuccessor; nil: not there yet
	Since      time.Duration  // since it was deleted
	Ends       bool           // its namespace is being deleted
	Recognised bool           // the new Cluster's agent is the one that worked for this one
	Arrived    bool           // that agent works for the new Cluster
	ArrivedFor time.Duration  // since it does
}

// DecideStay reports whether a Cluster that is deleted stays for a while, because it moves,
// and for what; order, that what of it is not deployed in its new place is to be
// withdrawn there now. after is when to look again.
//
// It stays until its agent works for the new Cluster and the time of grace is over:
// until then both can be seen, the agent is connected all the time, and what ran is
// written down where it ran.
func DecideStay(c *fleet.Cluster, d DeletionState) (stays, order bool, why string, after time.Duration) {
	ordered, done := c.Annotations[AnnotationWithdrawIn], c.Annotations[AnnotationWithdrawnIn]
	left := MoveTimeout - d.Since
	switch {
	case d.To == "", d.Ends:
		return false, false, "", 0
	case ordered != "" && ordered == done:
		return false, false, "", 0
	case d.New == nil && left > 0:
		return true, false, fmt.Sprintf("moves to workspace %q: waits for its Cluster there", d.To), min(left, moveLook)
	case (!d.Recognised || !d.Arrived) && left > 0 && d.New != nil:
		return true, false, fmt.Sprintf("moves to workspace %q: waits until its agent is connected there", d.To), min(left, moveLook)
	case d.New == nil || !d.Recognised || !d.Arrived:
		return false, false, "", 0
	}
	grace, keep := GraceOf(d.New)
	switch left := grace - d.ArrivedFor; {
	case keep:
		return false, false, "", 0
	case ordered == keyOf(d.New): // to another one it may have been moved on since
		return true, false, fmt.Sprintf("has moved to workspace %q: what that does not deploy is being withdrawn", d.To), moveLook
	case left > 0:
		return true, false, fmt.Sprintf("has moved to workspace %q: what that has not deployed %s after the agent's arrival is withdrawn", d.To, grace), left
	}
	return true, true, fmt.Sprintf("has moved to workspace %q: what that does not deploy is being withdrawn", d.To), moveLook
}

// GraceOf returns the time of grace of a move to a Cluster, or that nothing is withdrawn at
// all. An annotation that cannot be read is ignored.
func GraceOf(c *fleet.Cluster) (grace time.Duration, keep bool) {
	text := c.Annotations[AnnotationMoveGrace]
	if text == Never {
		return 0, true
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, false
	}
	return DefaultGrace, false
}

// Reasons of MovingCondition.
const (
	ReasonMovesAway = "MovesAway"
	ReasonArrives   = "Arrives"
	// ReasonRancherUnseen: whether it moves is not known, because Rancher's objects
	// cannot be seen.
	ReasonRancherUnseen = "RancherUnseen"
)

// MovingCondition returns the condition of a Cluster that moves: of the old one with what it waits
// for, of the new one with where it comes from. Where it is not known whether it moves the
// status is Unknown.
func MovingCondition(c *fleet.Cluster, reason, why string) fleet.Condition {
	status := corev1.ConditionTrue
	if reason == ReasonRancherUnseen {
		status = corev1.ConditionUnknown
	}
	return fleet.Condition{
		Type: fleet.ConditionMoving, Status: status, Reason: reason,
		Message: condition.Message(why), ObservedGeneration: c.Generation,
	}
}

// ArrivalMessage returns what the condition of the new Cluster says.
func ArrivalMessage(from *fleet.Cluster, why string) string {
	return fmt.Sprintf("comes from workspace %q, whose Cluster %s", from.Namespace, why)
}

func keyOf(c *fleet.Cluster) string { return c.Namespace + "/" + c.Name }
