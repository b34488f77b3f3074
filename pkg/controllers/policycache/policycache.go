// Package policycache has the limits of all namespaces: what their GitRepoRestrictions and
// Policies allow. Loops of several roles share it.
package policycache

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
)

const annotationApplied = "kubectl.kubernetes.io/last-applied-configuration"

// A Cache has the limits of all namespaces. It is safe for concurrent use.
type Cache struct {
	restrictions *kube.Cache[*fleet.GitRepoRestriction] // nil: not watched
	policies     *kube.Cache[*fleet.Policy]
	onChange     func(namespace string)

	mu     sync.Mutex
	limits policy.Namespaces // as they were computed; nil where there are none
}

// New returns a cache of both kinds. An API server with older CRDs does not serve Policies:
// then there are none, and GitRepoRestrictions still count.
func New(c *kube.Client) *Cache {
	out := PoliciesOnly(c)
	out.restrictions = kube.NewCache(c, kube.Watch{}, strip[*fleet.GitRepoRestriction])
	out.restrictions.OnChange(func(old, changed *fleet.GitRepoRestriction) {
		if old == nil || changed == nil || !sameRestriction(*old, *changed) {
			out.changed(either(old, changed).Namespace)
		}
	})
	return out
}

// PoliciesOnly returns a cache of Policies, as New.
func PoliciesOnly(c *kube.Client) *Cache {
	out := &Cache{limits: policy.Namespaces{}, policies: kube.NewCache(c, kube.Watch{}, strip[*fleet.Policy])}
	out.policies.Optional()
	out.policies.OnChange(func(old, changed *fleet.Policy) {
		if old == nil || changed == nil || !samePolicy(*old, *changed) {
			out.changed(either(old, changed).Namespace)
		}
	})
	return out
}

func strip[P kube.Object](o P) { delete(o.GetAnnotations(), annotationApplied) }

// OnChange calls f with a namespace when its limits have changed. It must be called once at
// most, before the cache runs; f must return quickly.
func (c *Cache) OnChange(f func(namespace string)) { c.onChange = f }

// changed makes Of compute the limits of a namespace again, and only then reports the
// change: what is enqueued must not see the limits of before.
func (c *Cache) changed(namespace string) {
	c.mu.Lock()
	delete(c.limits, namespace)
	c.mu.Unlock()
	if c.onChange != nil {
		c.onChange(namespace)
	}
}

// Of returns the limits of a namespace; nil if there are none. The result stays the same
// until one of their objects changes.
func (c *Cache) Of(namespace string) *policy.Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, known := c.limits[namespace]
	if !known {
		var restrictions []*fleet.GitRepoRestriction
		if c.restrictions != nil {
			restrictions = c.restrictions.List(namespace)
		}
		l = policy.Aggregate(restrictions, c.policies.List(namespace))
		c.limits[namespace] = l
	}
	return l
}

// Runnables returns the caches to run.
func (c *Cache) Runnables() []kube.Runner {
	if c.restrictions == nil {
		return []kube.Runner{c.policies}
	}
	return []kube.Runner{c.restrictions, c.policies}
}

func sameRestriction(a, b fleet.GitRepoRestriction) bool {
	a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{}, metav1.ObjectMeta{}
	return equality.Semantic.DeepEqual(a, b)
}

func samePolicy(a, b fleet.Policy) bool {
	a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{}, metav1.ObjectMeta{}
	return equality.Semantic.DeepEqual(a, b)
}

// either returns changed, or old if changed is nil.
func either[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}
