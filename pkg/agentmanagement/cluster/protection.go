package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// holdProtected reports whether a protected Cluster that is being deleted must stay
// until a user approves its deletion. In a namespace that is being deleted the decision
// about the workspace applies instead.
func (l *Loop) holdProtected(ctx context.Context, c *fleet.Cluster) (bool, error) {
	if !withdrawal.IsProtected(c) || !slices.Contains(c.Finalizers, fleet.FinalizerCluster) {
		return false, nil
	}
	if ends, err := l.cfg.Terminating.IsDeleted(ctx, c.Namespace); ends || err != nil {
		return false, err
	}
	v := withdrawal.DecideProtected(withdrawal.Removal{
		Unit: "cluster", Total: len(l.caches.Clusters.List(c.Namespace)), Deleted: c.UID, Approved: c.Annotations[fleet.AnnotationApproveDeletion],
		Items: []withdrawal.Item{{Name: c.Name, UID: c.UID}},
	}, "the Cluster is protected; what runs there would stay")
	if v.Approved {
		changed := c.DeepCopy()
		changed.Annotations = withdrawal.Unprotected(c.Annotations)
		if _, err := l.clusters.Patch(ctx, c, changed); err != nil && !kube.IsGone(err) {
			return true, err
		}
		l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", "approved as "+v.Hash).Info("deletion goes on")
		return true, nil // its change enqueues the Cluster
	}
	return true, l.reportHeld(ctx, c, v)
}

// reportHeld reports on a Cluster that its deletion waits for an approval.
func (l *Loop) reportHeld(ctx context.Context, c *fleet.Cluster, v withdrawal.Verdict) error {
	before := c.Annotations[fleet.AnnotationDeletionHeld]
	listed := c.DeepCopy()
	listed.Annotations[fleet.AnnotationDeletionHeld] = v.Text()
	got, err := l.clusters.Patch(ctx, c, listed)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	message := v.Message(fmt.Sprintf("fleet approve -n %s cluster/%s %s", c.Namespace, c.Name, v.Hash))
	if hash, _, _ := withdrawal.ReadText(before); hash != v.Hash {
		l.events.Event(c, kube.Warning, fleet.ReasonDeletionHeld, message)
		l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", v.Summary).Info("deletion held")
	}
	said := got.DeepCopy()
	said.Status.Conditions = condition.Set(said.Status.Conditions, fleet.Condition{
		Type: fleet.ConditionDeletionHeld, Status: corev1.ConditionTrue, ObservedGeneration: c.Generation,
		Reason: fleet.ReasonProtected, Message: message,
	}, l.cfg.Now())
	_, err = l.clusters.PatchStatus(ctx, got, said)
	if kube.IsGone(err) {
		return nil
	}
	return err
}
