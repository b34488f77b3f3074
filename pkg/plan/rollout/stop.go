package rollout

import (
	"fmt"
	"strings"
)

// shown is how many clusters a text names.
const shown = 3

// Names are clusters, in the order of the rollout.
type Names struct {
	First []string // the first of them, at most 3
	Count int      // how many there are
}

func (n *Names) addName(name string) {
	if n.Count++; len(n.First) < shown {
		n.First = append(n.First, name)
	}
}

// String returns "a, b, c and 4 more"; empty for none.
func (n Names) String() string {
	text := strings.Join(n.First, ", ")
	if more := n.Count - len(n.First); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// OutsideText says that clusters never get the Bundle because no partition of
// its strategy selects them; empty for none.
func OutsideText(n Names) string {
	switch n.Count {
	case 0:
		return ""
	case 1:
		return "1 cluster is in no partition of the rollout strategy and never gets the bundle: " + n.String()
	}
	return fmt.Sprintf("%d clusters are in no partition of the rollout strategy and never get the bundle: %s", n.Count, n)
}

// A Stop is where a rollout waits, and for which clusters. It exists as long as any target
// waits, also while others move.
type Stop struct {
	// Partition is the first one whose targets wait; empty for the Bundle as a
	// whole.
	Partition string
	// Others is how many partitions after it wait for the same.
	Others int
	// For is the earlier partition that has to get there first; empty where what
	// is missing is room.
	For string
	// Clusters are those that are waited for: not there yet where For is set,
	// and unavailable otherwise.
	Clusters Names
	// Allowed is how many such clusters the rollout strategy allows.
	Allowed int
}

// String returns it as one sentence, without a full stop.
func (s *Stop) String() string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	verb := "waits"
	if s.Partition != "" {
		fmt.Fprintf(&b, "partition %q ", s.Partition)
	}
	if s.Others > 0 {
		fmt.Fprintf(&b, "and %d more ", s.Others)
		verb = "wait"
	}
	what, state := "room", "unavailable"
	if s.For != "" {
		what, state = fmt.Sprintf("partition %q", s.For), "not there yet"
	}
	fmt.Fprintf(&b, "%s for %s: %d %s, %d allowed", verb, what, s.Clusters.Count, state, s.Allowed)
	if s.Clusters.Count > 0 {
		fmt.Fprintf(&b, ": %s", s.Clusters)
	}
	return b.String()
}

// firstStop finds the first targets that wait. Want of room comes first: it is also
// why later partitions wait.
func (r *round) firstStop() *Stop {
	over := 0
	for i := range r.tallies {
		p, n := &r.shape.Partitions[i], &r.tallies[i]
		crowded, narrow := r.total.down >= r.shape.MaxUnavailable, n.down >= p.Limit
		switch {
		case (crowded || narrow) && !r.anyWantsRoom(p):
		case crowded:
			return &Stop{Clusters: r.unavailable(nil), Allowed: r.shape.MaxUnavailable}
		case narrow:
			return &Stop{Partition: p.Name, Clusters: r.unavailable(p), Allowed: p.Limit}
		}
		if n.notReady > p.Limit {
			over++
		}
		if over > r.shape.MaxUnavailablePartitions {
			return r.queue(i)
		}
	}
	return nil
}

// anyWantsRoom reports whether a target of a partition could go on if there were
// room.
func (r *round) anyWantsRoom(p *Partition) bool {
	for _, i := range p.Members {
		t := &r.targets[i]
		if !t.Exists || t.Held != "" || t.Paused || t.Desired == "" || t.Current == t.Desired || t.Deferred() || t.down() {
			continue
		}
		if r.steps == nil || !r.steps[i].Move {
			return true
		}
	}
	return false
}

// unavailable are the targets of a partition, or of all where it is nil, that
// are down, counting what this round takes down.
func (r *round) unavailable(p *Partition) Names {
	var out Names
	check := func(i int) {
		if r.targets[i].Unavailable() || r.steps != nil && r.steps[i].Costs {
			out.addName(r.targets[i].Name)
		}
	}
	if p == nil {
		for i := range r.targets {
			check(i)
		}
		return out
	}
	for _, i := range p.Members {
		check(i)
	}
	return out
}

// queue is the stop of the partitions after the one that is waited for; nil
// where they have nothing to do.
func (r *round) queue(blocker int) *Stop {
	p := &r.shape.Partitions[blocker]
	s := &Stop{For: p.Name, Allowed: p.Limit}
	waiting := 0
	for i := blocker + 1; i < len(r.shape.Partitions); i++ {
		if !r.anyLeft(&r.shape.Partitions[i]) {
			continue
		}
		if waiting++; waiting == 1 {
			s.Partition = r.shape.Partitions[i].Name
		}
	}
	if waiting == 0 {
		return nil
	}
	s.Others = waiting - 1
	for _, i := range p.Members {
		if t := &r.targets[i]; t.holdsPartition() {
			s.Clusters.addName(t.Name)
		}
	}
	return s
}

// anyLeft reports whether a partition has targets to work on.
func (r *round) anyLeft(p *Partition) bool {
	for _, i := range p.Members {
		if t := &r.targets[i]; t.Desired != "" && !t.IsSettled() {
			return true
		}
	}
	return false
}
