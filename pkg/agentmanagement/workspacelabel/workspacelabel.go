// Package workspacelabel labels the namespaces that hold Clusters, registration tokens
// or GitRepos. The API server's admission policy protects Secrets in namespaces with
// this label.
package workspacelabel

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A Loop labels the namespaces of workspaces.
type Loop struct {
	caches     *cache.Shared
	loop       *kube.Controller
	labelled   *cache.MetaCache
	gitRepos   *cache.MetaCache
	namespaces *kube.Store[*corev1.Namespace]
}

// New makes the loop; it labels the namespaces that are within a scope.
func New(within scope.Scope, c *kube.Client, caches *cache.Shared) *Loop {
	l := &Loop{
		caches: caches, namespaces: kube.StoreOf[*corev1.Namespace](c),
		labelled: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
			kube.Watch{Labels: fleet.LabelWorkspace + "=" + registration.True}, cache.StripMeta),
		gitRepos: kube.NewMetaCache(c, fleet.GroupVersion.WithKind("GitRepo"), kube.Watch{}, cache.StripMeta),
	}
	l.loop = kube.NewController("workspaces", 1, kube.Within(within.Holds, l.Reconcile))
	caches.Clusters.OnChange(cache.IfNew(func(c *fleet.Cluster) { l.enqueueNamespaceOf(c) }))
	caches.Tokens.OnChange(cache.IfNew(func(t *fleet.ClusterRegistrationToken) { l.enqueueNamespaceOf(t) }))
	l.gitRepos.OnChange(cache.IfNew(func(g *cache.Meta) { l.enqueueNamespaceOf(g) }))
	l.labelled.OnChange(cache.IfGone(func(n *cache.Meta) { l.loop.Add(kube.Key{Namespace: n.Name}) }))
	return l
}

// enqueueNamespaceOf enqueues the namespace of an object.
func (l *Loop) enqueueNamespaceOf(o metav1.Object) { l.loop.Add(kube.Key{Namespace: o.GetNamespace()}) }

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner {
	return []kube.Runner{l.labelled, l.gitRepos, l.loop}
}

// Reconcile labels one namespace. The label is never removed: objects of the workspace
// may still be there.
func (l *Loop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	name := key.Namespace
	if _, ok := l.labelled.Get(kube.Key{Name: name}); ok || !l.inUse(name) {
		return kube.Done, nil
	}
	body := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, fleet.LabelWorkspace, registration.True)
	_, err := l.namespaces.PatchRaw(ctx, kube.Key{Name: name}, types.MergePatchType, body)
	return kube.Done, kube.IgnoreGone(err)
}

// inUse reports whether a namespace holds what makes it a workspace.
func (l *Loop) inUse(namespace string) bool {
	return len(l.caches.Clusters.List(namespace))+len(l.caches.Tokens.List(namespace))+len(l.gitRepos.List(namespace)) > 0
}
