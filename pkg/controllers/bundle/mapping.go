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

// A foreignCluster says what a BundleNamespaceMapping allows for a Bundle on a cluster
// of another namespace.
type foreignCluster struct {
	// notAllowed is why the Bundle must leave the cluster; empty: it may stay.
	notAllowed string
	// held is why no new version may be written for the cluster; empty: it may.
	held string
}

// mappingCaches are the caches from which mappings are read.
type mappingCaches struct {
	mappings   *kube.Cache[*fleet.BundleNamespaceMapping]
	namespaces *kube.Cache[*metav1.PartialObjectMetadata]
}

// makeMappingCaches makes the caches. They leave out the namespaces of single clusters:
// there are many, and they contain no Clusters.
func makeMappingCaches(c *kube.Client) mappingCaches {
	return mappingCaches{
		mappings: kube.NewCache[*fleet.BundleNamespaceMapping](c, kube.Watch{}, nil),
		namespaces: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
			kube.Watch{Labels: fleet.LabelManaged + "!=true"}, stripNamespace),
	}
}

func (m mappingCaches) runnables() []kube.Runner { return []kube.Runner{m.mappings, m.namespaces} }

// exist reports whether there is any BundleNamespaceMapping.
func (m mappingCaches) exist() bool { return len(m.mappings.List("")) > 0 }

// reachOf returns the namespaces whose clusters a Bundle may be deployed to.
func (t *targeting) reachOf(b *fleet.Bundle) target.MappedNamespaces {
	list := t.cache.mapped.mappings.List(b.Namespace)
	if len(list) == 0 {
		return target.Mappings(nil).ReachOf(b.Namespace, b.Labels, nil)
	}
	namespaces := map[string]map[string]string{}
	for _, ns := range t.cache.mapped.namespaces.List("") {
		namespaces[ns.Name] = ns.Labels
	}
	return target.CompileMappings(list).ReachOf(b.Namespace, b.Labels, namespaces)
}

// nameTaken returns the reason of a deployment whose name is used by a Bundle of
// another namespace.
func nameTaken(owner kube.Key) string {
	return fmt.Sprintf("Bundle %q of namespace %s is deployed to this cluster under the same name: rename one of the two",
		owner.Name, owner.Namespace)
}

// namespaceList names the namespaces whose clusters the Bundle may be deployed to.
func (s *snapshot) namespaceList() string {
	return view.List(append([]string{s.key.Namespace}, s.reach.Namespaces()...), 3)
}

// mappingVerdict returns the verdict on a cluster that no mapping allows any more;
// false if targeting has to decide.
func (s *snapshot) mappingVerdict(key kube.Key) (target.Verdict, bool) {
	if why := s.foreign[key].notAllowed; why != "" {
		return target.Verdict{Target: -1, Reason: why}, true
	}
	return target.Verdict{}, false
}

// holdPair sets why nothing may be written for a targeted pair: by a mapping, by limits of
// a namespace, or because another Bundle uses the name of its deployment.
func (s *snapshot) holdPair(p *pair) {
	if p.want.Held == "" {
		p.want.Held = s.foreign[p.key].held
	}
	if err := s.compiled.RefusalOn(p.verdict, p.place); err != nil && p.want.Held == "" {
		p.want.Held = errorText(err)
	}
	if p.refused == "" {
		p.refused = s.taken[p.key]
	}
}

// bundlesFor returns the Bundles that may be deployed to the clusters of a namespace:
// those of the namespace, and those that mappings allow there.
func (t *targeting) bundlesFor(namespace string) []kube.Key {
	out := t.table.Bundles(namespace)
	var labels map[string]string
	if ns, ok := t.cache.mapped.namespaces.Get(kube.Key{Name: namespace}); ok {
		labels = ns.Labels
	}
	own := len(out)
	for _, m := range t.cache.mapped.mappings.List("") {
		c := target.CompileMapping(m)
		if m.Namespace != namespace && (c.Leads(labels) || c.Fault() != nil) {
			out = append(out, t.bundlesOfMapping(m.Namespace, c)...)
		}
	}
	if len(out) > own {
		slices.SortFunc(out, fleetstate.CompareKeys)
		out = slices.Compact(out)
	}
	return out
}

// bundlesOfMapping returns the Bundles of a namespace that a mapping selects; all of
// them if the selector of the mapping is invalid.
func (t *targeting) bundlesOfMapping(namespace string, m target.Mapping) []kube.Key {
	return slices.DeleteFunc(t.table.Bundles(namespace), func(key kube.Key) bool {
		b, ok := t.table.Bundle(key)
		return !ok || m.Fault() == nil && !m.Serves(b.Labels)
	})
}

func (t *targeting) addMappingHandlers() {
	t.cache.mapped.mappings.OnChange(t.onMapping)
	t.cache.mapped.namespaces.OnChange(t.onNamespace)
}

// onMapping enqueues the Bundles that a changed mapping selects, or selected before.
func (t *targeting) onMapping(old, changed *fleet.BundleNamespaceMapping) {
	if old != nil && changed != nil && equality.Semantic.DeepEqual(old.BundleSelector, changed.BundleSelector) &&
		equality.Semantic.DeepEqual(old.NamespaceSelector, changed.NamespaceSelector) {
		return
	}
	t.table.BumpMoves()
	for _, m := range []*fleet.BundleNamespaceMapping{old, changed} {
		if m != nil {
			t.enqueueBundles(t.bundlesOfMapping(m.Namespace, target.CompileMapping(m)))
		}
	}
	if changed == nil {
		return
	}
	known := old == nil && t.now().Sub(changed.CreationTimestamp.Time) > time.Minute // the process has just started
	if err := target.CompileMapping(changed).Fault(); err != nil && !known {
		t.log.WithField("workspace", changed.Namespace).WithField("error", err.Error()).Warn("mapping leads nowhere")
		t.events.Event(changed, kube.Warning, target.ReasonInvalidSelector,
			err.Error()+"; until it is repaired nothing new goes by it, and nothing leaves for want of a mapping")
	}
}

// onNamespace enqueues the Bundles that mappings allow in a namespace, or allowed there
// before its labels changed.
func (t *targeting) onNamespace(old, changed *metav1.PartialObjectMetadata) {
	if old != nil && changed != nil && maps.Equal(old.Labels, changed.Labels) {
		return
	}
	moved := false
	for _, m := range t.cache.mapped.mappings.List("") {
		c := target.CompileMapping(m)
		was := old != nil && c.Leads(old.Labels)
		is := changed != nil && c.Leads(changed.Labels)
		if was == is || m.Namespace == orOld(old, changed).Name {
			continue
		}
		if !moved {
			t.table.BumpMoves()
			moved = true
		}
		t.enqueueBundles(t.bundlesOfMapping(m.Namespace, c))
	}
}

// onPolicy enqueues the Bundles that the limits of a namespace apply to.
func (t *targeting) onPolicy(namespace string) { t.enqueueBundles(t.bundlesFor(namespace)) }

// onNameFreed enqueues the Bundles of a name: a deployment of this name was deleted,
// for which a Bundle of another namespace may have waited.
func (t *targeting) onNameFreed(name string) {
	if t.cache.mapped.exist() {
		t.enqueueBundles(t.table.BundlesNamed(name))
	}
}
