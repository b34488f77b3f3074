// Package rollout decides which deployments of a Bundle are created, staged and promoted in
// one round, and what the others wait for.
//
// A deployment holds two versions: the staged one, which is what it should become, and the
// current one, which is what the agent deploys. Promoting makes the staged version current;
// that is what limits, partitions and pauses hold back.
//
// Clusters that are offline, silent or outside of their change windows are deferred: nothing waits for them, and promotions
// there have a limit of their own.
package rollout

import "fmt"

// ReasonOutside is the reason of a target that no partition holds.
const ReasonOutside = "in no partition of the rollout strategy"

// Reasons that any number of targets share. They are the same from round to
// round, so that a rollout that goes on does not rewrite the status of all who
// wait; who is waited for stands in Stop.
const (
	reasonUnknown   = "its options could not be worked out"
	reasonFrozenNew = "new deployments are not created: maxNew is 0"
	reasonUpToDate  = "up to date"
)

// How reasons read of targets that wait for room, or for an earlier partition.
const (
	reasonFull   = "waits for room: %d may be unavailable"
	reasonNarrow = "waits for room in partition %q: %d may be unavailable"
	reasonQueued = "waits for partition %q"
)

// A Step is the decision about one target in this round.
type Step struct {
	// Create asks for a deployment object, which does not exist yet.
	Create bool
	// Stage asks for the desired version as staged version.
	Stage bool
	// Move allows the desired version as current version.
	Move bool
	// Costs reports that moving takes a deployment down that is up.
	Costs bool
	// Blind reports that moving promotes a deployment that was up by its last report, while
	// nothing reports the outcome for now.
	Blind bool
	// Waits reports that the rest follows by itself, when others have moved.
	Waits bool
	// Reason says why, for status and people.
	Reason string
}

// Progress is how far one partition is.
type Progress struct {
	Name        string
	Count       int
	Limit       int // how many may be unavailable
	Unavailable int // how many are, counting what this round takes down
	Deferred    int // how many are not there yet, and nothing waits for them
}

// A Result is one round of a rollout.
type Result struct {
	Steps      []Step // one for each target, in the same order
	Partitions []Progress
	// Unavailable is how many targets are down, counting what this round takes
	// down.
	Unavailable int
	// UnavailablePartitions is how many partitions are above their limit.
	UnavailablePartitions int
	// Deferred is how many targets are not there yet, and nothing waits for them:
	// their clusters are offline, silent or outside of their change windows. They are not among the unavailable.
	Deferred int
	// Blind is how many of those were up and have been promoted since, counting
	// this round.
	Blind int
	// Outside are the targets that no partition holds: they never get the Bundle.
	Outside Names
	// Stop is where the rollout waits, and for whom; nil where nothing waits.
	Stop *Stop
	// Batch is how many deployments may be created at once: the next one when
	// the API server has answered for another; 0 means any number.
	Batch int
}

// Plan decides one round: which targets are created, staged and moved.
//
// Partitions are worked on in order. A target moves if the Bundle and its
// partition have room left; one that is down already, or new, needs no room. A
// deferred one that was up takes room among the deferred only: as many of them
// may be promoted unseen as others may be unavailable. When more partitions are
// above their limit than may be, the ones after them wait. A target that no
// partition holds is never touched.
//
// Plan changes nothing that it is given: the same arguments give the same
// result.
func Plan(shape Shape, targets []Target) Result {
	r := newRound(shape, targets)
	r.steps = make([]Step, len(targets))
	r.full = fmt.Sprintf(reasonFull, shape.MaxUnavailable)
	out := Result{Steps: r.steps, Batch: max(shape.MaxNew, 0)}
	held := ""
	for i := range shape.Partitions {
		p := &shape.Partitions[i]
		n := r.countPartition(p)
		if held != "" {
			r.holdPartition(p, held)
		} else {
			r.decidePartition(p, &n)
			if n.notReady > p.Limit {
				out.UnavailablePartitions++
			}
			if out.UnavailablePartitions > shape.MaxUnavailablePartitions {
				held = fmt.Sprintf(reasonQueued, p.Name)
			}
		}
		out.Partitions = append(out.Partitions, n.progress(p))
		r.tallies = append(r.tallies, n)
	}
	r.fillTotals(&out)
	return out
}

// Count counts the state of a rollout, without deciding anything: the Result has no steps.
func Count(shape Shape, targets []Target) Result {
	r := newRound(shape, targets)
	out := Result{}
	for i := range shape.Partitions {
		p := &shape.Partitions[i]
		n := r.countPartition(p)
		for _, m := range p.Members {
			r.done[m] = true
		}
		if n.notReady > p.Limit {
			out.UnavailablePartitions++
		}
		out.Partitions = append(out.Partitions, n.progress(p))
		r.tallies = append(r.tallies, n)
	}
	r.fillTotals(&out)
	return out
}

// A round is the state of one call of Plan or Count.
type round struct {
	shape   Shape
	targets []Target
	steps   []Step            // nil where nothing is decided
	done    []bool            // held by a partition that was worked on
	tallies []partitionCounts // of the partitions
	total   partitionCounts   // of all targets
	full    string            // why a target waits where the Bundle has no room
	narrow  string            // why it waits where its partition has none
}

