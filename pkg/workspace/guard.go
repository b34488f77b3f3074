package workspace

import (
	"context"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// The Cluster API, whose machines go with a namespace.
const (
	groupClusterAPI = "cluster.x-k8s.io"
	kindClusterAPI  = "clusters." + groupClusterAPI
)

// lookAgain is when a workspace is looked at again whose clusters are not known.
const lookAgain = 10 * time.Second

// clusterAPI describes whether and how the clusters of the Cluster API can be
// read.
type clusterAPI struct {
	installed bool       // its kind is there
	cache     *metaCache // nil where it does not serve them
}

// openClusterAPI prepares the cache of the clusters of the Cluster API. The cache is not
// waited for when the manager starts: it needs a webhook of another project.
func openClusterAPI(ctx context.Context, installed bool, c *kube.Client) (clusterAPI, error) {
	if !installed {
		return clusterAPI{}, nil
	}
	crd, err := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](c).Get(ctx, kube.Key{Name: kindClusterAPI})
	if err != nil {
		return clusterAPI{}, err
	}
	version := plan.Served(crd)
	if version == "" {
		return clusterAPI{installed: true}, nil
	}
	resource := schema.GroupVersionResource{Group: groupClusterAPI, Version: version, Resource: "clusters"}
	cache := kube.NewForeignCache(c, resource, kube.Watch{}, func(m *meta) { m.Labels, m.Annotations, m.OwnerReferences = nil, nil, nil })
	return clusterAPI{installed: true, cache: cache}, nil
}

// in returns the names of the clusters in a namespace; false where they are not all known.
func (a clusterAPI) in(namespace string) (names []string, known bool) {
	if a.cache == nil {
		return nil, !a.installed
	}
	for _, c := range a.cache.List(namespace) {
		names = append(names, c.Name)
	}
	return names, a.cache.HasSynced()
}

// holdings are the clusters of a workspace; false where they are not all known.
func (l *spaceLoop) holdings(name string) (plan.Holdings, bool) {
	machines, known := l.capi.in(name)
	return plan.Holdings{
		ClusterAPI: machines, Provisioning: l.view.provisioning.List(name), Fleet: l.view.clusters.List(name), Management: l.view.management.ByIndex(byHome, name),
	}, known
}

// guard keeps our finalizer on a workspace as long as it holds clusters, and no
// longer: it is Rancher that makes and deletes its namespace.
func (l *spaceLoop) guard(ctx context.Context, w *management.FleetWorkspace) error {
	held, known := l.holdings(w.Name)
	has, want := slices.Contains(w.Finalizers, plan.Finalizer), plan.Guarded(w, held.Names())
	switch {
	case want && !has:
		return l.finalizers(ctx, w, append(slices.Clone(w.Finalizers), plan.Finalizer))
	case has && !want && known:
		return l.release(ctx, w)
	}
	return l.accept(ctx, w)
}

// leave removes the finalizer of a workspace that a user deletes. The clusters in it
// stay, and its namespace is deleted only if it was made for it. A namespace that
// Rancher has made is deleted by Rancher, as soon as the workspace is gone.
func (l *spaceLoop) leave(ctx context.Context, w *management.FleetWorkspace, ns *meta) (kube.Result, error) {
	if !slices.Contains(w.Finalizers, plan.Finalizer) {
		return kube.Done, nil
	}
	held, known := l.holdings(w.Name)
	names, next := held.Names(), kube.Done
	if !known { // better too long than machines lost
		names, next = append(names, plan.Unlisted), kube.Result{After: lookAgain}
	}
	if ok, why := plan.Deletable(w, names); !ok {
		return next, l.refuse(ctx, w, reasonHeld, why)
	}
	if plan.TakesNamespace(w, ns) {
		if ns.DeletionTimestamp == nil {
			return kube.Done, l.namespaces.Delete(ctx, kube.KeyOf(ns), kube.Precondition{UID: ns.UID})
		}
		return kube.Done, nil // its end wakes this up
	}
	return kube.Done, l.release(ctx, w)
}

// release takes our finalizer off.
func (l *spaceLoop) release(ctx context.Context, w *management.FleetWorkspace) error {
	return l.finalizers(ctx, w, slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == plan.Finalizer }))
}

// refuse says why a workspace is not deleted, or has no namespace: once in an event,
// and on the object for as long as it is so.
func (l *spaceLoop) refuse(ctx context.Context, w *management.FleetWorkspace, reason, text string) error {
	l.say(w, reason, text)
	if w.Annotations[plan.AnnotationRefused] == text {
		return nil
	}
	changed := w.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[plan.AnnotationRefused] = text
	_, err := l.workspaces.Patch(ctx, w, changed)
	return err
}

// accept takes back what refuse has put on the object.
func (l *spaceLoop) accept(ctx context.Context, w *management.FleetWorkspace) error {
	if w.Annotations[plan.AnnotationRefused] == "" {
		return nil
	}
	changed := w.DeepCopy()
	delete(changed.Annotations, plan.AnnotationRefused)
	l.silent(w)
	_, err := l.workspaces.Patch(ctx, w, changed)
	return err
}
