// Package schema checks objects against the schemas of their kinds: the types of
// Kubernetes that are linked, and the CustomResourceDefinitions that it is given.
// It finds what an agent is refused by an API server before it writes anything:
// unknown fields, values of wrong types, kinds and versions that are not served,
// and names, labels and selectors that are not possible.
//
// What only an API server knows is not found: of Kubernetes' own kinds the required
// fields and allowed values, except for some well-known ones; defaults, admission, quotas.
package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// maxFaults is how many faults of one object are kept.
const maxFaults = 50

// A Fault is one thing that is wrong with an object.
type Fault struct {
	// Path leads to the value: field names, and ints for lists. It is empty for
	// the object as a whole.
	Path []any
	// Key says that the field's name is wrong, not its value.
	Key      bool
	Severity finding.Severity
	Rule     string
	Message  string
	Hint     string // what would help, or empty
}

// Kinds are the kinds that a cluster serves. The zero value is not valid; see New.
type Kinds struct {
	minor  int // of Kubernetes 1
	newer  bool
	custom map[kube.GroupKind]*definition
}

// New returns the kinds of a version of Kubernetes, such as "v1.31.4+k3s1"; empty is
// Linked. Kinds and versions of the API count from the version that introduced them to the
// one that removed them; their fields are those of Linked.
func New(kubernetes string) (*Kinds, error) {
	if kubernetes == "" {
		kubernetes = Linked
	}
	v, err := version.ParseGeneric(kubernetes)
	if err != nil || v.Major() != 1 {
		return nil, fmt.Errorf("kubernetes version %q is not a version such as %s", kubernetes, Linked)
	}
	k := &Kinds{minor: int(v.Minor()), custom: map[kube.GroupKind]*definition{}}
	k.newer = k.minor > int(version.MustParseGeneric(Linked).Minor())
	return k, nil
}

