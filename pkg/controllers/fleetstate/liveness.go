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
	Protocol int       // of the agent; 0: the reference's agent
}

// ExtractHeartbeat reads the agent's sign of life from a Cluster's managedFields and
// keeps it on the cached object, since managedFields are dropped. It is the transform
// of Cluster caches, and does nothing to an object that it has handled before.
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

// heartbeatOf finds the heartbeat of the agent that reported last in managedFields. If
// two fall into the same second, the lower protocol wins. Agents of the reference are
// recognized by their name, and where there is no entry by the time in the status,
// which they write themselves.
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
		case !holds && (last || protocol == 0): // under that name the reference also deploys Clusters
		case holds && !last, m.Time.After(s.Time), m.Time.Time.Equal(s.Time) && protocol < s.Protocol:
			s, last = Heartbeat{Time: m.Time.Time, Protocol: protocol}, holds
		}
	}
	if s.Time.IsZero() {
		s.Time = c.Status.Agent.LastSeen.Time
	}
	return s
}

// protocolOf is the protocol of an agent by the name under which it writes; false for
// another writer.
func protocolOf(manager string) (int, bool) {
	if manager == fleet.FieldManagerRelease { // the reference's agent has one name for everything
		return 0, true
	}
	number, ok := strings.CutPrefix(manager, fleet.FieldManagerAgentPrefix)
	protocol, err := strconv.Atoi(number)
	return protocol, ok && err == nil && protocol > 0
}

// ReadHeartbeat reads what KeepSign kept, or, on an object that did not pass
// through a cache, what KeepSign would keep.
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

// setHeartbeat stores a sign of life. If it changes while we watch, the agent is alive,
// regardless of the clocks. An old one that we find at the start proves nothing: the
// manager may have been away as well. So the cluster keeps the state that its status
// shows until it has been silent for that long by our clock. It reports whether the
// agent was silent before, and for how long; that is 0 where it reports for the first
// time.
func (t *core) setHeartbeat(row *clusterRow, first bool, changed *Changes) (revived bool, away time.Duration) {
	s, key := ReadHeartbeat(row.obj), kube.KeyOf(row.obj)
	timeout := heartbeat.PolicyOf(row.obj, s.Protocol).Deadline(t.checkin)
	if first {
		t.expectAck(row, key)
	}
	switch {
	case s.Time.IsZero():
		row.life = summary.NeverSeen
	case first && row.obj.Status.Display.State == fleet.Offline && t.now().Sub(s.Time) > timeout:
		row.alive, row.life = s.Time, summary.Offline
	case first:
		row.alive, row.life = s.Time, summary.Online
		if age := t.now().Sub(s.Time); age > timeout || age < 0 {
			row.alive = t.now()
		}
	case !s.Time.Equal(row.heartbeat.Time):
		revived, away = row.life != summary.Online, t.away(row)
		row.alive, row.life = t.now(), summary.Online
		t.settlePendingAck(row, key, changed)
	}
	row.heartbeat = s
	return revived, away
}

// away returns how long an agent that is back did not report; 0 for one that was not
// Offline.
func (t *core) away(row *clusterRow) time.Duration {
	if row.life != summary.Offline {
		return 0
	}
	return max(t.now().Sub(row.alive), 1)
}

// Silent reports that the agent of a cluster has been silent for too long as of
// now, and else when to ask again (0: when it has reported for the first
// time).
func (t clusterTable) Silent(key kube.Key) (bool, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil || row.life == summary.NeverSeen {
		return false, 0
	}
	left := row.policy().Deadline(t.checkin) - t.now().Sub(row.alive)
	if left > 0 {
		return false, min(left, heartbeat.Missed*t.checkin) // it may think better of coming so late
	}
	return row.life == summary.Online, 0
}

// Absent returns what the agent of a silent cluster did not do.
func (t clusterTable) Absent(key kube.Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil {
		return ""
	}
	return row.policy().Absent(t.checkin)
}

// SetOffline notes that a silent agent was confirmed to be silent.
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
		b := t.bundle(c.bundle)
		b.changed++
		if b.plan != nil && b.plan.Waiting || b.obj != nil && b.obj.DeletionTimestamp != nil {
			changed.Plan = append(changed.Plan, c.bundle)
		}
	}
	return changed
}
