package agentrollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Member is a cluster of the fleet, with what is seen of its agent.
type Member struct {
	Key   string // "namespace/name" of the Cluster
	First bool   // the manager's own: it is the first of every rollout

	Has    Build // what its Bundle was made of; zero: there is none, or not of this manager
	Custom bool  // the Cluster asks for something else than its Bundle says
	Move   *Move // the last one; nil: it has what it was first given

	Version  string    // of the agent, by its own word
	Instance string    // of the agent: another for each process
	Joined   bool      // the agent has checked in once
	Online   bool      // it checked in lately, or is not expected yet
	Next     time.Time // when it means to check in next

	Applied  bool   // its Bundle is deployed, as it is now, and Ready
	Trouble  string // why not, in words, if that is known
	NotReady int    // deployments that are not Ready
	Held     string // why nothing may change there now; empty: it may
}

// The sizes of waves: each may be as large as all before it together, and at
// most a tenth of the fleet or so many, whichever is more.
const (
	smallWave  = 10
	waveOfAll  = 10 // a tenth
	listLength = 10 // of names for people
)

// A Step gives a cluster's Bundle a Build.
type Step struct {
	Key    string
	Build  Build
	Move   *Move // nil: the one it has stays
	Reason string
}

// A Plan is what is done next.
type Plan struct {
	Steps  []Step
	Settle []string // clusters whose move has gone well
	State  State
	// After is when to look again though nothing has changed; 0: not before.
	After time.Duration
}

// A rollout is one look at the fleet.
type rollout struct {
	goal  Build
	back  *Order // a person has called the goal's first image back
	now   time.Time
	plan  Plan
	due   []Member
	wave  []Member // moved, and waited for
	bad   []Failure
	well  int       // moved to the goal, and well
	until time.Time // the next deadline
}

// Decide plans the next step of a fleet towards a Build. An order that calls this image
// back moves all agents that run it to another image, and holds all others where they are.
//
// Decide does not change its arguments; the same arguments give the same plan.
func Decide(members []Member, target Build, order Order, now time.Time) Plan {
	r := &rollout{goal: target, now: now}
	if order.Affects(target) {
		r.back = &order
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int {
		if a.First != b.First {
			return cmp.Compare(boolToInt(b.First), boolToInt(a.First))
		}
		return cmp.Compare(a.Key, b.Key)
	})
	for _, m := range members {
		r.classify(m)
	}
	r.startNextWave(len(members))
	r.fillState(members)
	if !r.until.IsZero() {
		r.plan.After = max(r.until.Sub(now), time.Second)
	}
	return r.plan
}

// desiredBuild is the Build that a member should have in the end.
func (r *rollout) desiredBuild(m Member) Build {
	switch {
	case r.back == nil:
		return r.goal
	case m.Has == (Build{}):
		return Build{Image: r.back.To, Shape: r.goal.Shape}
	case m.Has.Image != r.goal.Image:
		return m.Has
	case m.Move != nil && m.Move.Image == r.goal.Image && m.Move.From != "":
		return Build{Image: m.Move.From, Shape: r.goal.Shape}
	}
	return Build{Image: r.back.To, Shape: r.goal.Shape}
}

// classify sorts one member in, and plans what does not wait for others.
func (r *rollout) classify(m Member) {
	wanted := r.desiredBuild(m)
	switch {
	case m.Has == (Build{}) && r.canCreateNow(m, wanted):
		r.planStep(m, wanted, nil, "it has no agent bundle yet")
	case m.Has == wanted:
		if m.Custom {
			r.planStep(m, wanted, nil, "the Cluster asks for something else")
		}
		r.observeUpToDate(m)
	case r.back != nil && m.Has != (Build{}):
		r.planStep(m, wanted, r.newMove(m, wanted), "called back by "+orElse(r.back.By, "a person"))
	default:
		if m.Custom && m.Has != (Build{}) {
			r.planStep(m, Build{Image: m.Has.Image, Shape: wanted.Shape}, nil, "the Cluster asks for something else")
		}
		if r.back == nil {
			r.due = append(r.due, m)
		}
	}
}

// canCreateNow reports whether a cluster without a bundle can be given one at once: its
// agent is not there yet, or has what the bundle says.
func (r *rollout) canCreateNow(m Member, wanted Build) bool {
	return !m.Joined || tag(wanted.Image) != "" && m.Version == tag(wanted.Image)
}

// observeUpToDate looks at a member that has what it should have.
func (r *rollout) observeUpToDate(m Member) {
	if m.Move == nil || m.Held != "" {
		return
	}
	if m.Move.Settled {
		r.well++
		return
	}
	verdict, reason := m.moveOutcome(r.now)
	switch verdict {
	case Well:
		r.plan.Settle = append(r.plan.Settle, m.Key)
		r.well++
	case Failed:
		r.bad = append(r.bad, Failure{Cluster: m.Key, Reason: reason})
	case Waiting:
		if until := m.deadline(); r.until.IsZero() || until.Before(r.until) {
			r.until = until
		}
		if due := m.Move.Due; due == nil || !r.now.Before(*due) { // a wave does not wait for tomorrow
			r.wave = append(r.wave, m)
		}
	}
}

// planStep plans one change, unless nothing may change there now.
func (r *rollout) planStep(m Member, b Build, move *Move, reason string) {
	if m.Held != "" {
		return
	}
	r.plan.Steps = append(r.plan.Steps, Step{Key: m.Key, Build: b, Move: move, Reason: reason})
}

// newMove is the record of a change that is about to be made.
func (r *rollout) newMove(m Member, to Build) *Move {
	out := &Move{
		Image: to.Image, From: m.Has.Image, At: r.now,
		Version: m.Version, Instance: m.Instance, NotReady: m.NotReady,
	}
	if m.checksInRarely(r.now) {
		out.Due = &m.Next
	}
	return out
}

// startNextWave begins the next wave, if the last one is over and has gone well.
func (r *rollout) startNextWave(fleet int) {
	if r.back != nil || len(r.bad) > 1 || len(r.wave) > 0 {
		return
	}
	size := min(max(r.well, 1), max(smallWave, fleet/waveOfAll))
	// Agents that check in seldom come last, so that no other agent waits for them.
	slices.SortStableFunc(r.due, func(a, b Member) int {
		return cmp.Compare(boolToInt(a.checksInRarely(r.now)), boolToInt(b.checksInRarely(r.now)))
	})
	for _, m := range r.due {
		if size == 0 {
			return
		}
		if m.Held != "" || !m.Online {
			continue
		}
		r.planStep(m, r.goal, r.newMove(m, r.goal), fmt.Sprintf("it is its turn, after %d that went well", r.well))
		r.wave = append(r.wave, m)
		size--
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
