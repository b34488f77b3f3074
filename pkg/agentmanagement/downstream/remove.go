package downstream

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// podsGoing is how long the pods of an agent that moves are waited for before it
// is looked again.
const podsGoing = 2 * time.Second

// Move removes the agent that a Cluster had in another namespace. The error is a
// reconcile.RequeueAfter while its pods are terminating.
func (cl *Cluster) Move(ctx context.Context, o Order) error {
	if o.From == "" {
		return nil
	}
	old := o.Agent
	old.Namespace = o.From
	gone, err := cl.removeFormerAgent(ctx, old)
	if err == nil && !gone {
		err = reconcile.RequeueError(fleet.ReasonProgressing, podsGoing, fmt.Errorf("move the agent: its pods in namespace %q are going", o.From))
	}
	return err
}

// removeFormerAgent removes the agent that a Cluster had in another namespace: first
// its workload, then its records, then its rights. It returns false while its pods are
// terminating. What the agent has deployed stays.
func (cl *Cluster) removeFormerAgent(ctx context.Context, a registration.Agent) (bool, error) {
	known, err := cl.isOwnAgent(ctx, a.Namespace)
	if err != nil {
		return false, err
	}
	all, err := cl.agentObjects(a, "")
	if err != nil {
		return false, err
	}
	ours := map[agentObject]bool{}
	for _, t := range all {
		foreign, err := t.readOwner(ctx, cl.Mark, known)
		if err != nil {
			return false, err
		}
		ours[t] = foreign == ""
	}
	last := all[len(all)-1] // the Deployment
	if !ours[last] {
		return true, nil // another agent runs there; its own objects stay
	}
	if err := last.remove(ctx); err != nil {
		return false, err
	}
	pods, err := cl.pods.List(ctx, a.Namespace, "app="+fleet.SecretAgent)
	if err != nil || len(pods) > 0 {
		return false, err
	}
	// Its account is deleted last: while that exists and bears the mark, objects
	// without a mark were this agent's as well.
	known = known || ours[all[0]] && all[0].hasMarkOf(cl.Mark.Manager)
	if err := cl.deleteRecords(ctx, a, known); err != nil {
		return false, err
	}
	for i := len(all) - 2; i >= 0; i-- {
		if ours[all[i]] && !all[i].optional() { // other pods may depend on the NetworkPolicy
			if err := all[i].remove(ctx); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// deleteRecords deletes what a removed agent has written for itself: its credential,
// its lease, its records and its reports. If known, the agent was this Cluster's, and
// objects without a mark are deleted too. What it has deployed stays, with the records
// of Helm.
func (cl *Cluster) deleteRecords(ctx context.Context, a registration.Agent, known bool) error {
	secrets := append([]string{fleet.SecretAgent, fleet.SecretAgentBootstrap}, a.ImagePullSecrets...)
	for i, name := range secrets {
		own := known && i < 2 // image pull secrets without a mark belong to others
		if err := deleteRecord(ctx, cl, cl.secrets, kube.Key{Namespace: a.Namespace, Name: name}, own); err != nil {
			return err
		}
	}
	if !known {
		return nil
	}
	lease := kube.Key{Namespace: a.Namespace, Name: fleet.SecretAgent}
	if err := deleteRecord(ctx, cl, kube.StoreOf[*coordinationv1.Lease](cl.Client), lease, true); err != nil {
		return err
	}
	for _, name := range []string{fleet.ConfigMapAgentContact, fleet.ConfigMapAgentJournal} {
		if err := deleteRecord(ctx, cl, kube.StoreOf[*corev1.ConfigMap](cl.Client), kube.Key{Namespace: a.Namespace, Name: name}, true); err != nil {
			return err
		}
	}
	records := kube.Watch{
		Namespace: a.Namespace, Labels: fleet.LabelManagerID + "=" + cl.Mark.Manager, Fields: "type=" + string(fleet.SecretTypeAgentStore),
	}
	kept, err := cl.Client.ListMeta(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), records)
	if err != nil {
		return err
	}
	for _, s := range kept {
		if err := cl.secrets.Delete(ctx, kube.KeyOf(s), kube.Exactly(s)); err != nil {
			return err
		}
	}
	return nil
}

// deleteRecord deletes one object, unless it belongs to another owner.
func deleteRecord[P kube.Object](ctx context.Context, d *Cluster, store *kube.Store[P], key kube.Key, known bool) error {
	have, err := store.Get(ctx, key)
	if err != nil {
		return kube.IgnoreGone(err)
	}
	if d.Mark.ForeignOwner(have, known) != "" {
		return nil
	}
	return store.Delete(ctx, key, kube.Exactly(have))
}
