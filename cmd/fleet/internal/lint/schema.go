package lint

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
)

// treeObjects are the objects of the bundles of one tree. They are checked when
// all are there: the CRD of a kind may come from another bundle.
type treeObjects struct {
	crds    []map[string]any // of --crd-file
	bundles []checkedBundle
}

// A checkedBundle is a bundle whose objects are checked.
type checkedBundle struct {
	dir    string // as the report names it
	file   fleetyaml.File
	bundle schema.Bundle
	// rendered is the result of rendering for each version of Kubernetes; nothing where
	// that is impossible.
	rendered map[string][]schema.Rendered
	// held are the objects of each of its versions, and versions the version that
	// each cluster gets.
	heldObjects map[string]heldObjects
	versions    map[string]string
}

// readCRDs reads the CRDs of --crd-file.
func (o *Options) readCRDs(std printer.Stdio) ([]map[string]any, error) {
	if o.crdFile == "" {
		return nil, nil
	}
	if o.crdFile == "-" && o.clusterFile == "-" {
		return nil, fmt.Errorf("--crd-file and --cluster-file cannot both be stdin")
	}
	data, err := cli.ReadFile(o.crdFile, std)
	if err != nil {
		return nil, cli.OfFlag("crd-file", err)
	}
	crds, err := sources.DocumentsOf(string(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", cli.ErrInput, cli.ShownFile(o.crdFile), err)
	}
	if !slices.ContainsFunc(crds, schema.ListsCRDs) {
		return nil, fmt.Errorf("no CustomResourceDefinition in %s", cli.ShownFile(o.crdFile))
	}
	return crds, nil
}

// addBundle notes the objects of a bundle that was tried.
func (to *treeObjects) addBundle(t *renderTrial, dir string) {
	files := map[string][]byte{}
	for _, r := range t.result.Bundle.Spec.Resources {
		if data, err := content.ResourceBytes(r); err == nil {
			files[r.Name] = data
		}
	}
	b := checkedBundle{dir: dir, file: t.file, rendered: t.objects, heldObjects: t.heldObjects, versions: t.versions, bundle: schema.Bundle{
		Dir: t.result.Dir.Path, Files: files, Manifests: schema.Manifests(t.result.Bundle, files), Chart: finding.Finding{Path: t.file.Path},
	}}
	b.bundle.Chart.Line, b.bundle.Chart.Column = t.file.Position("helm", "chart")
	if b.bundle.Chart.Line == 0 {
		b.bundle.Chart.Path = t.result.Dir.Path
	}
	if len(b.rendered) == 0 {
		t.keepRendered(cmp.Or(t.o.kubeVersion, sources.RecentKubernetes), helm.Deployment{}, nil, "")
	}
	to.bundles = append(to.bundles, b)
}

// report adds what is wrong with the objects, for each version of Kubernetes that
// clusters have.
func (to *treeObjects) report(p sourceTree, r *report) {
	versions := map[string]*schema.Kinds{}
	for _, b := range to.bundles {
		for version := range b.rendered {
			if kinds, err := schema.New(version); err == nil { // else rendering says that it is none
				versions[version] = kinds
			}
		}
	}
	for _, kinds := range versions {
		to.define(kinds)
	}
	for _, b := range to.bundles {
		for _, version := range slices.Sorted(maps.Keys(b.rendered)) {
			if kinds := versions[version]; kinds != nil {
				in := b.bundle
				in.Rendered = b.rendered[version]
				r.addFindings(p, b.dir, kinds.Findings(in))
			}
		}
	}
}

// comparePatches warns of compare patches that match nothing, in bundles of plain
// manifests. The objects of charts and kustomizations may differ on each cluster.
func (to *treeObjects) comparePatches(p sourceTree, r *report) {
	for _, b := range to.bundles {
		if len(b.bundle.Manifests) == 0 {
			continue
		}
		var objects []map[string]any
		templates := false
		for name, data := range b.bundle.Files {
			objects = append(objects, schema.Objects(data)...) // overlays, too
			templates = templates || strings.HasPrefix(name, "templates/")
		}
		if !templates {
			r.addFindings(p, b.dir, lint.ComparePatches(&b.file, objects))
		}
	}
}

// define makes the CRDs of all bundles known, and those of --crd-file.
func (to *treeObjects) define(kinds *schema.Kinds) {
	for _, crd := range to.crds {
		kinds.Add(crd)
	}
	for _, b := range to.bundles {
		for _, name := range b.bundle.Manifests {
			for _, o := range schema.CRDs(b.bundle.Files[name]) {
				kinds.Add(o)
			}
		}
		for _, list := range b.rendered {
			for _, o := range list {
				kinds.Add(o.Object)
			}
		}
	}
}

// keepRendered notes what a bundle is rendered to with the options of d; nothing where it cannot be
// rendered. uncertain says why its values may be others on real clusters.
func (t *renderTrial) keepRendered(kube string, d helm.Deployment, rendered []helm.Object, uncertain string) {
	if _, known := t.objects[kube]; !known {
		t.objects[kube] = nil
	}
	for _, o := range rendered {
		t.objects[kube] = append(t.objects[kube], sourceOf(d, o, uncertain))
	}
}

// sourceOf is a rendered object with the files that it comes from.
func sourceOf(d helm.Deployment, o helm.Object, uncertain string) schema.Rendered {
	r := schema.Rendered{File: path.Clean(o.File), Object: o.Object, Uncertain: uncertain}
	if d.Options.YAML != nil {
		r.Overlays = d.Options.YAML.Overlays
	}
	return r
}

// uncertainReason says why values may be others on real clusters than for a sample; it is
// empty where they are the same.
func (t *renderTrial) uncertainReason(c sampleCluster, d helm.Deployment) string {
	switch {
	case d.Options.Helm != nil && len(d.Options.Helm.ValuesFrom) > 0:
		return hintElsewhere
	case c.Guessed && lint.AsksClusters(t.result.Bundle):
		return HintGuessed
	}
	return ""
}
