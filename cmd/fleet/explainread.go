package main

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A reading collects what an explanation is made of, as far as the user may
// read it. One cluster is read by name: nothing is listed that grows with the
// fleet.
type reading struct {
	s      *session
	hidden []explain.Hidden
	narrow []string // the workspaces that were searched for a name; empty: all, or that of -n

	manager view.Manager
}

// hide notes what is not the user's to see.
func (r *reading) hide(resource, namespace string) {
	h := explain.Hidden{Resource: resource, Namespace: namespace}
	if !slices.Contains(r.hidden, h) {
		r.hidden = append(r.hidden, h)
	}
}

// note says on stderr what was not seen, and whether the manager is silent.
func (r *reading) note() {
	r.s.heard(r.manager)
	if len(r.hidden) == 0 {
		return
	}
	texts := make([]string, len(r.hidden))
	for i, h := range r.hidden {
		texts[i] = h.String()
	}
	r.s.std.Note("this user may not see %s", strings.Join(texts, ", "))
}

// get reads one object; nil where it is not there, or hidden.
func (r *reading) get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := r.s.api.Get(ctx, resource, namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		r.hide(resource.Resource, namespace)
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return u, reached(r.s.server, err)
}

// read reads one object as its type.
func read[T any](ctx context.Context, r *reading, resource schema.GroupVersionResource, namespace, name string) (*T, error) {
	u, err := r.get(ctx, resource, namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return as[T](u)
}

// list lists what a query selects; nothing where that is hidden, or the kind is
// not there.
func list[T any](ctx context.Context, r *reading, q query) ([]*T, error) {
	items, _, err := r.s.listed(ctx, q)
	switch {
	case apierrors.IsForbidden(err):
		r.hide(q.resource.Resource, q.namespace)
		return nil, nil
	case err != nil && unknownResource(err):
		return nil, nil
	case err != nil:
		return nil, reached(r.s.server, err)
	}
	return allAs[T](items)
}

// subject reads what all clusters of a Bundle share.
func (r *reading) subject(ctx context.Context, b *fleet.Bundle) (explain.Subject, error) {
	s := r.s
	out := explain.Subject{Bundle: b, Now: s.now()}
	var err error
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		if out.Repo, err = read[fleet.GitRepo](ctx, r, mustKind("repos").resource(), b.Namespace, name); err != nil {
			return out, err
		}
		// The Bundle is read again after the GitRepo says that it was read: only that
		// version is used.
		again, err := read[fleet.Bundle](ctx, r, mustKind("bundles").resource(), b.Namespace, b.Name)
		if err != nil {
			return out, err
		}
		if again != nil {
			b, out.Bundle = again, again
		}
		out.Findings = s.unlisted(ctx, out.Repo)
	}
	if err := r.workspace(ctx, &out, b.Namespace); err != nil {
		return out, err
	}
	brake, err := read[corev1.ConfigMap](ctx, r, configMaps, s.system, fleet.ConfigMapBrake)
	if err != nil {
		return out, err
	}
	if brake != nil {
		out.Brake = view.ParseBrake(brake.Data)
	}
	if out.Manager, err = s.managerOf(ctx, view.ShardOf(b)); err != nil {
		return out, err
	}
	r.manager = out.Manager
	if b.Spec.ValuesHash == "" {
		return out, nil
	}
	values, err := read[corev1.Secret](ctx, r, secrets, b.Namespace, b.Name)
	if values != nil && values.Type == fleet.SecretTypeBundleValues {
		out.Values = values.Data
	}
	return out, err
}

// workspace reads the groups and limits of a namespace with clusters.
func (r *reading) workspace(ctx context.Context, to *explain.Subject, namespace string) error {
	groups, err := list[fleet.ClusterGroup](ctx, r, query{resource: mustKind("groups").resource(), namespace: namespace})
	if err != nil {
		return err
	}
	to.Groups = append(to.Groups, groups...)
	for _, kind := range support.Limiting() {
		plural, _, _ := fleet.Resource(kind)
		found, err := list[metav1.PartialObjectMetadata](ctx, r, query{resource: fleet.GroupVersion.WithResource(plural), namespace: namespace})
		if err != nil {
			return err
		}
		for _, o := range found {
			to.Limits = append(to.Limits, support.Limit{Kind: kind, Name: o.Name})
		}
	}
	return nil
}

// beyond reads the mappings that may lead a Bundle to other namespaces, and the labels
// of namespaces: of these names, or of all if there are none.
func (r *reading) beyond(ctx context.Context, to *explain.Subject, names []string) error {
	b := to.Bundle
	var err error
	mappings := fleet.GroupVersion.WithResource("bundlenamespacemappings")
	if to.Mappings, err = list[fleet.BundleNamespaceMapping](ctx, r, query{resource: mappings, namespace: b.Namespace}); err != nil {
		return err
	}
	compiled := plantarget.CompileMappings(to.Mappings)
	if !slices.ContainsFunc(compiled, func(m plantarget.Mapping) bool { return m.Serves(b.Labels) }) {
		return nil
	}
	to.Spaces = map[string]map[string]string{}
	if len(names) == 0 {
		found, err := list[corev1.Namespace](ctx, r, query{resource: namespaces, labels: fleet.LabelManaged + "!=true"})
		if err != nil {
			return err
		}
		for _, ns := range found {
			to.Spaces[ns.Name] = ns.Labels
		}
	}
	for _, name := range names {
		ns, err := read[corev1.Namespace](ctx, r, namespaces, "", name)
		if err != nil {
			return err
		}
		if ns != nil && ns.Labels[fleet.LabelManaged] != "true" {
			to.Spaces[name] = ns.Labels
		}
	}
	for _, name := range compiled.ReachOf(b.Namespace, b.Labels, to.Spaces).Namespaces() {
		if err := r.workspace(ctx, to, name); err != nil {
			return err
		}
	}
	return nil
}

