package fleetstate

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

// SetSchedule stores a Schedule, or removes it if r is nil. It returns the clusters whose
// windows have changed.
func (t clusterTable) SetSchedule(key kube.Key, r *schedule.Rule) (Changes, []ClusterChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rules := t.rules[key.Namespace]
	switch {
	case r == nil:
		if delete(rules, key.Name); len(rules) == 0 {
			delete(t.rules, key.Namespace)
		}
	case rules == nil:
		t.rules[key.Namespace] = map[string]*schedule.Rule{key.Name: r}
	default:
		rules[key.Name] = r
	}
	clear(t.windows)
	return t.replaceWindows(key.Namespace)
}

// CheckWindows computes again which windows of the clusters of a namespace are open, after
// time has passed. It returns the clusters where they have opened or closed.
func (t clusterTable) CheckWindows(namespace string) (Changes, []ClusterChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.replaceWindows(namespace)
}

// replaceWindows computes the places of all clusters of a namespace again.
func (t clusterTable) replaceWindows(namespace string) (changed Changes, changes []ClusterChange) {
	for _, key := range t.members[namespace] {
		row := t.clusters[key]
		before := len(changes)
		if changes = t.replaceCluster(row, changes); len(changes) > before {
			changed.add(Subject{KindCluster, key}, row.counts.final())
		}
	}
	return changed, changes
}

// Schedule returns a Schedule as it was stored, and the names of its clusters, sorted; false
// if there is none.
func (t clusterTable) Schedule(key kube.Key) (*schedule.Rule, []string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rules[key.Namespace][key.Name]
	if r == nil {
		return nil, nil, false
	}
	var names []string
	for _, k := range t.members[key.Namespace] {
		if r.Selects(&t.clusters[k].place.Cluster) {
			names = append(names, k.Name)
		}
	}
	return r, names, true
}

// setWindows completes the place of a cluster: its windows, and whether they are open.
// protocol is that of its agent.
func (cr *core) setWindows(p *deployment.Place, protocol int) {
	rules := cr.rules[p.Cluster.Namespace]
	if len(rules) == 0 {
		return
	}
	if p.Windows = schedule.ForCluster(rules, &p.Cluster); p.Windows == "" {
		return
	}
	p.Closed = cr.closedAt(p.Windows, cr.now())
	p.OffSchedule = p.Closed != "" && protocol < fleet.ProtocolWindows
}

// closedAt says why windows are closed at a time.
func (cr *core) closedAt(windows string, now time.Time) string {
	w, ok := cr.windows[windows]
	if !ok {
		w = schedule.Decode(windows)
		cr.windows[windows] = w
	}
	return w.Closed(now)
}
