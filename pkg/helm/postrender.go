package helm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// postRenderer turns what Helm rendered into what is deployed: the output of
// the kustomization, the raw manifests, labels and the forced namespace.
type postRenderer struct {
	files bundleFiles
	opts  fleet.BundleDeploymentOptions
	limit namespaceLimit
	setID string // empty: objects are not marked
	// namespaced reports whether a kind is namespaced.
	namespaced func(schema.GroupVersionKind) (bool, error)
	// served are the versions in which the cluster serves a kind; nil without a cluster.
	served func(schema.GroupKind) []string

	// crds are the kinds that the chart's crds folder brings: whether they are
	// namespaced. serves are the same as templates see them.
	crds   map[schema.GroupKind]bool
	serves []string
	// had says that the bundle had objects before and that having none now cannot be
	// intended; then none at all is an error.
	had bool
	// home is the namespace of objects that name none.
	home string
	// probes says to look for patches whose target matches nothing.
	probes bool
	renderOutcome
}

// renderOutcome holds the results of the last run of a postRenderer.
type renderOutcome struct {
	objects []renderedObject
	// skipped are the templates that rendered documents without a kind.
	skipped []string
	// sources remembers the file of each object, and names their kinds, names
	// and namespaces, for messages.
	sources map[string]string
	names   []string
	// unmatched are the patches whose target matches nothing.
	unmatched []UnmatchedPatch
}

func (c *Client) postRenderer(d Deployment, p bundleFiles, kinds *kindCache) (*postRenderer, error) {
	setID := naming.ObjectSetID(d.Memory.Owner.BundleID, c.cfg.AgentScope)
	post, err := postRendererOf(d, p, setID, kinds.namespaced)
	if err != nil {
		return nil, err
	}
	post.served = kinds.versions
	return post, nil
}

func postRendererOf(d Deployment, p bundleFiles, setID string, namespaced func(schema.GroupVersionKind) (bool, error)) (*postRenderer, error) {
	out := &postRenderer{
		files: p, opts: d.Options, limit: d.namespaceLimit(), setID: setID, namespaced: namespaced, home: d.ID.Namespace,
		renderOutcome: renderOutcome{sources: map[string]string{}},
	}
	var crds []renderedObject
	for _, f := range p.chart.CRDObjects() {
		objs, err := parseObjects(f.File.Data, inBundle(f.Filename))
		if err != nil {
			return nil, err
		}
		crds = append(crds, objs...)
	}
	out.crds = scopesOf(crds)
	for _, o := range crds {
		out.serves = append(out.serves, servedBy(o.Unstructured)...)
	}
	return out, nil
}

// Run is called by Helm with the rendered manifests, without hooks. At that time the
// chart lacks the subcharts that are switched off.
func (p *postRenderer) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	if err := (namespaceLimit{}).checkCRDs(p.files.chart.CRDObjects()); err != nil {
		return nil, err // an upgrade installs no CRDs, and what else is among them would never be there
	}
	objs, skipped, err := parseAll(rendered.Bytes(), "the chart's output")
	if err != nil {
		return nil, err
	}
	p.skipped = skipped
	if p.files.kustomize != "" {
		from := objs
		if objs, err = kustomize(p.files, from); err != nil {
			return nil, reconcile.TerminalError(release.ReasonBadKustomization, err)
		}
		if p.probes {
			p.unmatched = unmatchedPatches(p.files, from)
		}
	}
	for _, f := range p.files.raw {
		more, err := parseObjects(f.data, f.name)
		if err != nil {
			return nil, err
		}
		objs = append(objs, more...)
	}
	if err := p.finishObjects(objs); err != nil {
		return nil, err
	}
	if err := p.refuseDuplicates(objs); err != nil {
		return nil, err
	}
	if p.had && len(objs) == 0 {
		return nil, reconcile.TerminalError(release.ReasonEmptyResult,
			errors.New("no objects are left of a bundle that had some; nothing is removed; if that is meant, set allowEmpty"))
	}
	p.objects = objs
	data, err := render(objs)
	return bytes.NewBuffer(data), err
}

