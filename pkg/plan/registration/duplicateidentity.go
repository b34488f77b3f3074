package registration

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// AgentSightings.
const (
	sightsKept = 4 // names of agents that are remembered
	// returnsProve is how often an agent has to come back after another one was
	// there. Twice is what a Cluster shows that was restored from a backup: the
	// agent before, and again the one that lives.
	returnsProve = 3
)

// Limits of how long two agents are remembered.
const (
	memoryCheckIns = 3 // of two agents each writes its name at every second check-in, or a little later
	shortestMemory = 3 * time.Minute
	longestMemory  = 3 * 24 * time.Hour
)

// DuplicateMemory returns how long the condition DuplicateIdentity of a Cluster stays after
// two agents were seen last: by how often its agent says that it checks in.
func DuplicateMemory(c *fleet.Cluster) time.Duration {
	a := c.Status.Agent
	if a.NextCheckIn == nil || a.LastSeen.IsZero() {
		return shortestMemory
	}
	interval := min(a.NextCheckIn.Sub(a.LastSeen.Time), longestMemory)
	return min(max(memoryCheckIns*interval, shortestMemory), longestMemory)
}

// AgentSightings remembers which agents have shown themselves under one identity. An agent writes a
// name, which lasts for one run, when it checks in first. It writes it again only when it
// finds another agent's name there. So a name that comes back belongs to a running agent.
type AgentSightings struct {
	names   []string // the present one last
	returns int
	last    time.Time // of a return
	began   time.Time // of the memory
	pair    [2]string
}

// Record notes the name that stands in the status of a Cluster.
func (s *AgentSightings) Record(c *fleet.Cluster, now time.Time) {
	name := c.Status.Agent.Instance
	if s.began.IsZero() {
		s.began = now
	}
	if name == "" {
		return
	}
	present := ""
	if n := len(s.names); n > 0 {
		present = s.names[n-1]
	}
	if name == present {
		return
	}
	if i := slices.Index(s.names, name); i >= 0 {
		s.names = slices.Delete(s.names, i, i+1)
		if now.Sub(s.last) >= DuplicateMemory(c) {
			s.returns = 0
		}
		s.returns, s.last = s.returns+1, now
		s.pair = [2]string{min(name, present), max(name, present)}
	}
	s.names = append(s.names, name)
	if len(s.names) > sightsKept {
		s.names = s.names[1:]
	}
}

// aliveFor is for how long two agents are still taken to be alive; 0: there are none. The
// result from before a restart of the manager holds until this one has watched for long
// enough, and a single return confirms it.
func (s *AgentSightings) aliveFor(c *fleet.Cluster, now time.Time) time.Duration {
	memory := DuplicateMemory(c)
	stood := condition.IsTrue(c.Status.Conditions, fleet.ConditionDuplicateIdentity)
	switch {
	case s.returns >= returnsProve, stood && s.returns > 0:
		return max(0, s.last.Add(memory).Sub(now))
	case stood && s.began.IsZero():
		return memory
	case stood:
		return max(0, s.began.Add(memory).Sub(now))
	}
	return 0
}

// IdentityConditions returns the conditions of a Cluster with what is known of its agents:
// DuplicateIdentity and RegistrationWaiting, each only as long as it is true. requests are
// those that name the Cluster. left is when to look again; 0: only when something changes.
func IdentityConditions(c *fleet.Cluster, s *AgentSightings, requests []*fleet.ClusterRegistration, now time.Time) (list []fleet.Condition, left time.Duration) {
	list = c.Status.Conditions
	switch left = s.aliveFor(c, now); {
	case left == 0:
		list = condition.Remove(list, fleet.ConditionDuplicateIdentity)
	case s.returns >= returnsProve:
		list = condition.Set(list, duplicate(s.pair), now)
	}
	held := WaitingRequests(c, requests)
	if len(held) == 0 {
		return condition.Remove(list, fleet.ConditionRegistrationWaiting), left
	}
	return condition.Set(list, waiting(c, held), now), left
}

func duplicate(pair [2]string) fleet.Condition {
	return fleet.Condition{
		Type: fleet.ConditionDuplicateIdentity, Status: corev1.ConditionTrue, Reason: fleet.ConditionDuplicateIdentity,
		Message: condition.Message(fmt.Sprintf("two agents check in as this cluster (%s and %s): a cloned cluster? "+
			"the younger one deploys nothing; give one a clientID of its own", pair[0], pair[1])),
	}
}

func waiting(c *fleet.Cluster, held []*fleet.ClusterRegistration) fleet.Condition {
	var names []string
	for _, r := range held {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > 3 {
		more = fmt.Sprintf(" and %d more", len(names)-3)
		names = names[:3]
	}
	return fleet.Condition{
		Type: fleet.ConditionRegistrationWaiting, Status: corev1.ConditionTrue, Reason: fleet.ConditionRegistrationWaiting,
		Message: condition.Message(fmt.Sprintf("asked for by ClusterRegistration %s%s: fleet cluster accept -n %s %s",
			strings.Join(names, ", "), more, c.Namespace, c.Name)),
	}
}
