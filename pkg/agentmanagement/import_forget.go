package agentmanagement

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// forget deletes what an agent that is gone has written for itself: its credential, its
// lease, its records of what it has accepted, and its reports. Objects without a mark
// are deleted if the agent is known to have been this Cluster's. What it has deployed
// stays, and so do Helm's records of that.
func (d *downstream) forget(ctx context.Context, a registration.Agent, known bool) error {
	secrets := append([]string{fleet.SecretAgent, fleet.SecretAgentBootstrap}, a.ImagePullSecrets...)
	for i, name := range secrets {
		own := known && i < 2 // image pull secrets without a mark belong to others
		if err := forgetOne(ctx, d, d.secrets, kube.Key{Namespace: a.Namespace, Name: name}, own); err != nil {
			return err
		}
	}
	if !known {
		return nil
	}
	lease := kube.Key{Namespace: a.Namespace, Name: fleet.SecretAgent}
	if err := forgetOne(ctx, d, kube.StoreOf[*coordinationv1.Lease](d.client), lease, true); err != nil {
		return err
	}
	for _, name := range []string{fleet.ConfigMapAgentContact, fleet.ConfigMapAgentJournal} {
		if err := forgetOne(ctx, d, kube.StoreOf[*corev1.ConfigMap](d.client), kube.Key{Namespace: a.Namespace, Name: name}, true); err != nil {
			return err
		}
	}
	records := kube.Watch{
		Namespace: a.Namespace, Labels: fleet.LabelManagerID + "=" + d.mark.Manager, Fields: "type=" + string(fleet.SecretTypeAgentStore),
	}
	kept, err := d.client.ListMeta(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), records)
	if err != nil {
		return err
	}
	for _, s := range kept {
		if err := d.secrets.Delete(ctx, kube.KeyOf(s), kube.Exactly(s)); err != nil {
			return err
		}
	}
	return nil
}

// forgetOne deletes one object, unless it belongs to another owner.
func forgetOne[P kube.Object](ctx context.Context, d *downstream, store *kube.Store[P], key kube.Key, known bool) error {
	have, err := store.Get(ctx, key)
	if err != nil {
		return kube.IgnoreGone(err)
	}
	if d.mark.Foreign(have, known) != "" {
		return nil
	}
	return store.Delete(ctx, key, kube.Exactly(have))
}
