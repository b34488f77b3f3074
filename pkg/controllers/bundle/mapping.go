package bundle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A Bundle may go to the clusters of its own namespace, and to those of others
// to which a BundleNamespaceMapping of its own namespace leads it.

// reasonNameTaken is the reason of a deployment whose name belongs to another.
const reasonNameTaken = "NameTaken"

// A guest holds the conditions besides targeting for a Bundle on a cluster of another
// namespace.
type guest struct {
	beyond string // why it may not be there any more
	held   string // why nothing new may be written for it
}

// mappingCaches are the caches from which mappings are read.
type mappingCaches struct {
	mappings   *kube.Cache[*fleet.BundleNamespaceMapping]
	namespaces *kube.Cache[*metav1.PartialObjectMetadata]
}

// makeMappingCaches leaves out the namespaces that Fleet makes for single
// clusters: they hold no Clusters, and there are many.
func makeMappingCaches(c *kube.Client) mappingCaches {
	return mappingCaches{
		mappings: kube.NewCache[*fleet.BundleNamespaceMapping](c, kube.Watch{}, nil),
		namespaces: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
			kube.Watch{Labels: fleet.LabelManaged + "!=true"}, stripNamespace),
	}
}

func (m mappingCaches) parts() []kube.Runner { return []kube.Runner{m.mappings, m.namespaces} }

// any reports whether there is a mapping at all.
func (m mappingCaches) any() bool { return len(m.mappings.List("")) > 0 }

// reachOf is how far a Bundle may go.
func (e *targeting) reachOf(b *fleet.Bundle) target.Reach {
	list := e.cache.mapped.mappings.List(b.Namespace)
	if len(list) == 0 {
		return target.Mappings(nil).ReachOf(b.Namespace, b.Labels, nil)
	}
	namespaces := map[string]map[string]string{}
	for _, ns := range e.cache.mapped.namespaces.List("") {
		namespaces[ns.Name] = ns.Labels
	}
	return target.CompileMappings(list).ReachOf(b.Namespace, b.Labels, namespaces)
}

func occupied(owner kube.Key) string {
	return fmt.Sprintf("Bundle %q of namespace %s is deployed to this cluster under the same name: rename one of the two",
		owner.Name, owner.Namespace)
}

// where names the namespaces whose clusters a Bundle may go to.
func (s *snapshot) where() string {
	return view.List(append([]string{s.key.Namespace}, s.reach.Namespaces()...), 3)
}

// judgeGuest is the verdict on a cluster before targeting is asked, if there is
// one.
func (s *snapshot) judgeGuest(key kube.Key) (target.Verdict, bool) {
	if why := s.guests[key].beyond; why != "" {
		return target.Verdict{Target: -1, Reason: why}, true
	}
	return target.Verdict{}, false
}

// restrain holds back a pair that targeting lets through.
func (s *snapshot) restrain(p *pair) {
	if p.want.Held == "" {
		p.want.Held = s.guests[p.key].held
	}
	if p.refused == "" {
		p.refused = s.taken[p.key]
	}
}

// around are the Bundles that may go to the clusters of a namespace: its own, and
// those that mappings lead there.
func (e *targeting) around(namespace string) []kube.Key {
	out := e.table.Bundles(namespace)
	var labels map[string]string
	if ns, ok := e.cache.mapped.namespaces.Get(kube.Key{Name: namespace}); ok {
		labels = ns.Labels
	}
	own := len(out)
	for _, m := range e.cache.mapped.mappings.List("") {
		c := target.CompileMapping(m)
		if m.Namespace != namespace && (c.Leads(labels) || c.Fault() != nil) {
			out = append(out, e.servedBy(m.Namespace, c)...)
		}
	}
	if len(out) > own {
		slices.SortFunc(out, fleetstate.CompareKeys)
		out = slices.Compact(out)
	}
	return out
}

// servedBy are the Bundles of a namespace that one of its mappings is for. One
// that cannot be read concerns all of them.
func (e *targeting) servedBy(namespace string, m target.Mapping) []kube.Key {
	return slices.DeleteFunc(e.table.Bundles(namespace), func(key kube.Key) bool {
		b, ok := e.table.Bundle(key)
		return !ok || m.Fault() == nil && !m.Serves(b.Labels)
	})
}

func (e *targeting) handleMappings() {
	e.cache.mapped.mappings.OnChange(e.onMapping)
	e.cache.mapped.namespaces.OnChange(e.onNamespace)
}

// onMapping plans the Bundles that a mapping is, or was, for.
func (e *targeting) onMapping(old, changed *fleet.BundleNamespaceMapping) {
	if old != nil && changed != nil && equality.Semantic.DeepEqual(old.BundleSelector, changed.BundleSelector) &&
		equality.Semantic.DeepEqual(old.NamespaceSelector, changed.NamespaceSelector) {
		return
	}
	e.table.Move()
	for _, m := range []*fleet.BundleNamespaceMapping{old, changed} {
		if m != nil {
			e.planSome(e.servedBy(m.Namespace, target.CompileMapping(m)))
		}
	}
	if changed == nil {
		return
	}
	known := old == nil && e.now().Sub(changed.CreationTimestamp.Time) > time.Minute // the process has just started
	if err := target.CompileMapping(changed).Fault(); err != nil && !known {
		e.log.WithField("workspace", changed.Namespace).WithField("error", err.Error()).Warn("mapping leads nowhere")
		e.events.Event(changed, kube.Warning, target.ReasonInvalidSelector,
			err.Error()+"; until it is repaired nothing new goes by it, and nothing leaves for want of a mapping")
	}
}

// onNamespace plans the Bundles that mappings lead to a namespace, or led there
// before its labels changed.
func (e *targeting) onNamespace(old, changed *metav1.PartialObjectMetadata) {
	if old != nil && changed != nil && maps.Equal(old.Labels, changed.Labels) {
		return
	}
	moved := false
	for _, m := range e.cache.mapped.mappings.List("") {
		c := target.CompileMapping(m)
		was := old != nil && c.Leads(old.Labels)
		is := changed != nil && c.Leads(changed.Labels)
		if was == is || m.Namespace == either(old, changed).Name {
			continue
		}
		if !moved {
			e.table.Move()
			moved = true
		}
		e.planSome(e.servedBy(m.Namespace, c))
	}
}

// onLimit plans the Bundles for which a limit of a namespace has come or gone.
func (e *targeting) onLimit(namespace string) {
	e.table.Move()
	e.planSome(e.around(namespace))
}

// freed plans the Bundles that may have waited for a name to become free.
func (e *targeting) freed(name string) {
	if e.cache.mapped.any() {
		e.planSome(e.table.BundlesNamed(name))
	}
}
