package deploy

import (
	"errors"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
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

// dependencies waits for the bundles that must be there first. The status reports the wait
// as a failure, as in the reference. A change of the other bundles ends it, not a timer.
func (r *Reconciler) dependencies(s *snapshot) error {
	self := dependency.Node{Name: s.name, Labels: s.labels, State: fleet.WaitApplied, DependsOn: s.spec.DependsOn}
	r.await(self) // first: what changes after this enqueues it again
	if len(self.DependsOn) == 0 {
		return nil
	}
	v, err := dependency.Judge(self, append(r.nodes(s), self))
	switch {
	case err != nil:
		return err
	case v.Reason != "":
		return &setback{reconcile.RequeueError(v.Reason, 0, errors.New(v.Message)), 0}
	}
	r.await(dependency.Node{Name: s.name})
	return nil
}

// nodes are the other deployments of the cluster: those that the manager has;
// without it, those that were accepted.
func (r *Reconciler) nodes(s *snapshot) []dependency.Node {
	var out []dependency.Node
	if s.session != nil && s.session.Deployments.HasSynced() {
		for _, bd := range s.session.Deployments.List("") {
			if bd.Name != s.name && bd.Annotations[fleet.AnnotationWithdrawn] == "" {
				out = append(out, r.nodeOf(bd))
			}
		}
		return out
	}
	for _, rec := range r.cfg.Store.All() {
		if rec.Key.Name != s.name && rec.Ordered == "" {
			bd := &fleet.BundleDeployment{Spec: rec.Spec}
			bd.Name, bd.Labels = rec.Key.Name, rec.Labels
			out = append(out, r.nodeOf(bd))
		}
	}
	return out
}

// nodeOf is a deployment in the state that was found last, or else reported.
func (r *Reconciler) nodeOf(bd *fleet.BundleDeployment) dependency.Node {
	n := dependency.Node{Name: bd.Name, Labels: bd.Labels, DependsOn: bd.Spec.DependsOn}
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.states[bd.Name]; st != nil && st.found.state != "" && st.found.id == bd.Spec.DeploymentID {
		n.State = st.found.state
		return n
	}
	n.State = summary.State(bd, "")
	return n
}

// await notes that a deployment waits for others; one that depends on nothing
// does not.
func (r *Reconciler) await(n dependency.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(n.DependsOn) == 0 {
		delete(r.waiting, n.Name)
		return
	}
	if r.waiting == nil {
		r.waiting = map[string]dependency.Node{}
	}
	r.waiting[n.Name] = n
}

// note keeps the state that a run has found, and enqueues the deployments that wait for
// another state.
func (r *Reconciler) note(s *snapshot, f report.Found) {
	bd := &fleet.BundleDeployment{Spec: s.spec}
	if s.bd != nil {
		*bd = *s.bd
	}
	bd.Name, bd.Labels = s.name, s.labels
	bd.Status = report.Status(bd, f, r.cfg.Now())
	wanted := bd.Spec.StagedDeploymentID
	if wanted == "" {
		wanted = bd.Spec.DeploymentID // a record does not say what is staged
	}
	now := finding{id: bd.Spec.DeploymentID, state: summary.State(bd, wanted)}
	r.mu.Lock()
	before := s.state.found
	s.state.found = now
	r.mu.Unlock()
	if before != now {
		r.enqueueDependents(bd)
	}
}

// enqueueDependents enqueues the deployments that wait for one.
func (r *Reconciler) enqueueDependents(bd *fleet.BundleDeployment) {
	for _, name := range r.waitingFor(bd) {
		r.loop.Add(kube.Key{Name: name})
	}
}

// waitingFor are the deployments that wait for one.
func (r *Reconciler) waitingFor(bd *fleet.BundleDeployment) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var who []string
	for name, n := range r.waiting {
		if name != bd.Name && dependency.Concerns(n, dependency.Node{Name: bd.Name, Labels: bd.Labels}) {
			who = append(who, name)
		}
	}
	return who
}

// reported enqueues the deployments that wait for another one that has come or gone, or
// that is reported in another state than before.
func (r *Reconciler) reported(old, changed *fleet.BundleDeployment) {
	if old != nil && changed != nil && old.Generation == changed.Generation && summary.State(old, "") == summary.State(changed, "") {
		return
	}
	for _, bd := range []*fleet.BundleDeployment{old, changed} {
		if bd != nil {
			r.enqueueDependents(bd)
		}
	}
}
