package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// clockLimit is by how much clocks may differ before it is a warning.
const clockLimit = 30 * time.Second

// joinLimit is how long a Cluster may be without an agent before the user should look.
const joinLimit = 5 * time.Minute

// agents counts agents by their version.
func agents(s Observed) []Finding {
	if len(s.Agents) == 0 {
		return []Finding{{Check: Agents, Verdict: OK, Message: "no clusters yet", Hint: "to let one in: fleet cluster join NAME"}}
	}
	count := map[string]int{}
	offline, never := 0, []string{}
	for _, a := range s.Agents {
		c := a.Cluster
		switch {
		case c.Status.Agent.LastSeen.IsZero():
			if s.Now.Sub(c.CreationTimestamp.Time) > joinLimit {
				never = append(never, c.Namespace+"/"+c.Name)
			}
			continue
		case view.ClusterState(c) == fleet.Offline:
			offline++
		}
		count[agentName(a)]++
	}
	f := Finding{Check: Agents, Verdict: OK, Message: countText(count)}
	if own := s.managerVersion(); own != "" && len(count) > 0 && (len(count) > 1 || count[own] == 0) {
		f.Verdict = Warn
	}
	if offline > 0 {
		f.Message += fmt.Sprintf("; %d Offline", offline)
	}
	if len(never) > 0 {
		f.Verdict = Warn
		f.Message += fmt.Sprintf("; %d never checked in: %s", len(never), firstNames(never, 3))
		f.Hint = "fleet events cluster/" + withoutWorkspace(never[0]) + " tells why"
	}
	f.Message = strings.TrimPrefix(f.Message, "; ")
	if f.Message == "" {
		f.Message = fmt.Sprintf("%d about to join", len(s.Agents))
	}
	return []Finding{f}
}

func (o Observed) managerVersion() string {
	if o.Manager == nil {
		return ""
	}
	return o.Manager.Version
}

// silent describes agents that do not report their version.
const silent = "of the reference or unknown (these do not confirm removals)"

func agentName(a AgentSeen) string {
	version := a.Cluster.Status.Agent.Version
	switch {
	case a.Protocol == 0 && version == "":
		return silent
	case a.Protocol == 0:
		return version + " (these do not confirm removals)"
	case version == "":
		return fmt.Sprintf("protocol %d", a.Protocol)
	}
	return version
}

// countText is "781 v0.3.1, 8 v0.2.9", the most first.
func countText(count map[string]int) string {
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", count[name], name)
	}
	return strings.Join(names, ", ")
}

// clocks compares what agents say of the time with the API server's, in the same
// write.
func clocks(s Observed) []Finding {
	largest, where := time.Duration(-1), ""
	for _, a := range s.Agents {
		seen := a.Cluster.Status.Agent.LastSeen.Time
		if seen.IsZero() || a.Heartbeat.IsZero() || a.Protocol == 0 {
			continue
		}
		if d := seen.Sub(a.Heartbeat).Abs(); d > largest {
			largest, where = d, a.Cluster.Namespace+"/"+a.Cluster.Name
		}
	}
	switch {
	case largest < 0:
		return []Finding{{Check: Clocks, Verdict: OK, Message: "no agent to compare with"}}
	case largest > clockLimit:
		return []Finding{{
			Check: Clocks, Verdict: Warn, Message: fmt.Sprintf("%s differs by %s from the API server", where, seconds(largest)),
			Hint: "Offline is judged by the API server's clock alone; schedules of that site are not",
		}}
	}
	return []Finding{{Check: Clocks, Verdict: OK, Message: fmt.Sprintf("largest difference %s (%s)", seconds(largest), where)}}
}

// identity finds clusters whose agents are taken for each other.
func identity(s Observed) []Finding {
	owners := map[string][]string{}
	var out []Finding
	for _, a := range s.Agents {
		c := a.Cluster
		name := c.Namespace + "/" + c.Name
		if id := c.Spec.ClientID; id != "" {
			owners[id] = append(owners[id], name)
		}
		if cond := condition.Find(c.Status.Conditions, fleet.ConditionDuplicateIdentity); cond != nil && cond.Status == corev1.ConditionTrue {
			out = append(out, Finding{
				Check: Identity, Verdict: Fail, Message: fmt.Sprintf("two agents check in as %s (cloned image?)", name),
				Hint: "give one a clientID: docs/registration.md#clones",
			})
		}
		if cond := condition.Find(c.Status.Conditions, fleet.ConditionRegistrationWaiting); cond != nil && cond.Status == corev1.ConditionTrue {
			out = append(out, Finding{
				Check: Identity, Verdict: Warn, Message: fmt.Sprintf("another agent asks for %s and waits to be accepted", name),
				Hint: fmt.Sprintf("fleet cluster accept -n %s %s", c.Namespace, c.Name),
			})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		if names := owners[id]; len(names) > 1 {
			out = append(out, Finding{
				Check: Identity, Verdict: Fail, Message: fmt.Sprintf("%s share one clientID (cloned image?)", strings.Join(names, " and ")),
				Hint: "give one a clientID: docs/registration.md#clones",
			})
		}
	}
	if len(out) == 0 {
		return []Finding{{Check: Identity, Verdict: OK, Message: "each cluster has its own"}}
	}
	return out
}

// withoutWorkspace is the name without its workspace.
func withoutWorkspace(name string) string { return name[strings.LastIndex(name, "/")+1:] }
