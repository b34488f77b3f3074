package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Bundles whose resources are in a registry name them in spec.contentsId. The
// Secret of that name beside the Bundle says in which registry, and holds what
// it takes to read and write there. Each cluster namespace that needs it gets a
// copy with what it takes to read.

// Registry deletes what is kept in a registry; *oci.Client has it.
type Registry interface {
	Delete(ctx context.Context, r oci.Registry, id string) error
}

const (
	// reasonNoCredential is the reason of a Bundle whose Secret is not there.
	reasonNoCredential = deployment.ReasonNoCredential
	// reasonNotDeleted is the reason of an event about what stays in a registry.
	reasonNotDeleted = "FailedToDeleteOCIArtifact"
	// deletionTime is how long a registry may take to delete something. The manager
	// does not wait longer.
	deletionTime = 30 * time.Second
)

// checkCredential returns a wait if the Secret of a Bundle's registry does not exist.
// The message of a wait is always the same: it must not change without a change of the
// Secret.
func (cc *contentController) checkCredential(b *fleet.Bundle) error {
	if _, ok := cc.cache.secrets.Get(credentialOf(b)); ok {
		return nil
	}
	return reconcile.RequeueError(reasonNoCredential, 0, fmt.Errorf(
		"waits for Secret %q, which says in which registry the files are", b.Spec.ContentsID))
}

// credentialOf returns the key of the Secret with the registry of a Bundle.
func credentialOf(b *fleet.Bundle) kube.Key {
	return kube.Key{Namespace: b.Namespace, Name: b.Spec.ContentsID}
}

// versionOf returns the UID and the resourceVersion of a Secret, which its copies
// record.
func versionOf(m metav1.Object) string { return string(m.GetUID()) + "/" + m.GetResourceVersion() }

// ensureCredentials copies the Secret of the Bundle's registry into the namespaces of
// clusters that are about to need it, or that have an older copy.
func (cc *contentController) ensureCredentials(ctx context.Context, s *snapshot, d *decision) error {
	source, ok := cc.cache.secrets.Get(credentialOf(s.bundle))
	if !ok {
		return cc.checkCredential(s.bundle)
	}
	outdated := slices.DeleteFunc(slices.Clone(d.pairs), func(p *pair) bool {
		if p.place.Namespace == "" || p.write == nothing && p.old == nil {
			return true
		}
		there, ok := cc.cache.secrets.Get(kube.Key{Namespace: p.place.Namespace, Name: source.Name})
		return ok && there.Annotations[fleet.AnnotationInputHash] == versionOf(source)
	})
	if len(outdated) == 0 {
		return nil
	}
	secret, err := cc.secrets.Get(ctx, kube.KeyOf(source))
	if err != nil {
		return err
	}
	data, err := oci.Readable(string(secret.Type), secret.Data)
	if err != nil {
		return fmt.Errorf("read from Secret %q: %w", secret.Name, err)
	}
	for _, p := range outdated {
		err := cc.writeRegistryCopy(ctx, kube.Key{Namespace: p.place.Namespace, Name: secret.Name}, versionOf(secret), data)
		if err != nil && !kube.IsTerminating(err) && !kube.IsGone(err) { // writing the deployment reports these
			return fmt.Errorf("give cluster %q what it takes to read from the registry: %w", p.key, err)
		}
	}
	return nil
}

// writeRegistryCopy writes the copy of a registry's Secret for a cluster.
func (cc *contentController) writeRegistryCopy(ctx context.Context, key kube.Key, version string, data map[string][]byte) error {
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:      map[string]string{fleet.LabelManaged: "true", fleet.LabelInternalSecret: "true"},
			Annotations: map[string]string{fleet.AnnotationInputHash: version},
		},
		Type: fleet.SecretTypeOCIStorage, Data: data,
	}
	_, err := cc.secrets.Create(ctx, want)
	if !kube.IsExists(err) {
		return err
	}
	there, err := cc.secrets.Get(ctx, key)
	if err != nil {
		return err
	}
	if there.Type != fleet.SecretTypeOCIStorage || there.Labels[fleet.LabelInternalSecret] != "true" {
		return reconcile.TerminalError("SecretTaken", fmt.Errorf("there is a Secret %q of type %q, which is not Fleet's", key, there.Type))
	}
	want.ResourceVersion = there.ResourceVersion
	_, err = cc.secrets.Update(ctx, want)
	return err
}

// isRegistrySecret reports whether a Secret holds the location and credentials of
// content in a registry.
func isRegistrySecret(m *metav1.PartialObjectMetadata) bool {
	return m.Labels[fleet.LabelInternalSecret] == "true" && m.Labels[fleet.LabelCarried] == ""
}

// isRegistryCopy reports whether a registry's Secret is a copy for a cluster.
func isRegistryCopy(m *metav1.PartialObjectMetadata) bool {
	_, ok := m.Annotations[fleet.AnnotationInputHash]
	return ok
}

// onCredential handles a change of a registry's Secret. It returns false for all other
// Secrets.
func (cc *contentController) onCredential(m *metav1.PartialObjectMetadata, gone bool) bool {
	if !isRegistrySecret(m) {
		return false
	}
	if !isRegistryCopy(m) || gone && cc.table.Holders(m.Name)[m.Namespace] {
		cc.enqueueBundles(cc.table.BundlesWithContent(m.Name))
	}
	cc.contentQueue.Add(kube.Key{Name: m.Name})
	return true
}

