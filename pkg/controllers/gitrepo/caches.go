package gitrepo

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/policycache"
	"github.com/fleetworkspace/fleet/pkg/controllers/rancherca"
	"github.com/fleetworkspace/fleet/pkg/controllers/secretcache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Indexes of caches.
const (
	bySecret = "secret" // GitRepos by "namespace/name" of their Secrets
	byRepo   = "repo"   // Bundles by "namespace/name" of their GitRepo
)

// makeCaches makes the caches that the worker reads.
func (w *Worker) makeCaches(c *kube.Client) {
	w.cache.repos = kube.NewCache(c, kube.Watch{}, stripRepo)
	w.cache.repos.Index(bySecret, func(r *fleet.GitRepo) []string {
		var keys []string
		for _, key := range secretKeys(r) {
			keys = append(keys, key.String())
		}
		return keys
	})
	w.cache.bundles = kube.NewMetaCache(c, fleet.GroupVersion.WithKind("Bundle"), kube.Watch{}, stripBundle)
	w.cache.bundles.Index(byRepo, func(b *metav1.PartialObjectMetadata) []string {
		return []string{kube.Key{Namespace: b.Namespace, Name: b.Labels[fleet.LabelRepoName]}.String()}
	})
	w.cache.secrets = secretcache.New(c)
	w.cache.config = kube.NewCache(c, kube.Watch{Namespace: w.cfg.Namespace}, stripConfigMap)
	w.cache.limits = policycache.New(c)
}

// stripRepo drops the status fields that the controller role writes and this package
// does not read.
func stripRepo(r *fleet.GitRepo) {
	delete(r.Annotations, annotationApplied)
	r.Status.Resources, r.Status.PerClusterResourceCounts = nil, nil
	r.Status.Summary = fleet.BundleSummary{}
}

const annotationApplied = "kubectl.kubernetes.io/last-applied-configuration"

func stripMeta(m *metav1.PartialObjectMetadata) { m.Annotations, m.OwnerReferences = nil, nil }

// stripConfigMap drops the data of ConfigMaps that this package does not read.
func stripConfigMap(m *corev1.ConfigMap) {
	if !slices.Contains([]string{fleet.ConfigMapBrake, fleet.ConfigMapKnownHosts, fleet.ConfigMapInstallation}, m.Name) {
		m.Data, m.BinaryData = nil, nil
	}
}

// addHandlers makes the watches enqueue the GitRepos that they affect.
func (w *Worker) addHandlers() {
	w.cache.repos.OnChange(func(old, changed *fleet.GitRepo) {
		switch {
		case changed == nil:
			w.loop.Add(kube.KeyOf(old))
		case old == nil:
			w.loop.Add(kube.KeyOf(changed))
		case old.Generation != changed.Generation, old.DeletionTimestamp.IsZero() != changed.DeletionTimestamp.IsZero(),
			withdrawal.IsProtected(old) != withdrawal.IsProtected(changed),
			old.Annotations[fleet.AnnotationDeletionBudget] != changed.Annotations[fleet.AnnotationDeletionBudget], !sameLabels(old, changed), !slices.Equal(old.Finalizers, changed.Finalizers),
			gitrepo.Announcement(old.Status) != gitrepo.Announcement(changed.Status):
			w.loop.AddFirst(kube.KeyOf(changed)) // the object has just changed
		}
	})
	w.cache.secrets.OnChange(w.onSecretChanged)
	w.cache.bundles.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		if changed == nil {
			w.onBundleDeleted(old)
		}
	})
	w.cache.config.OnChange(func(old, changed *corev1.ConfigMap) {
		m := changed
		if m == nil {
			m = old
		}
		if m.Name == fleet.ConfigMapBrake || m.Name == fleet.ConfigMapKnownHosts {
			w.enqueueAll("")
		}
	})
	w.cache.limits.OnChange(w.enqueueAll)
}

// onSecretChanged enqueues the GitRepos that use a Secret.
func (w *Worker) onSecretChanged(old, changed *metav1.PartialObjectMetadata) {
	m := changed
	if m == nil {
		m = old
	}
	if old != nil && changed != nil && old.ResourceVersion == changed.ResourceVersion {
		return
	}
	for _, r := range w.cache.repos.ByIndex(bySecret, kube.KeyOf(m).String()) {
		w.loop.AddFirst(kube.KeyOf(r))
	}
	if rancherca.IsSecret(kube.KeyOf(m)) {
		w.enqueueAll("")
	}
}

// enqueueAll enqueues all GitRepos of a namespace; of all namespaces if namespace is
// empty.
func (w *Worker) enqueueAll(namespace string) {
	for _, r := range w.cache.repos.List(namespace) {
		w.loop.Add(kube.KeyOf(r))
	}
}

// managerID returns the id of this installation, under which contents are written.
// Another process creates it.
func (w *Worker) managerID(context.Context) (string, error) {
	if m, ok := w.cache.config.Get(kube.Key{Namespace: w.cfg.Namespace, Name: fleet.ConfigMapInstallation}); ok {
		if id := m.Labels[fleet.LabelManagerID]; id != "" {
			return id, nil
		}
	}
	return "", reconcile.RequeueError(fleet.ReasonProgressing, 0, errors.New("the manager of this installation has not started yet"))
}

// bundlesNamed finds Bundles by name in the cache.
func (w *Worker) bundlesNamed(_ context.Context, namespace string, names []string) ([]metav1.Object, error) {
	var list []metav1.Object
	for _, name := range names {
		if b, ok := w.cache.bundles.Get(kube.Key{Namespace: namespace, Name: name}); ok {
			list = append(list, b)
		}
	}
	return list, nil
}

// onBundleDeleted enqueues GitRepos after a Bundle was deleted: its own, which writes
// the Bundle again if another client has deleted it; one that needs the name; and one
// that waits for the deletion of its Bundles.
func (w *Worker) onBundleDeleted(b *metav1.PartialObjectMetadata) {
	ours := w.memories.takeRemoved(b.UID)
	for _, repo := range w.cache.repos.List(b.Namespace) {
		if !w.cfg.Scope.Owns(repo) {
			continue
		}
		key := kube.KeyOf(repo)
		owner := repo.Name == b.Labels[fleet.LabelRepoName]
		if owner && !ours && !prunedByRepo(repo, b) || slices.Contains(w.memories.get(key, repo.UID).taken, b.Name) {
			w.memories.update(key, repo.UID, func(m *memory) { m.lost = true })
			w.loop.Add(key)
		}
		if owner {
			w.loop.Add(key)
		}
	}
}

func sameLabels(a, b *fleet.GitRepo) bool {
	if len(a.Labels) != len(b.Labels) {
		return false
	}
	for k, v := range a.Labels {
		if other, ok := b.Labels[k]; !ok || other != v {
			return false
		}
	}
	return true
}