// Check returns what is wrong with an object, at most 50 faults. Numbers in it are int64 or
// float64. If an object has no apiVersion or kind, Check only looks for these keys in another
// case.
func (k *Kinds) Check(object map[string]any) []Fault {
	kind, _ := object["kind"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	w := &objectCheck{newer: k.newer}
	if kind == "" || apiVersion == "" {
		w.checkFieldCase(object)
		return w.faults
	}
	gv, err := kube.ParseGroupVersion(apiVersion)
	if err != nil {
		w.addFault(finding.RuleValue, false, []any{"apiVersion"}, "apiVersion must be a version, or a group and a version", "")
		return w.faults
	}
	gvk := gv.WithKind(kind)
	if d := k.custom[gvk.GroupKind()]; d != nil {
		w.metadata(object, gvk)
		if t, ok := linked().AllKnownTypes()[gvk]; ok && gvk.Group == fleet.Group && isObjectType(t) {
			d.checkLinked(w, gvk, object, t)
		} else {
			d.checkObject(w, gvk, object)
		}
		return w.faults
	}
	if t, ok := linked().AllKnownTypes()[gvk]; ok && isObjectType(t) {
		w.faults = append(w.faults, k.served(gvk, t)...)
		w.checkValue(object, t, nil)
		w.metadata(object, gvk)
		return w.faults
	}
	if !slices.Contains(unlinked, gvk) {
		w.faults = append(w.faults, k.unknownKind(gvk))
	}
	w.metadata(object, gvk)
	return w.faults
}

// unlinked are kinds that every Kubernetes serves and whose types are not linked.
var unlinked = []kube.GroupVersionKind{{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}}

// isObjectType reports whether a type is that of objects, not that of options or
// lists.
func isObjectType(t reflect.Type) bool {
	f, ok := t.FieldByName("ObjectMeta")
	return ok && f.Type == reflect.TypeFor[metav1.ObjectMeta]()
}

// The methods by which types of Kubernetes say in which versions they are served.
type (
	introduced interface{ APILifecycleIntroduced() (major, minor int) }
	deprecated interface{ APILifecycleDeprecated() (major, minor int) }
	removed    interface{ APILifecycleRemoved() (major, minor int) }
	replaced   interface {
		APILifecycleReplacement() kube.GroupVersionKind
	}
)

// served returns a fault for a kind that this version of Kubernetes does not
// serve, or that is deprecated in it.
func (k *Kinds) served(gvk kube.GroupVersionKind, t reflect.Type) []Fault {
	zero := reflect.New(t).Interface()
	what := fmt.Sprintf("%s of %s", gvk.Kind, gvk.GroupVersion())
	f := Fault{Path: []any{"apiVersion"}, Severity: finding.Error, Rule: finding.RuleAPIVersion, Hint: replacement(zero)}
	if gone, ok := zero.(removed); ok {
		if _, minor := gone.APILifecycleRemoved(); minor > 0 && k.minor >= minor {
			f.Message = fmt.Sprintf("Kubernetes 1.%d does not serve %s; 1.%d removed it", k.minor, what, minor)
			return []Fault{f}
		}
	}
	if since, ok := zero.(introduced); ok {
		if _, minor := since.APILifecycleIntroduced(); k.minor < minor {
			f.Message = fmt.Sprintf("Kubernetes 1.%d does not serve %s; 1.%d introduced it", k.minor, what, minor)
			return []Fault{f}
		}
	}
	if old, ok := zero.(deprecated); ok {
		if _, minor := old.APILifecycleDeprecated(); minor > 0 && k.minor >= minor && f.Hint != "" {
			f.Severity, f.Rule = finding.Warning, finding.RuleDeprecated
			f.Message = what + " is deprecated since Kubernetes 1." + fmt.Sprint(minor)
			if gone, ok := zero.(removed); ok {
				if _, minor := gone.APILifecycleRemoved(); minor > 0 {
					f.Message += fmt.Sprintf("; 1.%d removes it", minor)
				}
			}
			return []Fault{f}
		}
	}
	return nil
}

// replacement says what to use instead of a kind, if its type names that.
func replacement(zero any) string {
	if other, ok := zero.(replaced); ok {
		if r := other.APILifecycleReplacement(); r.Kind != "" {
			return fmt.Sprintf("use %s of %s", r.Kind, r.GroupVersion())
		}
	}
	return ""
}

// unknownKind returns the fault of a kind that no schema knows. In a group of Kubernetes no
// CRD can bring it; in another one a CRD may, from elsewhere.
func (k *Kinds) unknownKind(gvk kube.GroupVersionKind) Fault {
	groups, versions, kinds := k.similarKinds(gvk)
	switch {
	case len(versions) > 0:
		return k.ownKindFault(Fault{
			Path: []any{"apiVersion"}, Rule: finding.RuleAPIVersion,
			Message: fmt.Sprintf("Kubernetes 1.%d does not serve %s in version %s", k.minor, gvk.Kind, gvk.Version),
			Hint:    "it is in " + strings.Join(versions, ", "),
		})
	case len(kinds) > 0:
		f := Fault{
			Path: []any{"kind"}, Rule: finding.RuleUnknownKind,
			Message: fmt.Sprintf("kind %q is unknown: %s has none of that name", position.ShortName(gvk.Kind), gvk.GroupVersion()),
		}
		if len(groups) > 0 {
			f.Path, f.Hint = []any{"apiVersion"}, "it is in "+strings.Join(groups, ", ")
		} else if near := spelling.Nearest(position.ShortName(gvk.Kind), kinds); near != "" {
			f.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return k.ownKindFault(f)
	}
	f := Fault{
		Path: []any{"kind"}, Severity: finding.Warning, Rule: finding.RuleUnknownKind,
		Message: fmt.Sprintf("kind %q of %q is unknown: neither Kubernetes nor a CRD here has it", position.ShortName(gvk.Kind), position.ShortName(gvk.GroupVersion().String())),
		Hint:    "where its CRD comes from elsewhere, give it with --crd-file; agents wait until the cluster has the kind",
	}
	if len(groups) > 0 {
		f.Path, f.Hint = []any{"apiVersion"}, "it is in "+strings.Join(groups, ", ")
	}
	return f
}

// ownKindFault makes a fault of Kubernetes' own kinds an error, unless the cluster's
// Kubernetes is newer than what is linked.
func (k *Kinds) ownKindFault(f Fault) Fault {
	f.Severity = finding.Error
	if k.newer {
		f.Severity = finding.Warning
		f.Hint = "this fleet knows Kubernetes up to " + Linked
	}
	return f
}

// similarKinds returns what exists beside an unknown kind: the groups and versions that have a kind
// of this name, the other versions of its own group that have it, and the kinds of its
// group if that is one of Kubernetes.
func (k *Kinds) similarKinds(gvk kube.GroupVersionKind) (groups, versions, kinds []string) {
	for known, t := range linked().AllKnownTypes() {
		if !isObjectType(t) || known.Group == fleet.Group && gvk.Group != fleet.Group {
			continue
		}
		if known.Group == gvk.Group && !slices.Contains(kinds, known.Kind) {
			kinds = append(kinds, known.Kind)
		}
		if known.Kind != gvk.Kind || len(k.served(known, t)) > 0 {
			continue
		}
		groups = append(groups, known.GroupVersion().String())
		if known.Group == gvk.Group {
			versions = append(versions, known.GroupVersion().String())
		}
	}
	for gk, d := range k.custom {
		if gk.Kind == gvk.Kind {
			for version := range d.versions {
				groups = append(groups, gk.Group+"/"+version)
			}
		}
	}
	slices.Sort(groups)
	slices.Sort(versions)
	return groups, versions, kinds
}

// Add makes the kinds of CustomResourceDefinitions known: of the object, if it is
// one, or of those in a list. All else is ignored.
func (k *Kinds) Add(object map[string]any) {
	eachObject(object, nil, func(o map[string]any, _ []any) {
		if o["kind"] != "CustomResourceDefinition" {
			return
		}
		if gk, d := definitionOf(o); d != nil {
			k.custom[gk] = d
		}
	})
}

// ListsCRDs reports whether an object says which CustomResourceDefinitions there are: it
// is one, or a list with one in it or with nothing.
func ListsCRDs(object map[string]any) bool {
	objects, found := 0, false
	eachObject(object, nil, func(o map[string]any, _ []any) {
		objects++
		found = found || o["kind"] == "CustomResourceDefinition"
	})
	return found || objects == 0
}
