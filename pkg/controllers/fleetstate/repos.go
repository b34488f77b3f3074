package fleetstate

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

type repoRow struct {
	obj     *fleet.GitRepo
	bundles map[kube.Key]bool
	counts  counts
}

// repoRowOf returns the row of a GitRepo, and adds it if it is missing.
func (cr *core) repoRowOf(key kube.Key) *repoRow {
	r := cr.repos[key]
	if r == nil {
		r = &repoRow{bundles: map[kube.Key]bool{}}
		cr.repos[key] = r
	}
	return r
}

// dropRepo removes a row that has neither a GitRepo nor Bundles.
func (cr *core) dropRepo(key kube.Key) {
	if r := cr.repos[key]; r != nil && r.obj == nil && len(r.bundles) == 0 {
		delete(cr.repos, key)
	}
}

// SetRepo stores a GitRepo.
func (t repoTable) SetRepo(obj *fleet.GitRepo) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	if t.departed.known[obj.UID] {
		return changed
	}
	r := t.repoRowOf(kube.KeyOf(obj))
	if r.obj != nil && r.obj.UID == obj.UID && !newer(obj.ResourceVersion, r.obj.ResourceVersion) {
		return changed
	}
	r.obj = obj
	changed.add(Subject{KindGitRepo, kube.KeyOf(obj)}, r.counts.final())
	return changed
}

// Repo returns a GitRepo; nil if it does not exist.
func (t repoTable) Repo(key kube.Key) *fleet.GitRepo {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.repos[key]; r != nil {
		return r.obj
	}
	return nil
}

// RemoveRepo removes a GitRepo that is gone.
func (t repoTable) RemoveRepo(key kube.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.repos[key]; r != nil {
		if r.obj != nil {
			t.departed.add(r.obj.UID)
		}
		r.obj = nil
		t.dropRepo(key)
	}
}

// RepoFacts returns a GitRepo and the input of the summary part of its status. ok is
// false until each of its Bundles was planned once; fresh reports whether the current
// version of each was planned.
func (t repoTable) RepoFacts(key kube.Key) (obj *fleet.GitRepo, s summary.Sources, fresh, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.repos[key]
	if !t.settled || r == nil || r.obj == nil {
		return nil, s, false, false
	}
	fresh = true
	for k := range r.bundles {
		row := t.bundles[k]
		if row.obj == nil || row.obj.DeletionTimestamp != nil {
			continue
		}
		if row.plan == nil {
			return nil, s, false, false
		}
		fresh = fresh && row.planned()
		row.addTo(&s)
	}
	return r.obj, s, fresh, true
}

// HelmOpFacts returns the input of the summary part of the status of a HelmOp: its Bundle,
// which has the same name, and the deployments of that. ok is false until the Bundle was
// planned once; fresh reports whether its current version was planned.
func (t repoTable) HelmOpFacts(key kube.Key) (s summary.Sources, fresh, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	switch {
	case !t.settled:
		return s, false, false
	case row == nil || row.obj == nil || row.obj.DeletionTimestamp != nil || row.helmOp != key:
		return s, true, true
	case row.plan == nil:
		return s, false, false
	}
	row.addTo(&s)
	return s, row.planned(), true
}

// addTo adds a planned Bundle and its deployments to the input of a status.
func (row *bundleRow) addTo(s *summary.Sources) {
	s.Bundles = append(s.Bundles, summary.RepoBundle{
		Name: row.key.Name, UID: row.obj.UID, Problem: row.plan.Problem, Targets: len(row.plan.Order), Unrendered: row.plan.Unrendered,
	})
	views := make([]summary.Deployment, len(row.plan.Order))
	for i, ck := range row.plan.Order {
		views[i] = row.cells[ck].view
		s.Deployments = append(s.Deployments, &views[i])
	}
}
