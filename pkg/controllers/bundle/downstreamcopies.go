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

// copyKey returns the key of a copy in copyQueue: its namespace, and its kind and name.
func copyKey(namespace string, one deployment.Source) kube.Key {
	return kube.Key{Namespace: namespace, Name: one.Kind + "/" + one.Name}
}

// A copyController copies the Secrets and ConfigMaps of downstreamResources, and
// credentials of charts, into the namespaces of clusters, and deletes the copies that
// no deployment names.
type copyController struct {
	*base
	secrets    *kube.Store[*corev1.Secret]
	configMaps *kube.Store[*corev1.ConfigMap]
	sources    *sources
	pairs      *pairState
}

// enqueueCopies enqueues the copies that a deployment no longer names, and, after
// copyGrace, those that it has begun to name.
func (c *copyController) enqueueCopies(old, changed *fleet.BundleDeployment) {
	before, after := copiesOf(old), copiesOf(changed)
	for _, one := range before {
		if !slices.Contains(after, one) {
			c.copyQueue.Add(copyKey(old.Namespace, one))
		}
	}
	for _, one := range after {
		if !slices.Contains(before, one) {
			c.copyQueue.AddAfter(copyKey(changed.Namespace, one), copyGrace)
		}
	}
}

// copiesOf returns the sources that a deployment names.
func copiesOf(bd *fleet.BundleDeployment) []deployment.Source {
	if bd == nil {
		return nil
	}
	return deployment.CarriedBy(&bd.Spec.Options, bd.Spec.HelmChartOptions)
}

// onCopy enqueues a copy that was deleted: a deployment may need it.
func (c *copyController) onCopy(kind string, old, changed *metav1.PartialObjectMetadata) {
	if changed == nil {
		c.copyQueue.Add(copyKey(old.Namespace, deployment.Source{Kind: kind, Name: old.Name}))
	}
}

// enqueueAllCopies enqueues all copies that exist when the manager starts.
func (c *copyController) enqueueAllCopies() {
	for _, kind := range []string{deployment.KindSecret, deployment.KindConfigMap} {
		for _, m := range c.copyCache(kind).List("") {
			if isCopy(m) {
				c.copyQueue.AddAfter(copyKey(m.Namespace, deployment.Source{Kind: kind, Name: m.Name}), copyGrace)
			}
		}
	}
}

// reconcileCopy deletes a copy that no deployment of its namespace names, or that may
// no longer be copied. If a copy is missing, it makes the Bundle's controller write the
// copy again.
func (c *copyController) reconcileCopy(ctx context.Context, key kube.Key) (kube.Result, error) {
	kind, name, _ := strings.Cut(key.Name, "/")
	one := deployment.Source{Kind: kind, Name: name}
	there, ok := c.copyCache(kind).Get(kube.Key{Namespace: key.Namespace, Name: name})
	var users []*fleet.BundleDeployment
	for _, bd := range c.cache.deployments.List(key.Namespace) {
		if slices.Contains(copiesOf(bd), one) && !c.isWithheld(bd, one) {
			users = append(users, bd)
		}
	}
	switch {
	case len(users) > 0 && !ok:
		for _, bd := range users {
			if bundle, _, wanted := c.table.PairOf(kube.KeyOf(bd)); wanted && bd.Annotations[fleet.AnnotationWithdrawn] == "" {
				c.pairs.markStale(kube.KeyOf(bd))
				c.bundleQueue.Add(bundle)
			}
		}
		return kube.Done, nil
	case len(users) > 0 || !ok || !isCopy(there):
		return kube.Done, nil
	}
	p := kube.Precondition{UID: there.UID, ResourceVersion: there.ResourceVersion}
	var err error
	if kind == deployment.KindConfigMap {
		err = c.configMaps.Delete(ctx, kube.KeyOf(there), p)
	} else {
		err = c.secrets.Delete(ctx, kube.KeyOf(there), p)
	}
	if kube.IsConflict(err) {
		return kube.Result{After: copyGrace}, nil // the copy was written just now
	}
	return kube.Done, err
}
