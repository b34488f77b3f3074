package bundle

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
)

// portKey is the key of a source in the controller of copies.
func portKey(namespace string, one deployment.Source) kube.Key {
	return kube.Key{Namespace: namespace, Name: one.Kind + "/" + one.Name}
}

// A copyController keeps the copies of Secrets and ConfigMaps that deployments take along.
type copyController struct {
	*base
	secrets    *kube.Store[*corev1.Secret]
	configMaps *kube.Store[*corev1.ConfigMap]
	sources    *sources
	pairs      *pairState
}

// recarry enqueues the copies that a deployment no longer names, and, after a delay,
// those that it names now.
func (e *copyController) recarry(old, changed *fleet.BundleDeployment) {
	before, after := carriedBy(old), carriedBy(changed)
	for _, one := range before {
		if !slices.Contains(after, one) {
			e.copyQueue.Add(portKey(old.Namespace, one))
		}
	}
	for _, one := range after {
		if !slices.Contains(before, one) {
			e.copyQueue.AddAfter(portKey(changed.Namespace, one), carriedGrace)
		}
	}
}

func carriedBy(bd *fleet.BundleDeployment) []deployment.Source {
	if bd == nil {
		return nil
	}
	return deployment.CarriedBy(&bd.Spec.Options, bd.Spec.HelmChartOptions)
}

// onCarried notes that a copy is gone that may be needed.
func (e *copyController) onCarried(kind string, old, changed *metav1.PartialObjectMetadata) {
	if changed == nil {
		e.copyQueue.Add(portKey(old.Namespace, deployment.Source{Kind: kind, Name: old.Name}))
	}
}

// sweepCarried looks at everything that is there at the start.
func (e *copyController) sweepCarried() {
	for _, kind := range []string{deployment.KindSecret, deployment.KindConfigMap} {
		for _, m := range e.copies(kind).List("") {
			if isCarried(m) {
				e.copyQueue.AddAfter(portKey(m.Namespace, deployment.Source{Kind: kind, Name: m.Name}), carriedGrace)
			}
		}
	}
}

// reconcileCarried deletes a copy that no deployment of its namespace names, or that
// may no longer be copied. It has a missing copy written again.
func (e *copyController) reconcileCarried(ctx context.Context, key kube.Key) (kube.Result, error) {
	kind, name, _ := strings.Cut(key.Name, "/")
	one := deployment.Source{Kind: kind, Name: name}
	there, ok := e.copies(kind).Get(kube.Key{Namespace: key.Namespace, Name: name})
	var users []*fleet.BundleDeployment
	for _, bd := range e.cache.deployments.List(key.Namespace) {
		if slices.Contains(carriedBy(bd), one) && !e.refuses(bd, one) {
			users = append(users, bd)
		}
	}
	switch {
	case len(users) > 0 && !ok:
		for _, bd := range users {
			if bundle, _, wanted := e.table.PairOf(kube.KeyOf(bd)); wanted && bd.Annotations[fleet.AnnotationWithdrawn] == "" {
				e.pairs.markStale(kube.KeyOf(bd))
				e.bundleQueue.Add(bundle)
			}
		}
		return kube.Done, nil
	case len(users) > 0 || !ok || !isCarried(there):
		return kube.Done, nil
	}
	p := kube.Precondition{UID: there.UID, ResourceVersion: there.ResourceVersion}
	var err error
	if kind == deployment.KindConfigMap {
		err = e.configMaps.Delete(ctx, kube.KeyOf(there), p)
	} else {
		err = e.secrets.Delete(ctx, kube.KeyOf(there), p)
	}
	if kube.IsConflict(err) {
		return kube.Result{After: carriedGrace}, nil // it was written just now
	}
	return kube.Done, err
}
