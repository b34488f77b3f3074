package table

import (
	"strconv"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rhythm"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// annotationSign carries a Sign on cached Clusters. It exists in caches only.
const annotationSign = "cache.fleet.cattle.io/sign"

// A Sign is the last sign of life of an agent.
type Sign struct {
	Time     time.Time // by the API server's clock; zero: none yet
	Protocol int       // that the agent speaks; 0: the reference's agent
}

// KeepSign reads the agent's sign of life from a Cluster's managedFields and
// keeps it on the cached object, since managedFields are dropped. It is the
// diet of Cluster caches, and does nothing where it has been before.
func KeepSign(c *fleet.Cluster) {
	if c.ManagedFields == nil {
		return
	}
	s := signOf(c)
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	delete(c.Annotations, annotationSign) // nobody else's word counts
	if s.Time.IsZero() {
		return
	}
	c.Annotations[annotationSign] = s.Time.UTC().Format(time.RFC3339) + " " + strconv.Itoa(s.Protocol)
}

// lastSeen is the field that every agent writes with every sign of life, as
// managedFields name it. A field that an agent changes leaves the entries of all
// others, so the one that has it is the last one's, whatever other entries an
// agent of another version left behind.
const lastSeen = `"f:lastSeen"`

// signOf finds the sign of the agent that reported last in managedFields. Of
// two of the same second the lower protocol counts. The reference's agents are
// known by their name, and where there is no entry by the time in the status,
// which they write themselves.
func signOf(c *fleet.Cluster) Sign {
	s, last := Sign{}, false
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
			s, last = Sign{Time: m.Time.Time, Protocol: protocol}, holds
		}
	}
	if s.Time.IsZero() {
		s.Time = c.Status.Agent.LastSeen.Time
	}
	return s
}

// protocolOf is the protocol of an agent by the name under which it writes; false
// for somebody else.
func protocolOf(manager string) (int, bool) {
	if manager == fleet.FieldManagerRelease { // the reference's agent has one name for everything
		return 0, true
	}
	number, ok := strings.CutPrefix(manager, fleet.FieldManagerAgentPrefix)
	protocol, err := strconv.Atoi(number)
	return protocol, ok && err == nil && protocol > 0
}

// ReadSign reads what KeepSign kept, or, on an object that did not pass
// through a cache, what KeepSign would keep.
func ReadSign(c *fleet.Cluster) Sign {
	if len(c.ManagedFields) > 0 {
		return signOf(c)
	}
	stamp, protocol, _ := strings.Cut(c.Annotations[annotationSign], " ")
	s := Sign{}
	if at, err := time.Parse(time.RFC3339, stamp); err == nil {
		s.Time = at
		s.Protocol, _ = strconv.Atoi(protocol)
	}
	return s
}

// setSign takes in a sign of life. A sign that moves while we watch proves
// life now, whatever the clocks say. An old one that we find at the start
// proves nothing: the manager may have been away as well, so the cluster keeps
// the state that its status shows until it has been silent for our time. It
// tells whether the agent was silent before, and for how long; that is 0 where it
// reports for the first time.
func (t *Table) setSign(row *clusterRow, first bool, news *News) (revived bool, away time.Duration) {
	s, key := ReadSign(row.obj), kube.KeyOf(row.obj)
	patience := rhythm.HabitOf(row.obj, s.Protocol).Patience(t.checkin)
	if first {
		t.owes(row, key)
	}
	switch {
	case s.Time.IsZero():
		row.life = summary.NeverSeen
	case first && row.obj.Status.Display.State == fleet.Offline && t.now().Sub(s.Time) > patience:
		row.alive, row.life = s.Time, summary.Offline
	case first:
		row.alive, row.life = s.Time, summary.Online
		if age := t.now().Sub(s.Time); age > patience || age < 0 {
			row.alive = t.now()
		}
	case !s.Time.Equal(row.sign.Time):
		revived, away = row.life != summary.Online, t.away(row)
		row.alive, row.life = t.now(), summary.Online
		t.settleDebt(row, key, news)
	}
	row.sign = s
	return revived, away
}

// away is for how long an agent that is back was not heard of; 0 for one that was
// not Offline.
func (t *Table) away(row *clusterRow) time.Duration {
	if row.life != summary.Offline {
		return 0
	}
	return max(t.now().Sub(row.alive), 1)
}

// Silent tells that the agent of a cluster has been silent for too long as of
// now, and else when to ask again (0: when it has reported for the first
// time).
func (t *Table) Silent(key kube.Key) (bool, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil || row.life == summary.NeverSeen {
		return false, 0
	}
	left := row.habit().Patience(t.checkin) - t.now().Sub(row.alive)
	if left > 0 {
		return false, min(left, rhythm.Missed*t.checkin) // it may think better of coming so late
	}
	return row.life == summary.Online, 0
}

// Absent says what the agent of a silent cluster did not do.
func (t *Table) Absent(key kube.Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.clusters[key]
	if row == nil {
		return ""
	}
	return row.habit().Absent(t.checkin)
}

// SetOffline takes in that a silent agent was confirmed to be silent.
func (t *Table) SetOffline(key kube.Key) News {
	t.mu.Lock()
	defer t.mu.Unlock()
	var news News
	row := t.clusters[key]
	if row == nil || row.life != summary.Online {
		return news
	}
	row.life = summary.Offline
	t.moves++
	news.add(Subject{KindCluster, key}, row.counts.final())
	t.touchGroups(key.Namespace, &news)
	for c := range t.onCluster[key] {
		b := t.bundle(c.bundle)
		b.news++
		if b.plan != nil && b.plan.Waiting || b.obj != nil && b.obj.DeletionTimestamp != nil {
			news.Plan = append(news.Plan, c.bundle)
		}
	}
	return news
}
