package registration

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/grant"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// reasonRotated is the reason of an event about an agent with a new credential.
const reasonRotated = "CredentialRotated"

// credentials keeps the credentials of agents whose requests were granted.
type credentials struct {
	cfg      Config
	log      *logrus.Entry
	caches   *cache.Shared
	events   *kube.Recorder
	grants   grant.Writer
	clusters *kube.Store[*fleet.Cluster]
	uses     *uses
	since    time.Time // the start of this process
}

// accountsOf returns the sorted names of the accounts that were made for an agent's
// request, without those that only renew credentials.
func (cr credentials) accountsOf(r *fleet.ClusterRegistration) []string {
	var out []string
	for _, a := range cr.caches.Accounts.ByIndex(cache.ByRequest, kube.KeyOf(r).String()) {
		if a.Namespace == cr.cfg.System.RegistrationNamespace() && a.Annotations[fleet.AnnotationRenews] == "" && a.DeletionTimestamp == nil {
			out = append(out, a.Name)
		}
	}
	slices.Sort(out)
	return out
}

// accountsWithRights returns the accounts that need the rights of a request: the
// existing ones, and the one that the agent was offered, which the cache may not have
// yet.
func (cr credentials) accountsWithRights(r *fleet.ClusterRegistration, c *fleet.Cluster) []string {
	out := cr.accountsOf(r)
	o, err := credential.ParseOffer(c.Annotations[fleet.AnnotationCredential])
	if err == nil && strings.HasPrefix(o.Account, registration.Account(r)) && !slices.Contains(out, o.Account) {
		out = append(out, o.Account)
		slices.Sort(out)
	}
	return out
}

// maintain keeps the credential of a granted request valid, if this manager manages its
// Cluster. next is when the request is reconciled anyway.
func (cr credentials) maintain(ctx context.Context, r *fleet.ClusterRegistration, next kube.Result) (kube.Result, error) {
	c, ok := cr.caches.Clusters.Get(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName})
	if !ok || withdrawal.IsDeleting(c) || registration.External(c) {
		return next, nil
	}
	after, err := cr.credential(ctx, r, c)
	return next.Sooner(after), err
}

// credential makes sure that the agent of a granted request gets the credential that it
// should use. It returns when to check again; 0: after an event.
//
//  1. gather: the accounts of the request, and the annotations of its Cluster
//  2. decide: credential.Decide (pure)
//  3. apply:  the account, its rights, and the right to fetch its token; then delete
//     accounts that the agent does not use any more; then the offer
//  4. report: the condition Credential of the Cluster
func (cr credentials) credential(ctx context.Context, r *fleet.ClusterRegistration, c *fleet.Cluster) (time.Duration, error) {
	namespace, ok := registration.DeploymentNamespace(c)
	if !ok || !namespaceStands(cr.caches, namespace) {
		return 0, nil
	}
	p := credential.Decide(credential.State{
		Life: cr.cfg.Settings.Credential, Namespace: cr.cfg.System.RegistrationNamespace(), First: registration.Account(r),
		Order: c.Annotations[fleet.AnnotationRotate], Accounts: cr.accountsOf(r),
		Offered: c.Annotations[fleet.AnnotationCredential], Uses: c.Status.Agent.Credential,
		Seen: credential.LastSign(c, r.CreationTimestamp.Time), Now: cr.cfg.Now(), Since: cr.since,
	})
	if p.Account == "" {
		return p.After, cr.writeCondition(ctx, c, p)
	}
	if p.Offer != "" {
		if p.Settled {
			cr.uses.setUsed(kube.KeyOf(r).String())
		}
		if err := cr.applyPlan(ctx, r, c, p); err != nil {
			return 0, err
		}
		if err := ensureRights(ctx, cr.grants, registration.GrantAgent(r, c, namespace, cr.cfg.System).ForAccounts(p.Holders)); err != nil {
			return 0, err
		}
	}
	if err := cr.dropAccounts(ctx, c, p); err != nil {
		return 0, err
	}
	offered, err := cr.clusters.Patch(ctx, c, registration.OfferCredential(c, p))
	if err != nil {
		return 0, kube.IgnoreGone(err)
	}
	if p.Settled && c.Annotations[fleet.AnnotationRotate] != "" {
		cr.events.Event(c, kube.Normal, reasonRotated, "the agent uses a new credential; the one before is void")
		cr.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("agent", p.Account).Info("credential rotated")
	}
	return p.After, cr.writeCondition(ctx, offered, p)
}

// applyPlan creates the account and rights of the offered credential, and deletes the
// rights that it does not need any more.
func (cr credentials) applyPlan(ctx context.Context, r *fleet.ClusterRegistration, c *fleet.Cluster, p credential.Plan) error {
	g := registration.GrantCredential(r, c, p, cr.cfg.System)
	account, err := cr.ensureAccount(ctx, g.ServiceAccount)
	if err != nil {
		return err
	}
	g.OwnedBy(account)
	switch p.Lasting {
	case credential.Have:
		if err := cr.grants.AccountToken(ctx, g.Lasting); err != nil {
			return err
		}
	case credential.Gone:
		if err := cr.remove(ctx, g.Lasting); err != nil {
			return err
		}
	case credential.Leave:
	}
	if err := cr.applyRenewal(ctx, g, p); err != nil {
		return err
	}
	if len(p.Fetch) == 0 {
		return cr.revokeFetch(ctx, g)
	}
	if err := cr.grants.Role(ctx, g.Fetch); err != nil {
		return err
	}
	return cr.grants.Binding(ctx, g.FetchBinding)
}