func newRound(shape Shape, targets []Target) *round {
	r := &round{shape: shape, targets: targets, done: make([]bool, len(targets))}
	for i := range targets {
		r.total.addTarget(&targets[i], nil)
	}
	return r
}

// A tally holds how many targets are in which state.
type partitionCounts struct {
	down     int // unavailable
	notReady int // not there yet, or not available
	deferred int // not there yet, and nothing waits for them
	maybeUp  int // deferred, and promoted while up
}

// addTarget counts a target. step is what was decided for it in this round, nil for
// nothing yet.
func (pc *partitionCounts) addTarget(t *Target, step *Step) {
	moved := step != nil && (step.Costs || step.Blind)
	switch {
	case t.Deferred():
		if !t.IsSettled() {
			pc.deferred++
		}
		if t.mayBeUp() || moved {
			pc.maybeUp++
		}
	default:
		if moved || t.Unavailable() {
			pc.down++
		}
		if t.holdsPartition() {
			pc.notReady++
		}
	}
}

func (pc *partitionCounts) progress(p *Partition) Progress {
	return Progress{Name: p.Name, Count: len(p.Members), Limit: p.Limit, Unavailable: pc.down, Deferred: pc.deferred}
}

// countPartition counts the targets of a partition.
func (r *round) countPartition(p *Partition) partitionCounts {
	var n partitionCounts
	for _, i := range p.Members {
		if r.steps == nil {
			n.addTarget(&r.targets[i], nil)
		} else {
			n.addTarget(&r.targets[i], &r.steps[i])
		}
	}
	return n
}

// decidePartition decides the targets of one partition and updates n, its tally.
func (r *round) decidePartition(p *Partition, n *partitionCounts) {
	r.narrow = ""
	for _, i := range p.Members {
		if r.done[i] {
			continue
		}
		r.done[i] = true
		s := r.decideTarget(&r.targets[i], p, n)
		if s.Costs {
			n.down++
			r.total.down++
		}
		if s.Blind {
			n.maybeUp++
			r.total.maybeUp++
		}
		r.steps[i] = s
	}
}

// decideTarget decides one target of a partition.
func (r *round) decideTarget(t *Target, p *Partition, n *partitionCounts) Step {
	switch {
	case t.Desired == "":
		return Step{Reason: reasonUnknown}
	case !t.Exists:
		return r.create(t)
	case t.Held != "":
		return Step{Reason: t.Held}
	case t.Paused:
		return Step{Stage: true, Reason: "paused"}
	case t.Current == t.Desired:
		return Step{Stage: true, Move: true, Reason: reasonUpToDate}
	case t.Deferred():
		return r.decideDeferred(t, p, n)
	case t.down():
		return Step{Stage: true, Move: true, Reason: "not available anyway"}
	case r.total.down >= r.shape.MaxUnavailable:
		return Step{Stage: true, Waits: true, Reason: r.full}
	case n.down >= p.Limit:
		if r.narrow == "" {
			r.narrow = fmt.Sprintf(reasonNarrow, p.Name, p.Limit)
		}
		return Step{Stage: true, Waits: true, Reason: r.narrow}
	}
	return Step{Stage: true, Move: true, Costs: true, Reason: "has room"}
}

// create decides a target without a deployment object. It has nothing that
// could go down.
func (r *round) create(t *Target) Step {
	if r.shape.MaxNew <= 0 {
		return Step{Reason: reasonFrozenNew}
	}
	if t.Paused {
		return Step{Create: true, Stage: true, Reason: "new, paused"}
	}
	return Step{Create: true, Stage: true, Move: true, Reason: "new"}
}

// decideDeferred decides a deferred target that has a deployment. One that has no room is decided
// again when its cluster, or another one, reports again: nothing else makes room.
func (r *round) decideDeferred(t *Target, p *Partition, n *partitionCounts) Step {
	up := !t.down()
	why, when := t.deferReason()
	if up && (r.total.maybeUp >= r.shape.MaxUnavailable || n.maybeUp >= p.Limit) {
		return Step{Stage: true, Reason: why + "is updated " + when + " and there is room"}
	}
	return Step{Stage: true, Move: true, Blind: up, Reason: why + "takes it " + when + ", nothing waits for it"}
}

// holdPartition lets the targets of a partition wait for an earlier one.
func (r *round) holdPartition(p *Partition, reason string) {
	for _, i := range p.Members {
		if r.done[i] {
			continue
		}
		r.done[i] = true
		if r.targets[i].IsSettled() {
			r.steps[i] = Step{Reason: reasonUpToDate}
			continue
		}
		r.steps[i] = Step{Waits: true, Reason: reason}
	}
}

// fillTotals fills in what is known when all partitions were looked at.
func (r *round) fillTotals(out *Result) {
	out.Unavailable, out.Deferred, out.Blind = r.total.down, r.total.deferred, r.total.maybeUp
	for i, done := range r.done {
		if done {
			continue
		}
		out.Outside.addName(r.targets[i].Name)
		if r.steps != nil {
			r.steps[i].Reason = ReasonOutside
		}
	}
	out.Stop = r.firstStop()
}
