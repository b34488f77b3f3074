// Package ensure creates objects that are missing and patches those that differ. An
// object that is as desired costs no write.
//
// It is used instead of wrangler's apply, which finds objects by labels and annotations
// of its own. Objects may come from rancher/fleet, which does not set them.
package ensure

import (
	"bytes"
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Source is a place where an object may be known without asking: a cache.
type Source[P kube.Object] interface {
	Get(kube.Key) (P, bool)
}

// Unseen is the Source of objects whose content no cache holds.
type Unseen[P kube.Object] struct{}

// Get returns nothing.
func (Unseen[P]) Get(kube.Key) (none P, found bool) { return none, false }

// Object creates an object, or patches an existing one that differs. copyOver copies
// the compared fields besides metadata from want into have.
func Object[P kube.Object](ctx context.Context, known Source[P], store *kube.Store[P], want P, copyOver func(have, want P)) error {
	have, ok := known.Get(kube.KeyOf(want))
	if !ok {
		_, err := store.Create(ctx, want)
		if !kube.IsExists(err) {
			return err
		}
		if have, err = store.Get(ctx, kube.KeyOf(want)); err != nil {
			return err
		}
	}
	changed := have.DeepCopyObject().(P)
	changed.SetLabels(Merged(have.GetLabels(), want.GetLabels()))
	changed.SetAnnotations(Merged(have.GetAnnotations(), want.GetAnnotations()))
	if refs := want.GetOwnerReferences(); len(refs) > 0 {
		changed.SetOwnerReferences(refs)
	}
	copyOver(changed, want)
	_, err := store.Patch(ctx, have, changed)
	return err
}

// Merged returns have overlaid with want; have itself if want adds nothing.
func Merged(have, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil && len(want) > 0 {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

// Secret writes a Secret unless one with the same data exists.
func Secret(ctx context.Context, secrets *kube.Store[*corev1.Secret], want *corev1.Secret) error {
	have, err := secrets.Get(ctx, kube.KeyOf(want))
	if kube.IsGone(err) {
		_, err = secrets.Create(ctx, want)
		return err
	}
	if err != nil {
		return err
	}
	changed := have.DeepCopy()
	changed.Labels = Merged(have.Labels, want.Labels)
	if !maps.EqualFunc(have.Data, want.Data, bytes.Equal) {
		changed.Data = want.Data
	}
	_, err = secrets.Patch(ctx, have, changed)
	return err
}

// Namespace creates a namespace if it does not exist.
func Namespace(ctx context.Context, namespaces *kube.Store[*corev1.Namespace], name string, labels map[string]string) error {
	if _, err := namespaces.Get(ctx, kube.Key{Name: name}); !kube.IsGone(err) {
		return err
	}
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	if kube.IsExists(err) {
		return nil
	}
	return err
}