// reconcileCredentials deletes the copies of a registry's Secret where no deployment
// needs them. It also deletes from the registry what is no longer needed, together with
// its Secret.
func (cc *contentController) reconcileCredentials(ctx context.Context, id string) (kube.Result, error) {
	var next kube.Result
	var errs []error
	holders := cc.table.Holders(id)
	for _, m := range cc.cache.secrets.List("") {
		if m.Name != id || !isRegistrySecret(m) || !isRegistryCopy(m) && !cc.cfg.Scope.Takes(m.Namespace, m.Labels) {
			continue
		}
		left := cc.credentialNeeded(m, holders[m.Namespace])
		if left == 0 {
			errs = append(errs, cc.dropCredential(ctx, m))
		} else if left > 0 && (next.After == 0 || left < next.After) {
			next.After = left
		}
	}
	return next, errors.Join(errs...)
}

// credentialNeeded returns how long a registry's Secret is still needed; 0: it can be
// deleted; negative: it is needed until an event. used reports whether a deployment in
// the namespace of a copy has the content. A copy is deleted with the last deployment
// of its namespace, unless a Bundle names the content: then a deployment may be about
// to be written. An original is needed by the Bundles of its namespace that name the
// content, and by those with a deployment that has it.
func (cc *contentController) credentialNeeded(m *metav1.PartialObjectMetadata, used bool) time.Duration {
	key := kube.KeyOf(m).String()
	naming := cc.table.BundlesWithContent(m.Name)
	if !isRegistryCopy(m) {
		used = slices.ContainsFunc(naming, func(k kube.Key) bool { return k.Namespace == m.Namespace }) ||
			cc.table.Workspaces(m.Name)[m.Namespace]
	}
	if used {
		cc.idle.setUnused(key, "", time.Time{})
		return -1
	}
	since := cc.idle.setUnused(key, m.ResourceVersion, cc.now())
	if isRegistryCopy(m) && len(naming) == 0 {
		return 0
	}
	return max(0, contentGrace-cc.now().Sub(since))
}

// dropCredential deletes a registry's Secret. For an original it first deletes the
// artifact in the registry.
func (cc *contentController) dropCredential(ctx context.Context, m *metav1.PartialObjectMetadata) error {
	if !isRegistryCopy(m) {
		secret, err := cc.secrets.Get(ctx, kube.KeyOf(m))
		if kube.IsGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := cc.deleteArtifact(ctx, secret); err != nil {
			if reconcile.IsRequeue(err) {
				return err
			}
			cc.log.WithField("content", m.Name).WithField("workspace", m.Namespace).WithField("error", err.Error()).Warn("artifact not deleted")
		}
	}
	err := cc.secrets.Delete(ctx, kube.KeyOf(m), kube.Precondition{UID: m.UID, ResourceVersion: m.ResourceVersion})
	if kube.IsConflict(err) {
		return nil // the watch reports it
	}
	return err
}

// deleteBundleArtifact deletes the artifact of a deleted Bundle from its registry. If
// another Bundle of the namespace names or runs it, reconcileCredentials deletes it
// later. An error is reported and does not block the deletion.
func (cc *contentController) deleteBundleArtifact(ctx context.Context, b *fleet.Bundle) error {
	id := b.Spec.ContentsID
	if id == "" {
		return nil
	}
	shared := cc.table.Workspaces(id)[b.Namespace] || slices.ContainsFunc(cc.table.BundlesWithContent(id), func(k kube.Key) bool {
		return k.Namespace == b.Namespace && k.Name != b.Name && cc.bundleExists(k)
	})
	secret, err := cc.secrets.Get(ctx, credentialOf(b))
	if shared || kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := cc.deleteArtifact(ctx, secret); err != nil {
		cc.events.Event(b, kube.Warning, reasonNotDeleted, err.Error())
		cc.logFor(kube.KeyOf(b)).WithField("error", err.Error()).Warn("artifact not deleted")
	}
	if secret.Labels[fleet.LabelInternalSecret] != "true" {
		return nil // it belongs to another owner
	}
	return cc.secrets.Delete(ctx, kube.KeyOf(secret), kube.Precondition{UID: secret.UID})
}

// bundleExists reports whether a Bundle exists and is not being deleted.
func (cc *contentController) bundleExists(key kube.Key) bool {
	b, ok := cc.table.Bundle(key)
	return ok && b.DeletionTimestamp == nil
}

// deleteArtifact deletes from a registry the artifact that a Secret locates, unless
// another namespace needs the artifact.
func (cc *contentController) deleteArtifact(ctx context.Context, secret *corev1.Secret) error {
	id := secret.Name
	storage, err := oci.StorageOf(string(secret.Type), secret.Data)
	if err != nil {
		return err
	}
	others := cc.table.Workspaces(id)
	for _, k := range cc.table.BundlesWithContent(id) {
		if cc.bundleExists(k) {
			others[k.Namespace] = true
		}
	}
	delete(others, secret.Namespace)
	for namespace := range others {
		other, err := cc.secrets.Get(ctx, kube.Key{Namespace: namespace, Name: id})
		if kube.IsGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find out who else needs %s: %w", storage.Artifact(id), err)
		}
		if theirs, err := oci.StorageOf(string(other.Type), other.Data); err == nil && theirs.Artifact(id) == storage.Artifact(id) {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, deletionTime)
	defer cancel()
	if err := cc.cfg.Registry.Delete(ctx, storage.Write(), id); err != nil {
		return fmt.Errorf("delete %s: %w", storage.Artifact(id), err)
	}
	return nil
}
