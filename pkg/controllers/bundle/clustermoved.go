package bundle

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

const (
	// movedRetry is when a cluster that has moved is looked at again if something
	// blocks it that sends no event.
	movedRetry = 2 * time.Second
	// movedEvent is the reason of the event about what is withdrawn after a move.
	movedEvent = "Withdrawing"
)

// A moveController withdraws, from clusters that have moved to another workspace, what the new
// one does not deploy.
type moveController struct {
	*base
	clusters    *kube.Store[*fleet.Cluster]
	deployments *kube.Store[*fleet.BundleDeployment]
}

// onMoved enqueues Clusters whose remaining deployments must be withdrawn in another
// workspace.
func (m *moveController) onMoved(_, c *fleet.Cluster) {
	if c != nil && hasOpenMove(c) {
		m.moveQueue.Add(kube.KeyOf(c))
	}
}

// hasOpenMove reports whether a Cluster has an order to withdraw the rest of a move
// that was not carried out yet.
func hasOpenMove(c *fleet.Cluster) bool {
	order := c.Annotations[workspace.AnnotationWithdrawIn]
	return order != "" && order != c.Annotations[workspace.AnnotationWithdrawnIn]
}

// reconcileMoved orders the withdrawal of what a cluster had in its former workspace
// and the new one does not deploy.
//
//  1. gather: the old deployments live, and what the new workspace has or wants, from the table
//  2. decide: withdrawal.Moved (pure)
//  3. apply:  withdrawn deployments in the namespace of the new Cluster
//  4. report: an annotation on the old Cluster, which may be deleted then
func (m *moveController) reconcileMoved(ctx context.Context, key kube.Key) (kube.Result, error) {
	old, ok := m.table.Cluster(key)
	if !ok || !hasOpenMove(old) || !m.cfg.Scope.Owns(old) {
		return kube.Done, nil
	}
	to := kube.ParseKey(old.Annotations[workspace.AnnotationWithdrawIn])
	c, ok := m.table.Cluster(to)
	if !ok {
		return kube.Done, nil // the Cluster does not move any more; the agentmanagement role handles that
	}
	place, ok := registration.DeploymentNamespace(c)
	agent, known := m.table.AgentOf(to)
	from, had := registration.DeploymentNamespace(old)
	hold := m.suspension()
	switch {
	case !ok || !known || agent.Life == summary.NeverSeen || hold != "" || !m.table.Settled():
		return kube.Result{After: movedRetry}, nil
	case !had || agent.Protocol == 0: // such an agent removes releases without a deployment
		return kube.Done, m.movedAway(ctx, old, to, departed{why: "nothing was deployed before, or its agent removes by itself what is not deployed there"})
	}
	list, err := m.deployments.List(ctx, from, "")
	if err != nil {
		return kube.Done, err
	}
	list = slices.DeleteFunc(list, func(bd *fleet.BundleDeployment) bool { // others' targets are unknown here
		return !m.cfg.Scope.Takes(bd.Labels[fleet.LabelBundleNamespace], bd.Labels)
	})
	rest := withdrawal.Moved(list,
		withdrawal.Place{Workspace: key.Namespace, Cluster: key.Name, Namespace: from},
		withdrawal.Place{Workspace: to.Namespace, Cluster: to.Name, Namespace: place},
		func(name string) bool { return m.wantedOn(to, place, name) }, rand.Text)
	var names []string
	for _, bd := range rest {
		got, err := m.deployments.Create(ctx, bd)
		if kube.IsExists(err) {
			continue // it is still targeted
		}
		if err != nil {
			return kube.Done, fmt.Errorf("withdraw %q from cluster %q: %w", bd.Name, to, err)
		}
		m.stripDeployment(got)
		m.enqueue(m.table.SetDeployment(got))
		names = append(names, bd.Name)
	}
	return kube.Done, m.movedAway(ctx, old, to, departed{names, "it has or gets all that workspace " + key.Namespace + " has deployed"})
}

// departed lists the deployments to withdraw from the new place of a cluster that has
// moved, or says why there are none.
type departed struct {
	names []string
	why   string
}

// wantedOn reports whether a cluster has a deployment, or is to get it.
func (m *moveController) wantedOn(cluster kube.Key, namespace, name string) bool {
	if _, there := m.table.Deployment(kube.Key{Namespace: namespace, Name: name}); there {
		return true
	}
	return m.table.IsDesired(cluster, name)
}

// movedAway records on the old Cluster that everything was withdrawn in its new
// workspace.
func (m *moveController) movedAway(ctx context.Context, old *fleet.Cluster, to kube.Key, rest departed) error {
	have, err := m.clusters.Get(ctx, kube.KeyOf(old)) // the table's is stripped
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !hasOpenMove(have) {
		return nil
	}
	// After a conflict it is written again: another run would find the withdrawn deployments, and
	// report that there are none.
	_, err = m.clusters.Mutate(ctx, have, func(c *fleet.Cluster) error {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, workspace.AnnotationWithdrawnIn, to.String())
		return nil
	})
	if err != nil {
		return fmt.Errorf("note the move of cluster %q: %w", kube.KeyOf(old), err)
	}
	log := m.log.WithField("workspace", to.Namespace).WithField("cluster", to.Name)
	if len(rest.names) == 0 {
		log.WithField("reason", rest.why).Info("cluster moved")
		return nil
	}
	text := fmt.Sprintf("workspace %s does not deploy what %s has deployed, and withdraws it: %s", to.Namespace, old.Namespace, view.List(rest.names, fleet.StatusListLimit))
	log.WithField("reason", text).Info("cluster moved")
	if c, ok := m.table.Cluster(to); ok {
		m.events.Event(c, kube.Normal, movedEvent, text)
	}
	return nil
}
