// Package installation keeps the identity of a manager in its cluster: an id
// that is made once, and an epoch that grows when the objects of the manager
// turn up in another cluster.
package installation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/identifier"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// attempts is how often two managers that start at once try to agree.
const attempts = 5

// Ensure reads, creates or updates ConfigMap fleet-installation of a namespace, and
// returns its content. Several processes may call it at once and get the same result. A
// process calls it before it acquires a lease.
func Ensure(ctx context.Context, c *kube.Client, namespace string) (registration.Installation, error) {
	c = c.Loop("installation")
	system, err := kube.StoreOf[*corev1.Namespace](c).Get(ctx, kube.Key{Name: "kube-system"})
	if err != nil {
		return registration.Installation{}, fmt.Errorf("identify the cluster: %w", err)
	}
	maps := kube.StoreOf[*corev1.ConfigMap](c)
	for range attempts {
		var i registration.Installation
		if i, err = ensureOnce(ctx, maps, namespace, string(system.UID)); err == nil {
			return i, nil
		}
		if !kube.IsConflict(err) && !kube.IsExists(err) {
			break
		}
	}
	return registration.Installation{}, fmt.Errorf("identify the installation: %w", err)
}

// ensureOnce is one try of Ensure.
func ensureOnce(ctx context.Context, maps *kube.Store[*corev1.ConfigMap], namespace, clusterUID string) (registration.Installation, error) {
	key := kube.Key{Namespace: namespace, Name: fleet.ConfigMapInstallation}
	have, err := maps.Get(ctx, key)
	if err != nil && !kube.IsGone(err) {
		return registration.Installation{}, err
	}
	var data map[string]string
	if have != nil {
		data = have.Data
	}
	i, reason := registration.Identify(data, clusterUID, identifier.New(8))
	switch {
	case reason == "":
		return i, nil
	case have == nil:
		_, err = maps.Create(ctx, i.ConfigMap(namespace))
	default:
		changed := have.DeepCopy()
		want := i.ConfigMap(namespace)
		changed.Labels, changed.Data = want.Labels, want.Data
		_, err = maps.Patch(ctx, have, changed)
	}
	return i, err
}
