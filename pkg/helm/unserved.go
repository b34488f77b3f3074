package helm

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An unservedKind is an object whose kind the cluster does not serve in the version of
// the object.
type unservedKind struct {
	renderedObject
	// others are the versions in which the cluster serves a kind; nil: not known.
	others func(schema.GroupKind) []string
	// beside are all objects of the same manifest.
	beside []renderedObject
}

// fault is the wait for the kind. err is why the kind could not be looked up.
func (u unservedKind) fault(err error) error {
	if !meta.IsNoMatchError(err) {
		return fmt.Errorf("look up kind %s: %w", u.GetKind(), err)
	}
	return reconcile.RequeueError(release.ReasonUnknownKind, waitForOthers, fmt.Errorf("%s: %s", objectInFile(u.source, u.Unstructured), u.reason()))
}

// reason says what is wrong, and what helps.
func (u unservedKind) reason() string {
	gvk := u.GroupVersionKind()
	what := fmt.Sprintf("%s of %s", u.GetKind(), u.GetAPIVersion())
	if use := inPlaceOf(gvk); use != "" {
		return fmt.Sprintf("the cluster does not serve %s; %s", what, use)
	}
	if u.others != nil {
		if served := u.others(gvk.GroupKind()); len(served) > 0 {
			return fmt.Sprintf("the cluster does not serve %s; it serves %s", what, strings.Join(served, ", "))
		}
	}
	for _, crd := range u.beside {
		versions, brings := broughtBy(crd, gvk.GroupKind())
		switch {
		case !brings:
			continue
		case !slices.Contains(versions, gvk.Version):
			return fmt.Sprintf("the cluster does not serve %s; its CRD in this bundle serves %s", what, strings.Join(versions, ", "))
		}
		return fmt.Sprintf("the cluster does not know kind %s yet; its CRD is in this bundle: "+
			"move the CRD into a bundle of its own, or into the crds folder of a chart", what)
	}
	if scheme.Scheme.IsGroupRegistered(gvk.Group) {
		return fmt.Sprintf("the cluster does not serve %s, which no CRD can bring", what)
	}
	return fmt.Sprintf("the cluster does not know kind %s; its CRD must be installed first", what)
}

// inPlaceOf names the replacement of a kind of Kubernetes in a version that does not
// serve it any more; empty for other kinds.
func inPlaceOf(gvk schema.GroupVersionKind) string {
	zero, err := scheme.Scheme.New(gvk)
	if err != nil {
		return ""
	}
	old, ok := zero.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	})
	if !ok || old.APILifecycleReplacement().Kind == "" {
		return ""
	}
	use := old.APILifecycleReplacement()
	return fmt.Sprintf("use %s of %s", use.Kind, use.GroupVersion())
}

// broughtBy are the versions in which a CRD serves a kind, and whether it is that of the
// kind.
func broughtBy(crd renderedObject, gk schema.GroupKind) (versions []string, brings bool) {
	if crd.GetKind() != kindCRD {
		return nil, false
	}
	brought, versions := kindOf(crd.Unstructured)
	if brought != gk {
		return nil, false
	}
	return versions, true
}

// versions are those in which the cluster serves a kind, in its order.
func (k *kindCache) versions(gk schema.GroupKind) []string {
	list, err := k.mapper.RESTMappings(gk)
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range list {
		out = append(out, m.GroupVersionKind.Version)
	}
	return out
}

// firstUnserved returns the fault of the first object of a manifest whose kind the
// cluster does not serve. err is Helm's error about it.
func (e *engine) firstUnserved(manifest []byte, err error) error {
	objs, broken := parseObjects(manifest, "")
	if broken != nil {
		return classify(err)
	}
	for _, o := range objs {
		gvk := o.GroupVersionKind()
		_, err := e.api.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if !meta.IsNoMatchError(err) {
			continue
		}
		o.source = e.sources[identity(o.Unstructured)]
		return unservedKind{renderedObject: o, others: e.api.versions, beside: objs}.fault(err)
	}
	return classify(err)
}
