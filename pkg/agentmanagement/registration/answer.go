package registration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/grant"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// answer gives a request its Cluster and its credential. If something else must happen
// first, it returns; that event enqueues the request again.
func (l *Loop) answer(ctx context.Context, r *fleet.ClusterRegistration, siblings []*fleet.ClusterRegistration) (kube.Result, error) {
	t, err := l.tokenOf(r)
	if err != nil {
		return kube.Done, err
	}
	c, err := l.findOrMakeCluster(ctx, r)
	if err != nil || c == nil {
		return kube.Done, err
	}
	namespace, ok := registration.DeploymentNamespace(c)
	if !ok || withdrawal.IsDeleting(c) || registration.External(c) {
		return kube.Done, nil
	}
	claim := registration.DecideClaim(r, c, t, siblings, l.cfg.Settings)
	if claim.Waits != "" {
		return kube.Done, l.reportWaiting(ctx, r, c, claim)
	}
	own := map[string]string{fleet.LabelManagerID: l.cfg.System.ManagerID}
	if err := ensure.Namespace(ctx, l.namespaces, l.cfg.System.RegistrationNamespace(), own); err != nil {
		return kube.Done, err
	}
	token, err := l.ensureGrant(ctx, registration.GrantAgent(r, c, namespace, l.cfg.System))
	if err != nil || len(token) == 0 {
		return kube.Done, err
	}
	h := registration.HandOver(r, c, l.cfg.System, t)
	h.Fill(c, namespace, l.cfg.System, token)
	if err := l.handOver(ctx, h); err != nil {
		return kube.Done, err
	}
	changed := r.DeepCopy()
	changed.Status.ClusterName, changed.Status.Granted = c.Name, true
	if _, err := l.requests.PatchStatus(ctx, r, changed); err != nil {
		return kube.Done, err
	}
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).Info("cluster registered")
	l.reportReplaced(r, c, claim)
	return kube.Result{After: registration.CredentialLifetime}, nil
}

// findOrMakeCluster returns the Cluster of a request. It creates a missing Cluster and
// returns nil: the watch event of the new Cluster enqueues the request.
func (l *Loop) findOrMakeCluster(ctx context.Context, r *fleet.ClusterRegistration) (*fleet.Cluster, error) {
	candidates := l.caches.Clusters.ByIndex(cache.ByClient, cache.ClientKey(r.Namespace, r.Spec.ClientID))
	a := registration.Assign(r, candidates)
	if a.Name != "" { // the name may be taken by a Cluster with another clientID
		if c, ok := l.caches.Clusters.Get(kube.Key{Namespace: r.Namespace, Name: a.Name}); ok {
			a = registration.Assign(r, append(candidates, c))
		}
	}
	switch {
	case a.Refused != "":
		return nil, reconcile.TerminalError(reasonRefused, errors.New(a.Refused))
	case a.Cluster != nil:
		return a.Cluster, nil
	}
	if err := l.checkPending(r); err != nil {
		return nil, err
	}
	labels, dropped := registration.AcceptedLabels(r.Spec.ClusterLabels, l.cfg.Settings.IgnoreClusterRegistrationLabels)
	group, err := l.addGroupLabels(ctx, r, labels)
	if err != nil {
		return nil, err
	}
	if len(dropped) > 0 {
		l.events.Event(r, kube.Warning, "LabelsDropped", "not set on the new Cluster: "+strings.Join(dropped, "; "))
	}
	if _, err = l.clusters.Create(ctx, registration.NewCluster(r, a.Name, labels, group)); err == nil {
		l.log.WithField("workspace", r.Namespace).WithField("cluster", a.Name).Info("cluster created")
	}
	return nil, err
}

// tokenOf returns the registration token that a request was made with.
func (l *Loop) tokenOf(r *fleet.ClusterRegistration) (*fleet.ClusterRegistrationToken, error) {
	name := r.Labels[fleet.LabelRegistrationToken]
	t, ok := l.caches.Tokens.Get(kube.Key{Namespace: r.Namespace, Name: name})
	switch {
	case name == "":
		return nil, reconcile.TerminalError(reasonRefused,
			fmt.Errorf("the request does not say in label %s which token it was made with", fleet.LabelRegistrationToken))
	case !ok || t.DeletionTimestamp != nil:
		return nil, reconcile.TerminalError(reasonRefused, fmt.Errorf(
			"registration token %q has expired or was removed: give the agent the values of a new one", name))
	}
	return t, nil
}

// ensureGrant creates an agent's account and its rights, and returns the account's
// token; it is empty until the API server has filled it in.
func (l *Loop) ensureGrant(ctx context.Context, g registration.Grant) ([]byte, error) {
	token, err := l.grants.WithToken(ctx, g.ServiceAccount, g.Secret)
	if err != nil {
		return nil, err
	}
	return token, ensureRights(ctx, l.grants, g)
}

// ensureRights creates the rights of an agent's account.
func ensureRights(ctx context.Context, w grant.Writer, g registration.Grant) error {
	if err := w.Role(ctx, g.StatusRole); err != nil {
		return err
	}
	if err := w.Binding(ctx, g.StatusBinding); err != nil {
		return err
	}
	if err := w.ClusterBinding(ctx, g.Content); err != nil {
		return err
	}
	err := w.Binding(ctx, g.Deployments)
	if kube.IsTerminating(err) || kube.IsGone(err) {
		// The namespace's end, or its return, wakes this request up.
		return reconcile.RequeueError(registration.ReasonTerminating, 0, err)
	}
	return err
}

// maintain keeps the rights of a granted request, and ends the delivery of its
// credential in time. If the account is missing, an older manager made the grant, or it
// is lost: the agent needs a new request then.
func (l *Loop) maintain(ctx context.Context, r *fleet.ClusterRegistration) (kube.Result, error) {
	c, ok := l.caches.Clusters.Get(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName})
	if !ok || withdrawal.IsDeleting(c) || registration.External(c) {
		return kube.Done, nil
	}
	if len(l.credentials.accountsOf(r)) == 0 {
		return kube.Done, nil
	}
	if namespace, ok := registration.DeploymentNamespace(c); ok && namespaceStands(l.caches, namespace) {
		if err := ensureRights(ctx, l.grants, registration.GrantAgent(r, c, namespace, l.cfg.System).ForAccounts(l.credentials.accountsWithRights(r, c))); err != nil {
			return kube.Done, err
		}
	}
	return l.endHandover(ctx, r)
}

// namespaceStands reports whether a cluster's namespace exists and is not being
// deleted.
func namespaceStands(caches *cache.Shared, name string) bool {
	n, ok := caches.Namespaces.Get(kube.Key{Name: name})
	return ok && n.DeletionTimestamp == nil
}