// bundleLabels selects the deployments of a Bundle.
func bundleLabels(b *fleet.Bundle) string {
	return fleet.LabelBundleName + "=" + b.Name + "," + fleet.LabelBundleNamespace + "=" + b.Namespace
}

// deployment reads the Bundle's deployment on a cluster: by its name in the
// cluster's namespace, or, where the Cluster may not be read, by its labels.
func (r *reading) deployment(ctx context.Context, b *fleet.Bundle, at *explain.Place) error {
	k := mustKind("deployments")
	var items []*unstructured.Unstructured
	if at.Cluster != nil {
		if at.Cluster.Status.Namespace == "" {
			return nil
		}
		u, err := r.get(ctx, k.resource(), at.Cluster.Status.Namespace, b.Name)
		if u == nil || err != nil {
			return err
		}
		items = append(items, u)
	} else {
		q := query{resource: k.resource(), labels: both(bundleLabels(b), fleet.LabelCluster+"="+at.Key.Name)}
		var err error
		if items, _, err = r.s.listed(ctx, q); apierrors.IsForbidden(err) {
			r.hide(q.resource.Resource, "")
			return nil
		} else if err != nil {
			return reached(r.s.server, err)
		}
	}
	for _, u := range items {
		bd, err := as[fleet.BundleDeployment](u)
		if err != nil {
			return err
		}
		if view.BundleOf(bd) == (view.Key{Namespace: b.Namespace, Name: b.Name}) && view.ClusterOf(bd) == at.Key {
			at.Deployment, at.Written = bd, written(bd)
		}
	}
	return nil
}

// maxNamed is how many clusters that targets name are looked for.
const maxNamed = 10

// neighbours reads the names and labels of all clusters in the workspace of at, to name
// the nearest. It does so if a Bundle that is not deployed there names a cluster that
// does not exist, or asks for labels that at lacks. Names that the user may not see are
// not missed.
func (r *reading) neighbours(ctx context.Context, of *explain.Subject, at explain.Place) error {
	if at.Cluster == nil || at.Deployment != nil || !r.namesMissing(ctx, of.Bundle, at) && !explain.AsksLabels(*of, at) {
		return nil
	}
	namespace := at.Key.Namespace
	items, _, err := r.s.listed(ctx, query{resource: mustKind("clusters").resource(), namespace: namespace})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return reached(r.s.server, err)
	}
	var known []string
	var labels []map[string]string
	for _, u := range items {
		known = append(known, plantarget.NamesOf(u.GetName(), u.GetLabels())...)
		labels = append(labels, u.GetLabels())
	}
	of.Clusters, of.Labels = map[string][]string{namespace: known}, map[string][]map[string]string{namespace: labels}
	return nil
}

// namesMissing reports whether the targets of a Bundle name a cluster that does not
// exist, as far as the user may know.
func (r *reading) namesMissing(ctx context.Context, b *fleet.Bundle, at explain.Place) bool {
	known := plantarget.NamesOf(at.Key.Name, at.Cluster.Labels)
	for i, t := range plantarget.Plain(&b.Spec) {
		if i == maxNamed {
			break
		}
		if t.ClusterName == "" || slices.Contains(known, t.ClusterName) {
			continue
		}
		if _, err := r.s.api.Get(ctx, mustKind("clusters").resource(), at.Key.Namespace, t.ClusterName); apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
}

// places are all clusters that a Bundle may go to, with its deployments, which
// are listed once.
func (r *reading) places(ctx context.Context, of *explain.Subject) ([]explain.Place, error) {
	b := of.Bundle
	if err := r.beyond(ctx, of, nil); err != nil {
		return nil, err
	}
	var clusters []*fleet.Cluster
	spaces := plantarget.CompileMappings(of.Mappings).ReachOf(b.Namespace, b.Labels, of.Spaces).Namespaces()
	for _, ns := range append([]string{b.Namespace}, spaces...) {
		found, err := list[fleet.Cluster](ctx, r, query{resource: mustKind("clusters").resource(), namespace: ns})
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, found...)
	}
	deployments, err := list[fleet.BundleDeployment](ctx, r, query{resource: mustKind("deployments").resource(), labels: bundleLabels(b)})
	if err != nil {
		return nil, err
	}
	at := map[view.Key]int{}
	var out []explain.Place
	for _, c := range clusters {
		key := view.Key{Namespace: c.Namespace, Name: c.Name}
		at[key] = len(out)
		out = append(out, explain.Place{Key: key, Cluster: c})
	}
	for _, bd := range deployments {
		key := view.ClusterOf(bd)
		i, known := at[key]
		if !known {
			if !slices.Contains(r.hidden, explain.Hidden{Resource: explain.Clusters, Namespace: key.Namespace}) {
				continue // of a cluster that is gone
			}
			i = len(out)
			at[key], out = i, append(out, explain.Place{Key: key})
		}
		out[i].Deployment, out[i].Written = bd, written(bd)
	}
	return out, nil
}

// written is when the manager wrote an object last, by the API server's clock.
func written(o metav1.Object) time.Time {
	var at time.Time
	for _, m := range o.GetManagedFields() {
		if m.Manager == fleet.FieldManagerController && m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
