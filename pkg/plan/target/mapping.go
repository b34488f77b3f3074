package target

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Mapping is a compiled BundleNamespaceMapping: it leads Bundles of its own namespace to
// the clusters of others. The zero Mapping leads no Bundle anywhere.
type Mapping struct {
	name       string
	bundles    labels.Selector // nil: none
	namespaces labels.Selector // nil: none
	err        error           // why it cannot be read
}

// CompileMapping prepares one mapping. Without either selector it leads
// nowhere. One with a selector that cannot be read leads nowhere either, and
// Fault says why.
func CompileMapping(m *fleet.BundleNamespaceMapping) Mapping {
	out := Mapping{name: m.Name}
	if m.BundleSelector == nil || m.NamespaceSelector == nil {
		return out
	}
	bundles, errB := metav1.LabelSelectorAsSelector(m.BundleSelector)
	namespaces, errN := metav1.LabelSelectorAsSelector(m.NamespaceSelector)
	switch {
	case errB != nil:
		out.err = fmt.Errorf("bundleSelector of BundleNamespaceMapping %q: %w", m.Name, errB)
	case errN != nil:
		out.err = fmt.Errorf("namespaceSelector of BundleNamespaceMapping %q: %w", m.Name, errN)
	default:
		out.bundles, out.namespaces = bundles, namespaces
	}
	return out
}

// Fault returns why the mapping cannot be read, nil for one that can.
func (m Mapping) Fault() error { return m.err }

// Serves reports whether the mapping is for a Bundle with these labels.
func (m Mapping) Serves(bundle map[string]string) bool {
	return m.bundles != nil && m.bundles.Matches(labels.Set(bundle))
}

// Leads reports whether the mapping leads to a namespace with these labels.
func (m Mapping) Leads(namespace map[string]string) bool {
	return m.namespaces != nil && m.namespaces.Matches(labels.Set(namespace))
}

// Mappings are all mappings of one namespace, by name.
type Mappings []Mapping

// CompileMappings prepares the mappings of one namespace.
func CompileMappings(list []*fleet.BundleNamespaceMapping) Mappings {
	out := make(Mappings, 0, len(list))
	for _, m := range list {
		out = append(out, CompileMapping(m))
	}
	slices.SortFunc(out, func(a, b Mapping) int { return strings.Compare(a.name, b.name) })
	return out
}

// Fault returns why some of the mappings cannot be read, or nil where all can. With a fault
// it is unknown how far a Bundle may go: the manager deploys nothing new by the mapping at
// fault, and withdraws nothing because a mapping is missing.
func (m Mappings) Fault() error {
	var errs []error
	for i := range m {
		if m[i].err != nil {
			errs = append(errs, m[i].err)
		}
	}
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}

// A MappedNamespaces is the namespaces beyond its own to whose clusters a Bundle may go.
type MappedNamespaces struct {
	home  string
	by    map[string]string // name of the mapping, by namespace
	fault error
}

// ReachOf returns how far the mappings of its namespace let a Bundle go. home is that
// namespace, bundle the Bundle's labels, namespaces the labels of all namespaces by name.
func (m Mappings) ReachOf(home string, bundle map[string]string, namespaces map[string]map[string]string) MappedNamespaces {
	r := MappedNamespaces{home: home, by: map[string]string{}, fault: m.Fault()}
	for i := range m {
		if !m[i].Serves(bundle) {
			continue
		}
		for name, set := range namespaces {
			if _, known := r.by[name]; !known && name != home && m[i].Leads(set) {
				r.by[name] = m[i].name
			}
		}
	}
	return r
}

// Namespaces returns the names of the namespaces beyond the Bundle's own, sorted.
func (m MappedNamespaces) Namespaces() []string { return slices.Sorted(maps.Keys(m.by)) }

// Fault is Mappings.Fault.
func (m MappedNamespaces) Fault() error { return m.fault }

// Includes reports whether the Bundle may go to clusters of a namespace, and why.
func (m MappedNamespaces) Includes(namespace string) (bool, string) {
	if namespace == m.home {
		return true, "the Bundle's own namespace"
	}
	if by, ok := m.by[namespace]; ok {
		return true, fmt.Sprintf("BundleNamespaceMapping %q leads from %s to %s", by, m.home, namespace)
	}
	return false, fmt.Sprintf("no BundleNamespaceMapping leads the Bundle from %s to %s", m.home, namespace)
}

// CompareClusters orders clusters as rollouts do: by name, and by namespace
// where several have the same name.
func CompareClusters(a, b *Cluster) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Namespace, b.Namespace)
}
