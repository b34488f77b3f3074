package helm

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
)

// RenderOptions describe the cluster that Render cannot ask.
type RenderOptions struct {
	// KubeVersion is the version of Kubernetes that charts see, for example
	// "v1.36.0"; empty is the version that Helm's library is made for.
	KubeVersion string
	// APIVersions are the API versions that charts see beside the kinds of
	// Kubernetes itself: "group/version" or "group/version/Kind".
	APIVersions []string
	// Marks adds the label and the annotation by which an agent knows its
	// objects again.
	Marks bool
	// AgentScope is the agent's, where it has one; only with Marks.
	AgentScope string
	// Patches fills Rendered.Unmatched, for which a kustomization is built again.
	Patches bool
}

// Rendered holds the objects that a deployment would install.
type Rendered struct {
	// CRDs is the chart's crds folder, which is installed first.
	CRDs string
	// Manifest holds the objects in the order in which they are installed, each
	// with a comment that names its file.
	Manifest string
	// Hooks are the objects that Helm runs around an installation. Neither
	// kustomization nor forced namespace nor marks apply to them.
	Hooks string
	// Objects are the same as in CRDs, Manifest and Hooks, one by one, in no order.
	Objects []Object
	// Notes is the text of the chart for users.
	Notes string
	// Unknown names the ConfigMaps and Secrets of helm.valuesFrom: they are on
	// the cluster, so their values are missing here.
	Unknown []string
	// Skipped are the templates, relative to their chart, that rendered documents
	// without a kind: these are not installed.
	Skipped []string
	// Unmatched are the patches of kustomizations whose target matches no resource:
	// kustomize leaves them out and says nothing. It is filled with
	// RenderOptions.Patches only.
	Unmatched []UnmatchedPatch
}

// An Object is one object that would be installed.
type Object struct {
	// File is the file of the bundle that it comes from; for all that a
	// kustomization makes, the kustomization.
	File string
	*unstructured.Unstructured
}

// AllObjects returns everything that would be installed, as one stream of documents.
func (r Rendered) AllObjects() string { return r.CRDs + r.Manifest + r.Hooks }

// Render reports what Install would install, without a cluster and without a
// network: templates that look something up get nothing, host names are not
// resolved. Kinds that neither Kubernetes nor the bundle's own CRDs know count
// as namespaced.
//
// Errors are those of Install: reconcile.Terminal with a reason of package release.
func Render(d Deployment, o RenderOptions) (Rendered, error) {
	p, err := partsOf(d)
	if err != nil {
		return Rendered{}, err
	}
	setID := ""
	if o.Marks {
		setID = naming.ObjectSetID(d.Memory.Owner.BundleID, o.AgentScope)
	}
	post, err := postRendererOf(d, p, setID, builtIn)
	if err != nil {
		return Rendered{}, classify(err)
	}
	post.probes = o.Patches
	values := map[string]any{}
	if v := d.helm().Values; v != nil && v.Data != nil {
		values = runtime.DeepCopyJSON(v.Data)
	}
	out := Rendered{Unknown: elsewhereValues(d)}
	for _, f := range p.chart.CRDObjects() {
		out.CRDs += document(inBundle(f.Filename), f.File.Data)
	}
	in, err := rendering(d, o, post.serves)
	if err != nil {
		return Rendered{}, err
	}
	in.PostRenderer = post
	r, err := in.Run(p.chart, values)
	if err != nil {
		hidden := redact.New(append(post.names, d.ID.Name, d.ID.Namespace), values)
		return Rendered{}, withoutValues(classify(err), hidden)
	}
	if err := d.namespaceLimit().checkCRDs(r.Chart.CRDObjects()); err != nil {
		return Rendered{}, err
	}
	if err := out.setRendered(post, r); err != nil {
		return Rendered{}, err
	}
	return out, out.list(newLocator(d), post, r)
}

// list notes the objects and the files that they come from.
func (r *Rendered) list(l locator, post *postRenderer, done *helmrelease.Release) error {
	all := post.objects
	add := func(text []byte, file string) error {
		objs, err := parseObjects(text, file)
		all = append(all[:len(all):len(all)], objs...)
		return err
	}
	for _, f := range done.Chart.CRDObjects() {
		if err := add(f.File.Data, inBundle(f.Filename)); err != nil {
			return err
		}
	}
	for _, h := range done.Hooks {
		if err := add([]byte(h.Manifest), inBundle(h.Path)); err != nil {
			return err
		}
	}
	for _, o := range all {
		file, ok := l.inTree(o.source)
		if !ok {
			file = o.source
		}
		r.Objects = append(r.Objects, Object{File: file, Unstructured: o.Unstructured})
	}
	return nil
}

// rendering is an installation that reaches nothing.
func rendering(d Deployment, o RenderOptions, serves []string) (*action.Install, error) {
	in := action.NewInstall(&action.Configuration{
		Releases:   storage.Init(driver.NewMemory()),
		KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard},
		Log:        func(string, ...any) {},
	})
	in.ReleaseName, in.Namespace = d.ID.Name, d.ID.Namespace
	in.ClientOnly, in.DryRun, in.DryRunOption = true, true, "client"
	in.EnableDNS = false
	in.SkipSchemaValidation = d.helm().SkipSchemaValidation
	in.APIVersions = append(append(chartutil.VersionSet{}, o.APIVersions...), serves...)
	if o.KubeVersion != "" {
		v, err := chartutil.ParseKubeVersion(o.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("kubernetes version %q: %w", o.KubeVersion, err)
		}
		in.KubeVersion = v
	}
	return in, nil
}

// setRendered takes over what was rendered.
func (r *Rendered) setRendered(post *postRenderer, done *helmrelease.Release) error {
	var text strings.Builder
	for _, o := range inOrder(post.objects) {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("write %s: %w", describe(o.Unstructured), err)
		}
		text.WriteString(document(o.source, data))
	}
	r.Manifest, r.Skipped = text.String(), post.skipped
	r.Unmatched = post.unmatched
	for _, h := range done.Hooks {
		r.Hooks += document(inBundle(h.Path), []byte(h.Manifest))
	}
	if done.Info != nil {
		r.Notes = done.Info.Notes
	}
	return nil
}

// document is one of a stream, with the file that it comes from.
func document(source string, data []byte) string {
	head := "---\n"
	if source != "" {
		head += sourceMark + source + "\n"
	}
	return head + string(bytes.TrimSuffix(bytes.TrimPrefix(data, []byte("---\n")), []byte("\n"))) + "\n"
}

// elsewhereValues names where values come from that only the cluster knows.
func elsewhereValues(d Deployment) []string {
	var out []string
	for _, from := range d.helm().ValuesFrom {
		if ref := from.ConfigMapKeyRef; ref != nil {
			out = append(out, valuesSource{kind: "ConfigMap", namespace: firstNonEmpty(ref.Namespace, d.ID.Namespace), name: ref.Name}.String())
		}
		if ref := from.SecretKeyRef; ref != nil {
			out = append(out, valuesSource{kind: "Secret", namespace: firstNonEmpty(ref.Namespace, d.ID.Namespace), name: ref.Name}.String())
		}
	}
	return out
}
