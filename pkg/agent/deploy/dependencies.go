package deploy

import (
	"errors"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A deployment may depend on others of its cluster. It waits for them without a timer:
// each reconcile notes the state that it found, and enqueues the deployments that wait
// for this one. That works equally fast while the manager is away.

// finding is the state of a deployment id as it was found last.
type finding struct {
	id    string
	state fleet.BundleState
}

// dependencies know which deployments wait for others, and in which state the last run
// found each.
type dependencies struct {
	records records
	now     func() time.Time
	enqueue func(name string)

	mu      sync.Mutex
	waiting map[string]dependency.Node // the deployments that wait, by name
	found   map[string]finding         // at the end of the last run, by name
}

func newDependencies(r records, now func() time.Time, enqueue func(name string)) *dependencies {
	return &dependencies{records: r, now: now, enqueue: enqueue, waiting: map[string]dependency.Node{}, found: map[string]finding{}}
}

// forget removes what is known of a deployment.
func (d *dependencies) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, name)
	delete(d.found, name)
}

// waitForDependencies returns a wait if bundles of dependsOn are not ready. The status
// reports the wait as a failure, as in Rancher Fleet. A change of these bundles ends
// the wait, and no timer.
func (d *dependencies) waitForDependencies(s *snapshot) error {
	self := dependency.Node{Name: s.name, Labels: s.labels, State: fleet.WaitApplied, DependsOn: s.spec.DependsOn}
	d.setWaiting(self) // first: later changes enqueue the deployment again
	if len(self.DependsOn) == 0 {
		return nil
	}
	v, err := dependency.Check(self, append(d.nodes(s), self))
	switch {
	case err != nil:
		return err
	case v.Reason != "":
		return &reportedRetry{reconcile.RequeueError(v.Reason, 0, errors.New(v.Message)), 0}
	}
	d.setWaiting(dependency.Node{Name: s.name})
	return nil
}

// nodes returns the other deployments of the cluster: those that the manager has;
// without a connection those that the agent has accepted.
func (d *dependencies) nodes(s *snapshot) []dependency.Node {
	var out []dependency.Node
	if s.session != nil && s.session.Deployments.HasSynced() {
		for _, bd := range s.session.Deployments.List("") {
			if bd.Name != s.name && bd.Annotations[fleet.AnnotationWithdrawn] == "" {
				out = append(out, d.nodeOf(bd))
			}
		}
		return out
	}
	for _, rec := range d.records.All() {
		if rec.Key.Name != s.name && rec.Ordered == "" {
			bd := &fleet.BundleDeployment{Spec: rec.Spec}
			bd.Name, bd.Labels = rec.Key.Name, rec.Labels
			out = append(out, d.nodeOf(bd))
		}
	}
	return out
}

// nodeOf returns a deployment in the state that the last run found, or else the
// reported one.
func (d *dependencies) nodeOf(bd *fleet.BundleDeployment) dependency.Node {
	n := dependency.Node{Name: bd.Name, Labels: bd.Labels, DependsOn: bd.Spec.DependsOn}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.found[bd.Name]; ok && f.state != "" && f.id == bd.Spec.DeploymentID {
		n.State = f.state
		return n
	}
	n.State = summary.State(bd, "")
	return n
}

// setWaiting records that a deployment waits for others; a deployment without
// dependencies does not.
func (d *dependencies) setWaiting(n dependency.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(n.DependsOn) == 0 {
		delete(d.waiting, n.Name)
		return
	}
	d.waiting[n.Name] = n
}

// setState stores the state that a run has found, and enqueues the deployments that
// wait for a change of it.
func (d *dependencies) setState(s *snapshot, f report.Found) {
	bd := &fleet.BundleDeployment{Spec: s.spec}
	if s.bd != nil {
		*bd = *s.bd
	}
	bd.Name, bd.Labels = s.name, s.labels
	bd.Status = report.Status(bd, f, d.now())
	wanted := bd.Spec.StagedDeploymentID
	if wanted == "" {
		wanted = bd.Spec.DeploymentID // a record does not say what is staged
	}
	now := finding{id: bd.Spec.DeploymentID, state: summary.State(bd, wanted)}
	d.mu.Lock()
	before := d.found[s.name]
	d.found[s.name] = now
	d.mu.Unlock()
	if before != now {
		d.enqueueDependents(bd)
	}
}

// enqueueDependents enqueues the deployments that wait for a deployment.
func (d *dependencies) enqueueDependents(bd *fleet.BundleDeployment) {
	for _, name := range d.waitingFor(bd) {
		d.enqueue(name)
	}
}

// waitingFor returns the deployments that wait for a deployment.
func (d *dependencies) waitingFor(bd *fleet.BundleDeployment) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var who []string
	for name, n := range d.waiting {
		if name != bd.Name && dependency.DependsOn(n, dependency.Node{Name: bd.Name, Labels: bd.Labels}) {
			who = append(who, name)
		}
	}
	return who
}

// onReport enqueues the deployments that wait for another deployment when that is
// created or deleted, or is reported in another state.
func (d *dependencies) onReport(old, changed *fleet.BundleDeployment) {
	if old != nil && changed != nil && old.Generation == changed.Generation && summary.State(old, "") == summary.State(changed, "") {
		return
	}
	for _, bd := range []*fleet.BundleDeployment{old, changed} {
		if bd != nil {
			d.enqueueDependents(bd)
		}
	}
}
