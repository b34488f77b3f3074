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

// openClusterAPI prepares the cache of the clusters of the Cluster API. The manager
// does not wait for the cache at its start, because it depends on a webhook of another
// project.
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

// clustersIn returns the names of the clusters in a namespace; false if some may be
// unknown.
func (a clusterAPI) clustersIn(namespace string) (names []string, known bool) {
	if a.cache == nil {
		return nil, !a.installed
	}
	for _, c := range a.cache.List(namespace) {
		names = append(names, c.Name)
	}
	return names, a.cache.HasSynced()
}

// clustersOf returns the clusters of a workspace; false if some may be unknown.
func (l *namespaceLoop) clustersOf(name string) (plan.Holdings, bool) {
	machines, known := l.capi.clustersIn(name)
	return plan.Holdings{
		ClusterAPI: machines, Provisioning: l.view.provisioning.List(name), Fleet: l.view.clusters.List(name), Management: l.view.management.ByIndex(byHome, name),
	}, known
}

// ensureFinalizer keeps the manager's finalizer on a workspace while it has clusters.
// It is for the case that Rancher creates and deletes namespaces.
func (l *namespaceLoop) ensureFinalizer(ctx context.Context, w *management.FleetWorkspace) error {
	held, known := l.clustersOf(w.Name)
	has, want := slices.Contains(w.Finalizers, plan.Finalizer), plan.Guarded(w, held.Names())
	switch {
	case want && !has:
		return l.setFinalizers(ctx, w, append(slices.Clone(w.Finalizers), plan.Finalizer))
	case has && !want && known:
		return l.removeFinalizer(ctx, w)
	}
	return l.clearRefused(ctx, w)
}

// handleDeletion removes the finalizer of a workspace that a user deletes. The clusters
// in it stay. It deletes the namespace only if the manager has created it for the
// workspace; Rancher deletes a namespace that Rancher has created.
func (l *namespaceLoop) handleDeletion(ctx context.Context, w *management.FleetWorkspace, ns *meta) (kube.Result, error) {
	if !slices.Contains(w.Finalizers, plan.Finalizer) {
		return kube.Done, nil
	}
	held, known := l.clustersOf(w.Name)
	names, next := held.Names(), kube.Done
	if !known { // better too long than machines lost
		names, next = append(names, plan.Unlisted), kube.Result{After: lookAgain}
	}
	if ok, why := plan.Deletable(w, names); !ok {
		return next, l.reportRefused(ctx, w, reasonHeld, why)
	}
	if plan.TakesNamespace(w, ns) {
		if ns.DeletionTimestamp == nil {
			return kube.Done, l.namespaces.Delete(ctx, kube.KeyOf(ns), kube.Precondition{UID: ns.UID})
		}
		return kube.Done, nil // the event of its deletion enqueues the key
	}
	return kube.Done, l.removeFinalizer(ctx, w)
}

// removeFinalizer removes the manager's finalizer.
func (l *namespaceLoop) removeFinalizer(ctx context.Context, w *management.FleetWorkspace) error {
	return l.setFinalizers(ctx, w, slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == plan.Finalizer }))
}

// reportRefused reports why a workspace is not deleted, or has no namespace: once in an
// event, and in an annotation for as long as that is so.
func (l *namespaceLoop) reportRefused(ctx context.Context, w *management.FleetWorkspace, reason, text string) error {
	l.report(w, reason, text)
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

// clearRefused removes the annotation of reportRefused.
func (l *namespaceLoop) clearRefused(ctx context.Context, w *management.FleetWorkspace) error {
	if w.Annotations[plan.AnnotationRefused] == "" {
		return nil
	}
	changed := w.DeepCopy()
	delete(changed.Annotations, plan.AnnotationRefused)
	l.clear(w)
	_, err := l.workspaces.Patch(ctx, w, changed)
	return err
}