// applyRenewal creates or deletes the account that may renew the credential.
func (cr credentials) applyRenewal(ctx context.Context, g registration.CredentialGrant, p credential.Plan) error {
	if p.Renewal == credential.Leave {
		return nil
	}
	if p.Renewal == credential.Have {
		if err := cr.grants.Account(ctx, g.Renewal); err != nil {
			return err
		}
		if err := cr.grants.Role(ctx, g.Renew); err != nil {
			return err
		}
		if p.Renew {
			return cr.grants.Binding(ctx, g.RenewBinding)
		}
	}
	if have, ok := cr.caches.Bindings.Get(kube.KeyOf(g.RenewBinding)); ok {
		if err := cr.grants.Bindings.Delete(ctx, kube.KeyOf(have), kube.Exactly(have)); err != nil {
			return err
		}
	}
	if p.Renewal == credential.Have {
		return nil
	}
	if have, ok := cr.caches.Roles.Get(kube.KeyOf(g.Renew)); ok {
		if err := cr.grants.Roles.Delete(ctx, kube.KeyOf(have), kube.Exactly(have)); err != nil {
			return err
		}
	}
	if have, ok := cr.caches.Accounts.Get(kube.KeyOf(g.Renewal)); ok {
		return cr.grants.Accounts.Delete(ctx, kube.KeyOf(have), kube.Exactly(have))
	}
	return nil
}

// revokeFetch revokes the right to fetch tokens.
func (cr credentials) revokeFetch(ctx context.Context, g registration.CredentialGrant) error {
	if have, ok := cr.caches.Bindings.Get(kube.KeyOf(g.FetchBinding)); ok {
		if err := cr.grants.Bindings.Delete(ctx, kube.KeyOf(have), kube.Exactly(have)); err != nil {
			return err
		}
	}
	if have, ok := cr.caches.Roles.Get(kube.KeyOf(g.Fetch)); ok {
		return cr.grants.Roles.Delete(ctx, kube.KeyOf(have), kube.Exactly(have))
	}
	return nil
}

// ensureAccount creates an account, and returns it as stored.
func (cr credentials) ensureAccount(ctx context.Context, want *corev1.ServiceAccount) (*corev1.ServiceAccount, error) {
	if have, ok := cr.caches.Accounts.Get(kube.KeyOf(want)); ok {
		return have, nil
	}
	made, err := cr.grants.Accounts.Create(ctx, want)
	if kube.IsExists(err) {
		return cr.grants.Accounts.Get(ctx, kube.KeyOf(want))
	}
	return made, err
}

// remove deletes the Secret of a token that does not expire.
func (cr credentials) remove(ctx context.Context, s *corev1.Secret) error {
	have, ok := cr.caches.AccountTokens.Get(kube.KeyOf(s))
	if !ok {
		return nil
	}
	return cr.grants.Secrets.Delete(ctx, kube.KeyOf(have), kube.Exactly(have))
}

// dropAccounts deletes the accounts that the agent does not use any more. Their tokens
// become invalid.
func (cr credentials) dropAccounts(ctx context.Context, c *fleet.Cluster, p credential.Plan) error {
	for _, name := range p.Drop {
		have, ok := cr.caches.Accounts.Get(kube.Key{Namespace: cr.cfg.System.RegistrationNamespace(), Name: name})
		if !ok {
			continue
		}
		if err := cr.grants.Accounts.Delete(ctx, kube.KeyOf(have), kube.Exactly(have)); err != nil {
			return err
		}
		cr.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("agent", name).
			WithField("reason", "the agent uses another credential").Info("credential revoked")
	}
	return nil
}

// writeCondition writes condition Credential, or removes it.
func (cr credentials) writeCondition(ctx context.Context, c *fleet.Cluster, p credential.Plan) error {
	was, is := condition.Find(c.Status.Conditions, fleet.ConditionCredential), registration.CredentialCondition(c, p)
	changed := c.DeepCopy()
	switch {
	case is == nil && was == nil:
		return nil
	case is == nil:
		changed.Status.Conditions = condition.Remove(c.Status.Conditions, fleet.ConditionCredential)
	default:
		changed.Status.Conditions = condition.Set(c.Status.Conditions, *is, cr.cfg.Now())
	}
	if _, err := cr.clusters.PatchStatus(ctx, c, changed); err != nil {
		return kube.IgnoreGone(err)
	}
	if is != nil && (was == nil || was.Reason != is.Reason) && is.Reason != credential.ReasonPending {
		cr.events.Event(c, kube.Warning, "Credential"+is.Reason, is.Message)
		cr.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", is.Message).Warn("credential of an agent")
	}
	return nil
}
