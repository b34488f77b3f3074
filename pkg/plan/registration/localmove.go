package registration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AnnotationLocalMove on the manager's own Cluster is a LocalMove as JSON. It is
// written together with the namespace of the agent, so that neither is ever
// without the other. An agent may write the status of its Cluster, and not this.
const AnnotationLocalMove = "fleet.cattle.io/local-agent-move"

// A LocalMove is the move of the local agent from one namespace to another.
type LocalMove struct {
	From   string   `json:"from,omitempty"`   // namespace of the agent whose releases are taken over
	Leaves []string `json:"leaves,omitempty"` // namespaces in which something of an earlier agent is left
}

// LocalMoveOf reads the last move of the local agent; the zero LocalMove: it was
// never moved.
func LocalMoveOf(c *fleet.Cluster) LocalMove {
	var m LocalMove
	if json.Unmarshal([]byte(c.Annotations[AnnotationLocalMove]), &m) != nil {
		return LocalMove{}
	}
	return m
}

// Annotate returns a Cluster with the move in its annotation.
func (m LocalMove) Annotate(c *fleet.Cluster) *fleet.Cluster {
	out := c.DeepCopy()
	if m.From == "" && len(m.Leaves) == 0 {
		delete(out.Annotations, AnnotationLocalMove)
		return out
	}
	text, err := json.Marshal(m)
	if err != nil { // strings always can be
		return out
	}
	out.Annotations = withEntry(out.Annotations, AnnotationLocalMove, string(text))
	return out
}

// WithoutNamespace returns the move without a namespace in which nothing is left.
func (m LocalMove) WithoutNamespace(namespace string) LocalMove {
	m.Leaves = slices.DeleteFunc(slices.Clone(m.Leaves), func(n string) bool { return n == namespace })
	return m
}

// ExpectsOtherAgent reports whether an agent in a namespace has to expect another one with
// its identity: it moves to where the Cluster says, at, or is what is left there.
func (m LocalMove) ExpectsOtherAgent(namespace, at string) bool {
	return len(m.Leaves) > 0 && (namespace == at || slices.Contains(m.Leaves, namespace))
}

// nextLocal is the namespace in which the local agent is to live now, and its move there.
// at is where it was to live until now, seen where it has checked in from last, want what
// the settings say. A move that has reached the new agent's first check-in is finished
// before another one begins, because deployments of the earlier agent are taken over from
// one place only.
func (m LocalMove) nextLocal(at, seen, want string) (string, LocalMove) {
	switch {
	case at == "" || at == want:
		return want, m
	case len(m.Leaves) > 0 && seen == at:
		return at, m
	}
	next := LocalMove{From: at, Leaves: m.Leaves}
	if seen != at && seen != "" && (seen == m.From || slices.Contains(m.Leaves, seen)) {
		next.From = seen // the agent at the last place has never worked
	}
	if next.From == want {
		next.From = ""
	}
	if !slices.Contains(next.Leaves, at) {
		next.Leaves = append(slices.Clone(next.Leaves), at)
	}
	return want, next.WithoutNamespace(want)
}

// A LocalState is what is seen of the local agent while it moves.
type LocalState struct {
	At      string // where it is to live
	Seen    string // where it has checked in from last
	Ordered bool   // what the manager asks of the agent's own deployment is for that place
}

// MayLeave returns empty if what an earlier local agent has left may be removed now, and
// otherwise what the removal waits for. Until the agent works in its new place, the earlier
// one keeps working. Until the agent's own deployment is for the new place, no agent may
// carry out the old deployment.
func (m LocalMove) MayLeave(s LocalState) (wait string) {
	from := strings.Join(m.Leaves, ", ")
	switch {
	case s.Seen != s.At:
		return fmt.Sprintf("the local agent moves from namespace %s to %s: waits until it has checked in from there", from, s.At)
	case !s.Ordered:
		return fmt.Sprintf("the local agent moves from namespace %s to %s: waits until its own deployment is for that namespace", from, s.At)
	}
	return ""
}