// finishObjects marks the objects and puts them where they are to go.
func (p *postRenderer) finishObjects(objs []renderedObject) error {
	crds := scopesOf(objs)
	maps.Copy(crds, p.crds)
	for _, o := range objs {
		marks := map[string]string{}
		if p.setID != "" {
			o.SetLabels(withEntries(o.GetLabels(), map[string]string{fleet.LabelObjectSetHash: naming.ObjectSetHash(p.setID)}))
			marks[fleet.AnnotationObjectSetID] = p.setID
		}
		if o.GetKind() == kindCRD && !p.opts.DeleteCRDResources {
			marks[helmkube.ResourcePolicyAnno] = helmkube.KeepPolicy
		}
		if len(marks) > 0 {
			o.SetAnnotations(withEntries(o.GetAnnotations(), marks))
		}
		if p.opts.TargetNamespace != "" {
			if err := p.forceNamespace(o, crds); err != nil {
				return err
			}
		}
		p.sources[identity(o.Unstructured)] = o.source
		if bare := o.GroupVersionKind().GroupKind().String() + " /" + o.GetName(); p.sources[bare] == "" {
			p.sources[bare] = o.source // for a cluster-scoped object whose manifest names a namespace
		}
		p.names = append(p.names, o.GetKind(), o.GetName(), o.GetNamespace())
	}
	return nil
}

// refuseDuplicates refuses two objects that are the same object on the cluster: Helm would write
// both, and only the last would stay.
func (p *postRenderer) refuseDuplicates(objs []renderedObject) error {
	first := map[string]string{}
	for _, o := range objs {
		if o.GetName() == "" {
			continue // generateName: another object each time
		}
		key := o.GroupVersionKind().GroupKind().String() + " " + firstNonEmpty(o.GetNamespace(), p.home) + "/" + o.GetName()
		if source, again := first[key]; again {
			return reconcile.TerminalError(release.ReasonDuplicateObject,
				fmt.Errorf("%s is in the bundle twice: first in %s", objectInFile(o.source, o.Unstructured), firstNonEmpty(source, "the chart's output")))
		}
		first[key] = o.source
	}
	return nil
}

// forceNamespace puts an object into the one namespace that the bundle may use.
func (p *postRenderer) forceNamespace(o renderedObject, crds map[schema.GroupKind]bool) error {
	gk := o.GroupVersionKind().GroupKind()
	namespaced, known := crds[gk]
	if !known {
		var err error
		if namespaced, err = p.namespaced(o.GroupVersionKind()); err != nil {
			return unservedKind{renderedObject: o, others: p.served}.fault(err)
		}
	}
	what := objectInFile(o.source, o.Unstructured)
	if namespaced {
		o.SetNamespace(p.opts.TargetNamespace)
	}
	return p.limit.checkObject(candidate{Unstructured: o.Unstructured, description: what, namespaced: namespaced, namespace: o.GetNamespace()})
}

// mapping finds how a kind is served, asking the cluster again once if it is not known.
func (k *kindCache) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		k.refresh()
		m, err = k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	return m, err
}

// namespaced reports whether a kind that the cluster serves is namespaced.
func (k *kindCache) namespaced(gvk schema.GroupVersionKind) (bool, error) {
	m, err := k.mapping(gvk)
	if err != nil {
		return false, err
	}
	return m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// scopesOf reads from CRDs among the objects which of their kinds are
// namespaced: the cluster does not serve them yet.
func scopesOf(objs []renderedObject) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, o := range objs {
		if o.GetKind() != kindCRD {
			continue
		}
		gk, _ := kindOf(o.Unstructured)
		scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
		out[gk] = scope == "Namespaced"
	}
	return out
}

// withEntries is a copy of m with the entries of more set.
func withEntries(m, more map[string]string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// identity returns what identifies an object within a release.
func identity(o *unstructured.Unstructured) string {
	return Identity(o.GroupVersionKind(), o.GetNamespace(), o.GetName())
}

// objectInFile names an object together with its file.
func objectInFile(source string, o *unstructured.Unstructured) string {
	if source == "" {
		return describe(o)
	}
	return source + ": " + describe(o)
}
