package fleetstate

import (
	"strconv"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// annotationHeartbeat carries a Sign on cached Clusters. It exists in caches only.
const annotationHeartbeat = "cache.fleet.cattle.io/sign"

// A Heartbeat is the last sign of life of an agent.
type Heartbeat struct {
	Time     time.Time // by the API server's clock; zero: none yet
	Protocol int       // of the agent; 0: an agent of rancher/fleet
}

// ExtractHeartbeat stores the last heartbeat of the agent, from managedFields, on a
// Cluster that is about to be cached; the cache drops managedFields. It is the
// transform of Cluster caches, and changes nothing if it is called again.
func ExtractHeartbeat(c *fleet.Cluster) {
	if c.ManagedFields == nil {
		return
	}
	s := heartbeatOf(c)
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	delete(c.Annotations, annotationHeartbeat) // no other source is trusted
	if s.Time.IsZero() {
		return
	}
	c.Annotations[annotationHeartbeat] = s.Time.UTC().Format(time.RFC3339) + " " + strconv.Itoa(s.Protocol)
}

// lastSeen is the field that every agent writes with every sign of life, as
// managedFields name it. When an agent changes a field, the API server removes the
// field from all other entries. So the entry with this field is the last agent's, even
// if an agent of another version left other entries behind.
const lastSeen = `"f:lastSeen"`

// heartbeatOf finds in managedFields the last heartbeat of an agent. If two agents
// report in the same second, it returns the one with the lower protocol. Agents of
// rancher/fleet are recognized by the name of their field manager; without an entry, by
// the time that they write to the status.
func heartbeatOf(c *fleet.Cluster) Heartbeat {
	s, last := Heartbeat{}, false
	for i := range c.ManagedFields {
		m := &c.ManagedFields[i]
		protocol, ok := protocolOf(m.Manager)
		if !ok || m.Time == nil {
			continue
		}
		holds := m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), lastSeen)
		switch {
		case !holds && (last || protocol == 0): // rancher/fleet also writes Clusters under this name
		case holds && !last, m.Time.After(s.Time), m.Time.Time.Equal(s.Time) && protocol < s.Protocol:
			s, last = Heartbeat{Time: m.Time.Time, Protocol: protocol}, holds
		}
	}
	if s.Time.IsZero() {
		s.Time = c.Status.Agent.LastSeen.Time
	}
	return s
}

// protocolOf returns the protocol that the field manager name of an agent states; false
// if the writer is not an agent.
func protocolOf(manager string) (int, bool) {
	if manager == fleet.FieldManagerRelease { // the agent of rancher/fleet uses one name for everything
		return 0, true
	}
	number, ok := strings.CutPrefix(manager, fleet.FieldManagerAgentPrefix)
	protocol, err := strconv.Atoi(number)
	return protocol, ok && err == nil && protocol > 0
}

// ReadHeartbeat returns the heartbeat that ExtractHeartbeat has stored on a cached
// Cluster; for other Clusters it reads managedFields.
func ReadHeartbeat(c *fleet.Cluster) Heartbeat {
	if len(c.ManagedFields) > 0 {
		return heartbeatOf(c)
	}
	stamp, protocol, _ := strings.Cut(c.Annotations[annotationHeartbeat], " ")
	s := Heartbeat{}
	if at, err := time.Parse(time.RFC3339, stamp); err == nil {
		s.Time = at
		s.Protocol, _ = strconv.Atoi(protocol)
	}
	return s
}

// setHeartbeat stores the heartbeat of a Cluster. A heartbeat that changes while the
// manager watches proves that the agent is alive, whatever the clocks say. An old
// heartbeat at the start of the manager proves nothing, because the manager may have
// been down too: the cluster keeps the state in its status until the deadline has
// passed by the manager's clock. revived reports that the agent was not online before,
// away is how long it was offline; 0 for its first report.
func (cr *core) setHeartbeat(row *clusterRow, first bool, changed *Changes) (revived bool, away time.Duration) {
	s, key := ReadHeartbeat(row.obj), kube.KeyOf(row.obj)
	timeout := heartbeat.PolicyOf(row.obj, s.Protocol).Deadline(cr.checkin)
	if first {
		cr.expectAck(row, key)
	}
	switch {
	case s.Time.IsZero():
		row.life = summary.NeverSeen
	case first && row.obj.Status.Display.State == fleet.Offline && cr.now().Sub(s.Time) > timeout:
		row.lastAlive, row.life = s.Time, summary.Offline
	case first:
		row.lastAlive, row.life = s.Time, summary.Online
		if age := cr.now().Sub(s.Time); age > timeout || age < 0 {
			row.lastAlive = cr.now()
		}
	case !s.Time.Equal(row.heartbeat.Time):
		revived, away = row.life != summary.Online, cr.offlineFor(row)
		row.lastAlive, row.life = cr.now(), summary.Online
		cr.settlePendingAck(row, key, changed)
	}
	row.heartbeat = s
	return revived, away
}

// offlineFor returns how long an agent was offline; 0 if it was not.
func (cr *core) offlineFor(row *clusterRow) time.Duration {
	if row.life != summary.Offline {
		return 0
	}
	return max(cr.now().Sub(row.lastAlive), 1)
}

// MissedDeadline reports whether the agent of an online cluster has missed the deadline
// of its check-ins. If not, it also returns when to ask again; 0: after its first
// report.
func (t clusterTable) MissedDeadline(key kube.Key) (bool, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil || row.life == summary.NeverSeen {
		return false, 0
	}
	left := row.policy().Deadline(t.checkin) - t.now().Sub(row.lastAlive)
	if left > 0 {
		return false, min(left, heartbeat.Missed*t.checkin) // the agent may check in more often from now on
	}
	return row.life == summary.Online, 0
}

// OfflineReason returns the condition message for an agent that has missed its
// deadline.
func (t clusterTable) OfflineReason(key kube.Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil {
		return ""
	}
	return row.policy().Absent(t.checkin)
}

// SetOffline makes a cluster offline. The caller has confirmed at the API server that
// its agent has not checked in.
func (t clusterTable) SetOffline(key kube.Key) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	row := t.clusters[key]
	if row == nil || row.life != summary.Online {
		return changed
	}
	row.life = summary.Offline
	t.moves++
	changed.add(Subject{KindCluster, key}, row.counts.final())
	t.touchGroups(key.Namespace, &changed)
	for c := range t.onCluster[key] {
		b := t.bundleRowOf(c.bundle)
		b.changed++
		if b.plan != nil && b.plan.Waiting || b.obj != nil && b.obj.DeletionTimestamp != nil {
			changed.Plan = append(changed.Plan, c.bundle)
		}
	}
	return changed
}
