package cleanup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/leftover"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// ofReference selects what Fleet made without the ID of a manager: that is, what
// rancher/fleet (the reference) made.
const ofReference = cache.Managed + ",!" + fleet.LabelManagerID

// A grantKind is a kind of which the reference makes objects for registrations and
// registration tokens.
type grantKind struct {
	kind   schema.GroupVersionKind
	delete func(context.Context, kube.Key, kube.Precondition) error
}

// grantKinds returns all of them, accounts first: to delete one ends its credential.
func grantKinds(c *kube.Client) []grantKind {
	return []grantKind{
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), kube.StoreOf[*corev1.ServiceAccount](c).Delete},
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), kube.StoreOf[*rbacv1.ClusterRoleBinding](c).Delete},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), kube.StoreOf[*rbacv1.RoleBinding](c).Delete},
		{rbacv1.SchemeGroupVersion.WithKind("Role"), kube.StoreOf[*rbacv1.Role](c).Delete},
	}
}

// orphanGrants finds the accounts and rights that the reference made for registrations and
// registration tokens that do not exist. The registration loop deletes those of this
// manager.
func (l *Loop) orphanGrants(ctx context.Context, orphans map[string]orphan) error {
	owners, err := l.grantOwners(ctx)
	if err != nil {
		return err
	}
	for _, g := range l.grants {
		found, err := l.list(ctx, g.kind, kube.Watch{Labels: ofReference})
		if err != nil {
			return err
		}
		for _, o := range found {
			owner, ok := leftover.OwnerOf(o)
			if ok && !owners[owner] && o.DeletionTimestamp == nil && l.scope.Holds(owner.Namespace) {
				orphans[g.kind.Kind+" "+kube.KeyOf(o).String()] = l.orphanGrant(g, o, owner)
			}
		}
	}
	return nil
}

// orphanGrant is an object that was made for an owner that is gone.
func (l *Loop) orphanGrant(g grantKind, o *cache.Meta, owner leftover.Owner) orphan {
	return orphan{registration.OrphanTimeout, func(ctx context.Context) error {
		if err := l.ownerOf(ctx, owner); !kube.IsGone(err) {
			return err
		}
		l.logDeleted(g.kind.Kind, o, owner.Kind+" "+owner.String()+" is gone")
		return g.delete(ctx, kube.KeyOf(o), kube.Exactly(o))
	}}
}

// grantOwners returns the registrations and registration tokens that exist.
func (l *Loop) grantOwners(ctx context.Context) (map[leftover.Owner]bool, error) {
	out := map[leftover.Owner]bool{}
	for _, kind := range []string{leftover.KindRegistration, leftover.KindRegistrationToken} {
		keys, err := l.keysOf(ctx, kind)
		if err != nil {
			return nil, err
		}
		for key := range keys {
			k := kube.ParseKey(key)
			owner := leftover.Owner{Kind: kind}
			owner.Namespace, owner.Name = k.Namespace, k.Name
			out[owner] = true
		}
	}
	return out, nil
}

// ownerOf asks the API server for an owner.
func (l *Loop) ownerOf(ctx context.Context, owner leftover.Owner) error {
	key := kube.Key{Namespace: owner.Namespace, Name: owner.Name}
	if owner.Kind == leftover.KindRegistrationToken {
		_, err := l.tokens.Get(ctx, key)
		return err
	}
	_, err := l.requests.Get(ctx, key)
	return err
}

// expiredHandovers finds the Secrets with credentials that the reference made for agents to
// fetch, and that no agent fetches any more. The registration loop deletes those of this
// manager.
func (l *Loop) expiredHandovers(ctx context.Context, orphans map[string]orphan) error {
	if l.scope.Limited() { // the default manager may be the reference's
		return nil
	}
	secrets, err := l.list(ctx, corev1.SchemeGroupVersion.WithKind("Secret"),
		kube.Watch{Namespace: l.system.RegistrationNamespace(), Labels: ofReference, Fields: "type=" + fleet.SecretTypeAgentCredential})
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if registration.CredentialLeft(secret.CreationTimestamp.Time, l.now()) > 0 {
			continue
		}
		orphans["Secret "+kube.KeyOf(secret).String()] = orphan{registration.OrphanTimeout, func(ctx context.Context) error {
			l.logDeleted("Secret", secret, "the time to fetch it is over")
			return l.secrets.Delete(ctx, kube.KeyOf(secret), kube.Exactly(secret))
		}}
	}
	return nil
}
