package helm

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/resource"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

const kindCRD = "CustomResourceDefinition"

// groupKindCRD is the only kind that a chart's crds folder may hold.
var groupKindCRD = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: kindCRD}

// A namespaceLimit keeps the objects of a bundle in one namespace. The zero value
// limits nothing.
type namespaceLimit struct {
	namespace string // the only one; empty: any
	// closed says that an administrator has set the limit. It holds for the CRDs
	// of charts then, which the namespace of a fleet.yaml lets pass.
	closed bool
}

// namespaceLimit is the limit of a deployment.
func (d Deployment) namespaceLimit() namespaceLimit {
	namespace := RightsOf(d.Options).Namespace
	byAdmin := d.AdminNamespace || d.Options.AllowedTargetNamespaceSelector != nil
	return namespaceLimit{namespace: namespace, closed: namespace != "" && byAdmin}
}

// A candidate is an object that Helm is about to be given.
type candidate struct {
	*unstructured.Unstructured
	description string // how an error names it, with its file
	namespaced  bool   // its kind is
	namespace   string // where it is about to be written
	crds        bool   // it is from a chart's crds folder
}

// checkObject refuses an object that a bundle may not have. Every object passes this check,
// whichever way it takes: each is checked before anything is written, and once more
// when Helm hands it over to be written.
func (l namespaceLimit) checkObject(c candidate) error {
	isCRD := c.GroupVersionKind().GroupKind() == groupKindCRD
	switch {
	case c.crds && !isCRD:
		return reconcile.TerminalError(release.ReasonBadChart, fmt.Errorf(
			"%s is no %s, and the folder crds of a chart may hold nothing else; move it to templates", c.description, kindCRD))
	case l.namespace == "", c.crds && !l.closed:
		return nil
	case !c.namespaced:
		return reconcile.TerminalError(release.ReasonClusterScoped, fmt.Errorf(
			"%s is cluster-scoped, but the bundle is limited to one namespace; %s", c.description, l.remedy()))
	case c.namespace != l.namespace:
		return reconcile.TerminalError(release.ReasonClusterScoped, fmt.Errorf(
			"%s is outside of namespace %q, to which the bundle is limited", c.description, l.namespace))
	}
	return nil
}

// remedy says what lifts the limit.
func (l namespaceLimit) remedy() string {
	if l.closed {
		return "it has to be deployed by a GitRepo without targetNamespace, and without allowedTargetNamespaceSelector"
	}
	return "use defaultNamespace instead of namespace"
}

// checkCRDs checks what the crds folders of a chart and its subcharts hold.
func (l namespaceLimit) checkCRDs(files []chart.CRD) error {
	for _, file := range files {
		objects, err := parseObjects(file.File.Data, inBundle(file.Filename))
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := l.checkObject(candidate{Unstructured: o.Unstructured, description: objectInFile(o.source, o.Unstructured), crds: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// expectCRDs registers the files from which Helm builds CRDs.
func (e *engine) expectCRDs(files []chart.CRD) {
	e.crds, e.crdFiles = map[string]string{}, map[*resource.Info]string{}
	e.kinds.unbuilt = sets.New[string]()
	for _, f := range files {
		e.crds[string(f.File.Data)] = inBundle(f.Filename)
		e.kinds.unbuilt.Insert(string(f.File.Data))
	}
}

// maxCRDs is how many CRDs of crds folders a release remembers.
const maxCRDs = 200

// noteCRDs makes a release remember which CRDs its chart brings, regardless of what the
// chart itself says about that.
func noteCRDs(c *chart.Chart) {
	var names []string
	for _, file := range c.CRDObjects() {
		objects, err := parseObjects(file.File.Data, file.Filename)
		if err != nil {
			continue // it was refused before
		}
		for _, o := range objects {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	c.Metadata.Annotations[fleet.ReleaseCRDs] = strings.Join(names[:min(len(names), maxCRDs)], ",")
	if len(names) == 0 {
		delete(c.Metadata.Annotations, fleet.ReleaseCRDs)
	}
}

// notedCRDs returns the CRDs that a release remembers. Its record is in a namespace
// where tenants may write.
func notedCRDs(annotations map[string]string) []string {
	names := strings.SplitN(annotations[fleet.ReleaseCRDs], ",", maxCRDs+1)
	names = slices.DeleteFunc(names, func(n string) bool { return len(validation.IsDNS1123Subdomain(n)) > 0 })
	return slices.Clip(names[:min(len(names), maxCRDs)])
}
