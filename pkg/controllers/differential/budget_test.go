package differential_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// A budget watches rollouts on their way: which deployments were up and had to
// give that up for a new version, and are not up again yet. There must never be
// more of them than maxUnavailable allows. Which ones, and in which order, depends
// on who has answered first, so this is no matter of quiet points.
//
// A limit that changes on the way counts as the loosest since all were up, and
// a share is one of all clusters that there can be. Clusters that do not get the
// Bundle any more, or whose values cannot be worked out, do not count for the
// engine; which ones these were is known from the quiet points around.
type budget struct {
	mu       sync.Mutex
	down     map[string]map[kube.Key]bool // by Bundle
	limit    map[string]int
	last     map[string]int // limit of the version that was written last
	exceeded []exceeded
	counted  map[kube.Key]bool // deployments that counted at the last quiet point
}

// exceeded is a limit that may have been exceeded.
type exceeded struct {
	bundle string
	limit  int
	down   []kube.Key
}

func newBudget() *budget {
	return &budget{down: map[string]map[kube.Key]bool{}, limit: map[string]int{}, last: map[string]int{}}
}

// strategy takes in the strategy of a Bundle that is about to be written.
func (b *budget) strategy(bundle string, s *fleet.RolloutStrategy) {
	limit := maxClusters
	if s != nil {
		if n, err := rollout.Limit(maxClusters, s.MaxUnavailable); err == nil {
			limit = n
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[bundle] = limit
	b.limit[bundle] = max(b.limit[bundle], limit)
}

// see takes in a change of a deployment, in the order in which the API server
// has made them.
func (b *budget) see(old, changed *fleet.BundleDeployment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old == nil {
		return
	}
	name, key := old.Name, kube.KeyOf(old)
	switch {
	case changed == nil, changed.UID != old.UID, changed.Annotations[fleet.AnnotationWithdrawn] != "",
		up(changed), changed.Spec.DeploymentID == unknownNamesVersion:
		delete(b.down[name], key)
	case up(old) && old.Spec.DeploymentID != changed.Spec.DeploymentID:
		if b.down[name] == nil {
			b.down[name] = map[kube.Key]bool{}
		}
		b.down[name][key] = true
		if n := len(b.down[name]); n > b.limit[name] {
			b.exceeded = append(b.exceeded, exceeded{name, b.limit[name], slices.Collect(maps.Keys(b.down[name]))})
		}
	}
	if len(b.down[name]) == 0 {
		b.limit[name] = b.last[name]
	}
}

// up reports whether a deployment is what it should be, and ready.
func up(bd *fleet.BundleDeployment) bool {
	return bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID && bd.Status.Ready
}

// judge says at a quiet point which limits were exceeded since the last one.
func (b *budget) judge(r *recount) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	counted := map[kube.Key]bool{}
	for _, p := range r.plans {
		for _, x := range p.pairs {
			if x.bd != nil && x.broken == "" {
				counted[kube.KeyOf(x.bd)] = true
			}
		}
	}
	var wrong []string
	for _, e := range b.exceeded {
		down := slices.DeleteFunc(e.down, func(key kube.Key) bool { return !b.counted[key] || !counted[key] })
		if len(down) > e.limit {
			wrong = append(wrong, fmt.Sprintf("bundle %s: %d deployments were taken down at once, %d are allowed: %v", e.bundle, len(down), e.limit, down))
		}
	}
	b.exceeded, b.counted = nil, counted
	return wrong
}

// forget resets the budget, for another seed.
func (b *budget) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.down)
	clear(b.limit)
	clear(b.last)
	b.exceeded, b.counted = nil, nil
}
