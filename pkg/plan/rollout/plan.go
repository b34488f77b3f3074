// Package rollout decides which deployments of a Bundle are created, staged
// and promoted in one round, and what the others wait for.
//
// A deployment holds two versions: the staged one, which is what it should
// become, and the current one, which is what the agent deploys. Promoting
// makes the staged version current; that is what limits, partitions and pauses
// hold back.
package rollout

import "fmt"

// A Target is one deployment of a Bundle, wanted or there.
type Target struct {
	Name    string // as people know the cluster
	Desired string // deployment id that it should have; empty: could not be worked out
	Exists  bool   // there is a deployment object
	Staged  string // deployment ids of that object
	Current string
	Applied string // deployment id that the agent reports
	Ready   bool   // the agent reports its objects ready
	Paused  bool   // cluster or Bundle is paused
	Offline bool   // the agent does not report at present
}

// Unavailable tells whether the deployment is down, or not yet what it should
// be by its own current version. An absent one is not down. An offline one
// is not counted: nothing can be said about it, and nothing should wait for it.
func (t *Target) Unavailable() bool {
	return t.Exists && !t.Offline && (t.Applied != t.Current || !t.Ready)
}

// Settled tells whether the deployment has fully become what it should be.
func (t *Target) Settled() bool {
	return t.Exists && t.Desired != "" && t.Staged == t.Desired && t.Current == t.Desired && t.Applied == t.Desired
}

// A Step says what becomes of one target in this round.
type Step struct {
	// Create asks for a deployment object, which does not exist yet.
	Create bool
	// Stage asks for the desired version as staged version.
	Stage bool
	// Move allows the desired version as current version.
	Move bool
	// Costs tells that moving takes a deployment down that is up.
	Costs bool
	// Waits tells that the rest follows by itself, when others have moved.
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
	// More tells that deployments were left for the next round only because
	// this one has created its share.
	More bool
}

// Plan decides one round: which targets are created, staged and moved.
//
// Partitions are worked on in order. A target moves if the Bundle and its
// partition have room left; one that is down already, new or offline needs no
// room. When more partitions are above their limit than may be, the ones after
// them wait. A target that no partition holds is never touched.
//
// Plan changes nothing that it is given: the same arguments give the same
// result.
func Plan(shape Shape, targets []Target) Result {
	r := &round{
		shape: shape, targets: targets,
		steps: make([]Step, len(targets)), done: make([]bool, len(targets)),
	}
	for i := range targets {
		r.steps[i].Reason = "in no partition of the rollout strategy"
		if targets[i].Unavailable() {
			r.used++
		}
	}
	out := Result{Steps: r.steps}
	held := ""
	for _, p := range shape.Partitions {
		progress := Progress{Name: p.Name, Count: len(p.Members), Limit: p.Limit, Unavailable: r.down(p)}
		if held != "" {
			r.hold(p, held)
			out.Partitions = append(out.Partitions, progress)
			continue
		}
		progress.Unavailable = r.work(p, progress.Unavailable)
		out.Partitions = append(out.Partitions, progress)
		if behind := r.behind(p); behind > p.Limit {
			out.UnavailablePartitions++
			if out.UnavailablePartitions > shape.MaxUnavailablePartitions {
				held = fmt.Sprintf("waits for partition %q: %d of %d not there yet, %d allowed",
					p.Name, behind, len(p.Members), p.Limit)
			}
		}
	}
	out.Unavailable, out.More = r.used, r.more
	return out
}

// Look counts how a rollout stands, without deciding anything: the Result has
// no steps.
func Look(shape Shape, targets []Target) Result {
	r := &round{shape: shape, targets: targets, steps: make([]Step, len(targets))}
	out := Result{}
	for i := range targets {
		if targets[i].Unavailable() {
			out.Unavailable++
		}
	}
	for _, p := range shape.Partitions {
		out.Partitions = append(out.Partitions,
			Progress{Name: p.Name, Count: len(p.Members), Limit: p.Limit, Unavailable: r.down(p)})
		if r.behind(p) > p.Limit {
			out.UnavailablePartitions++
		}
	}
	return out
}

// A round is the state of one call of Plan.
type round struct {
	shape   Shape
	targets []Target
	steps   []Step
	done    []bool
	used    int // unavailable targets
	created int
	more    bool
}

// down counts the unavailable targets of a partition.
func (r *round) down(p Partition) int {
	n := 0
	for _, i := range p.Members {
		if r.targets[i].Unavailable() || r.steps[i].Costs {
			n++
		}
	}
	return n
}

// work decides the targets of one partition and returns how many of them are
// unavailable afterwards.
func (r *round) work(p Partition, used int) int {
	for _, i := range p.Members {
		if r.done[i] {
			continue
		}
		r.done[i] = true
		r.steps[i] = r.step(&r.targets[i], p, used)
		if r.steps[i].Costs {
			used++
			r.used++
		}
	}
	return used
}

// step decides one target; used is how many of its partition are unavailable.
func (r *round) step(t *Target, p Partition, used int) Step {
	switch {
	case t.Desired == "":
		return Step{Reason: "its options could not be worked out"}
	case !t.Exists:
		return r.create(t)
	case t.Paused:
		return Step{Stage: true, Reason: "paused"}
	case t.Current == t.Desired:
		return Step{Stage: true, Move: true, Reason: "up to date"}
	case t.Offline:
		return Step{Stage: true, Move: true, Reason: "offline: takes it when it is back, nothing waits for it"}
	case t.Unavailable():
		return Step{Stage: true, Move: true, Reason: "not available anyway"}
	case r.used >= r.shape.MaxUnavailable:
		return Step{Stage: true, Waits: true, Reason: fmt.Sprintf("waits for room: %d unavailable, %d allowed",
			r.used, r.shape.MaxUnavailable)}
	case used >= p.Limit:
		return Step{Stage: true, Waits: true, Reason: fmt.Sprintf("waits for room in partition %q: %d unavailable, %d allowed",
			p.Name, used, p.Limit)}
	}
	return Step{Stage: true, Move: true, Costs: true, Reason: "has room"}
}

// create decides a target without a deployment object. It has nothing that
// could go down.
func (r *round) create(t *Target) Step {
	if r.created >= r.shape.MaxNew {
		r.more = r.shape.MaxNew > 0
		return Step{Waits: r.more, Reason: fmt.Sprintf("waits for its turn: %d are created at once", r.shape.MaxNew)}
	}
	r.created++
	if t.Paused {
		return Step{Create: true, Stage: true, Reason: "new, paused"}
	}
	return Step{Create: true, Stage: true, Move: true, Reason: "new"}
}

// hold lets the targets of a partition wait for an earlier one.
func (r *round) hold(p Partition, reason string) {
	for _, i := range p.Members {
		if r.done[i] {
			continue
		}
		r.done[i] = true
		if t := &r.targets[i]; t.Settled() {
			r.steps[i] = Step{Reason: "up to date"}
			continue
		}
		r.steps[i] = Step{Waits: true, Reason: reason}
	}
}

// behind counts the targets of a partition that are not yet what they should
// be, or not available.
func (r *round) behind(p Partition) int {
	n := 0
	for _, i := range p.Members {
		t := &r.targets[i]
		if t.Offline && t.Exists {
			continue
		}
		if !t.Settled() || !t.Ready {
			n++
		}
	}
	return n
}
