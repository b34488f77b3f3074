package lint

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
)

// maxShared is how many objects a finding each is made for, of two bundles.
const maxShared = 3

// hookAnnotation marks the objects of a chart that Helm makes and removes by itself.
const hookAnnotation = "helm.sh/hook"

// heldObjects is what one version of a bundle has on a cluster.
type heldObjects struct {
	objects []heldObject
	// hooks are those of its objects that Helm makes and removes by itself.
	hooks []heldObject
	// takes says that it takes objects of others over.
	takes bool
}

// A heldObject is an object as it is on a cluster, and what it comes from.
type heldObject struct {
	fleet.BundleDeploymentResource
	source schema.Rendered
}

// String returns kind and name, as package diagnose has it.
func (o *heldObject) String() string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// heldBy are the objects of a deployment.
func heldBy(d helm.Deployment, rendered []helm.Object, uncertain string) heldObjects {
	out := heldObjects{takes: d.Options.Helm != nil && d.Options.Helm.TakeOwnership}
	for _, o := range rendered {
		if o.GetName() == "" {
			continue
		}
		held := heldObject{source: sourceOf(d, o, uncertain)}
		held.APIVersion, held.Kind, held.Name = o.GetAPIVersion(), o.GetKind(), o.GetName()
		if helm.BuiltIn(o.GroupVersionKind().GroupKind()) {
			held.Namespace = cmp.Or(o.GetNamespace(), d.ID.Namespace)
		}
		if o.GetAnnotations()[hookAnnotation] != "" {
			out.hooks = append(out.hooks, held)
			continue
		}
		out.objects = append(out.objects, held)
	}
	return out
}

// warnShared warns of objects that two bundles have on one cluster: of those the
// clusters that get both refuse one.
func (to *treeObjects) warnShared(p sourceTree, r *report) {
	var sharing diagnose.Sharing
	sources := map[string]schema.Rendered{} // by bundle and object
	clusters := map[string]bool{}
	for _, b := range to.bundles {
		for title := range b.versions {
			clusters[title] = true
		}
	}
	for _, title := range slices.Sorted(maps.Keys(clusters)) {
		for i := range to.bundles {
			b := &to.bundles[i]
			if key, gets := b.versions[title]; gets {
				sharing.Add(b.deployment(title, b.heldObjects[key], sources))
			}
		}
	}
	bundles := map[string]*checkedBundle{}
	for i := range to.bundles {
		bundles[to.bundles[i].id()] = &to.bundles[i]
	}
	pairs := map[[2]string][]diagnose.SharedSeen{}
	for _, s := range sharing.Found() {
		pairs[s.Bundles] = append(pairs[s.Bundles], s)
	}
	for pair, list := range pairs {
		first, second := bundles[pair[0]], bundles[pair[1]]
		for _, s := range list[:min(len(list), maxShared)] {
			there := first.bundle.Place(sources[pair[0]+" "+s.Object], "metadata", "name")
			f := second.bundle.Place(sources[pair[1]+" "+s.Object], "metadata", "name")
			f.Severity, f.Rule = finding.Warning, finding.RuleSharedObject
			f.Message += fmt.Sprintf("%s is in another bundle too: %s", s.Object, placeText(p, there))
			f.Hint = "clusters that get both refuse one of them; remove the object from one, or lint directories of different GitRepos apart"
			if more := len(list) - maxShared; more > 0 {
				f.Hint += fmt.Sprintf("; of %d more objects both have the same", more)
			}
			r.addFindings(p, second.dir, []finding.Finding{f})
		}
	}
}

// services warns of Services that select no pods of their own bundle.
func (to *treeObjects) services(p sourceTree, r *report) {
	for _, b := range to.bundles {
		for _, key := range slices.Sorted(maps.Keys(b.heldObjects)) {
			held := b.heldObjects[key].objects
			for _, s := range lint.Services(b.deployed(held)) {
				o := held[s.Index]
				f := b.bundle.Place(o.source, "spec", "selector")
				f.Severity, f.Rule = finding.Warning, finding.RuleUnmatched
				f.Message += fmt.Sprintf("Service %s: %s", o.Name, s.Message)
				f.Hint = s.Hint
				r.addFindings(p, b.dir, []finding.Finding{f})
			}
		}
	}
}

// references warns of references to objects of the same bundle whose names are
// misspelt.
func (to *treeObjects) references(p sourceTree, r *report) {
	all := map[[2]string]bool{} // kinds and names of all bundles
	for _, b := range to.bundles {
		for _, held := range b.heldObjects {
			for _, o := range slices.Concat(held.objects, held.hooks) {
				all[[2]string{o.Kind, o.Name}] = true
			}
		}
	}
	elsewhere := func(kind, name string) bool { return all[[2]string{kind, name}] }
	for _, b := range to.bundles {
		for _, key := range slices.Sorted(maps.Keys(b.heldObjects)) {
			held := b.heldObjects[key].objects
			for _, d := range lint.References(b.deployed(held), elsewhere) {
				o := held[d.Index]
				f := b.bundle.Place(o.source, d.Place...)
				f.Severity, f.Rule, f.Hint = finding.Warning, finding.RuleUnmatched, d.Hint
				f.Message += fmt.Sprintf("%s %s: %s", o.Kind, o.Name, d.Message)
				r.addFindings(p, b.dir, []finding.Finding{f})
			}
		}
	}
}

// deployed converts objects to the type that package plan/lint checks.
func (b *checkedBundle) deployed(held []heldObject) []lint.Deployed {
	var objects []lint.Deployed
	for _, o := range held {
		objects = append(objects, lint.Deployed{
			Namespace: o.Namespace, Object: o.source.Object, Foreign: strings.HasPrefix(o.source.File, ".chart/") || b.isUncertain(o),
		})
	}
	return objects
}

// isUncertain reports whether an object may be another one on a real cluster.
func (b *checkedBundle) isUncertain(o heldObject) bool {
	return o.source.Uncertain != "" && !slices.Contains(b.bundle.Manifests, o.source.File)
}

// placeText is file and line of a finding, for people.
func placeText(p sourceTree, f finding.Finding) string {
	text := path.Join(p.shown, f.Path)
	if f.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, f.Line)
	}
	return text
}

// id returns the name of the bundle, as package diagnose has it.
func (b *checkedBundle) id() string { return lint.Workspace + "/" + b.dir }

// deployment is the bundle on a cluster, as its agent would report it. sources gets the
// origin of each object. Objects whose names may differ on a real cluster are left out.
func (b *checkedBundle) deployment(cluster string, held heldObjects, sources map[string]schema.Rendered) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Labels: map[string]string{
		fleet.LabelRepoName: repository, fleet.LabelBundleNamespace: lint.Workspace, fleet.LabelBundleName: b.dir,
	}}}
	bd.Spec.Options.Helm = &fleet.HelmOptions{TakeOwnership: held.takes}
	for _, o := range held.objects {
		if b.isUncertain(o) {
			continue
		}
		bd.Status.Resources = append(bd.Status.Resources, o.BundleDeploymentResource)
		sources[b.id()+" "+o.String()] = o.source
	}
	return bd
}
