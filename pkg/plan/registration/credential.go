package registration

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
)

// ForAccounts gives the rights of a grant to these accounts instead of the one that it was made
// for.
func (g Grant) ForAccounts(accounts []string) Grant {
	var who []rbacv1.Subject
	for _, a := range accounts {
		who = append(who, accountSubject(g.ServiceAccount.Namespace, a))
	}
	g.StatusBinding.Subjects, g.Deployments.Subjects, g.Content.Subjects = who, who, who
	return g
}

// A CredentialGrant holds the objects of the credential that an agent is to use: its
// account, and who may fetch a token of it. The account owns all others, so they are
// deleted with it.
type CredentialGrant struct {
	ServiceAccount *corev1.ServiceAccount
	Lasting        *corev1.Secret // the API server fills in a token that lasts
	Renewal        *corev1.ServiceAccount

	Fetch        *rbacv1.Role // fetch the token
	FetchBinding *rbacv1.RoleBinding
	Renew        *rbacv1.Role // the same, for the account that does nothing else
	RenewBinding *rbacv1.RoleBinding
}

// GrantCredential returns the grant for what a plan wants, for a request and its Cluster.
func GrantCredential(r *fleet.ClusterRegistration, c *fleet.Cluster, p credential.Plan, s System) CredentialGrant {
	in := s.RegistrationNamespace()
	meta := func(name string) metav1.ObjectMeta { return s.metaFor(r, c, in, name) }
	renewal := credential.RenewalAccount(p.Account)
	renewing := &corev1.ServiceAccount{ObjectMeta: meta(renewal)}
	renewing.Annotations[fleet.AnnotationRenews] = p.Account

	tokens := []string{credential.LastingToken(p.Account)}
	fetch := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: tokens, Verbs: []string{"get"}}
	if p.Renewal == credential.Have {
		fetch = mayMakeTokens(p.Account, renewal)
	}
	var who []rbacv1.Subject
	for _, a := range p.Fetch {
		who = append(who, accountSubject(in, a))
	}
	fetching, renew := p.Account+"-fetch", p.Account+"-renew"
	out := CredentialGrant{
		ServiceAccount: &corev1.ServiceAccount{ObjectMeta: meta(p.Account)},
		Lasting:        accountToken(meta(tokens[0]), p.Account),
		Renewal:        renewing,
		Fetch:          &rbacv1.Role{ObjectMeta: meta(fetching), Rules: []rbacv1.PolicyRule{fetch}},
		FetchBinding:   bindRole(meta(fetching), fetching, rbacv1.Subject{}),
		Renew:          &rbacv1.Role{ObjectMeta: meta(renew), Rules: []rbacv1.PolicyRule{mayMakeTokens(p.Account)}},
		RenewBinding:   bindRole(meta(renew), renew, accountSubject(in, renewal)),
	}
	out.FetchBinding.Subjects = who
	return out
}

// mayMakeTokens is the right to fetch tokens of accounts.
func mayMakeTokens(accounts ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: accounts, Verbs: []string{"create"},
	}
}

// OwnedBy makes the account, once it exists, the owner of all that is deleted with it.
func (g CredentialGrant) OwnedBy(account *corev1.ServiceAccount) {
	refs := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}}
	for _, o := range []metav1.Object{g.Lasting, g.Renewal, g.Fetch, g.FetchBinding, g.Renew, g.RenewBinding} {
		o.SetOwnerReferences(refs)
	}
}

// OfferCredential returns a Cluster with what its agent is offered. An order that is
// carried out is taken down.
func OfferCredential(c *fleet.Cluster, p credential.Plan) *fleet.Cluster {
	out := c.DeepCopy()
	switch {
	case p.Account == "":
		return out
	case p.Offer == "":
		delete(out.Annotations, fleet.AnnotationCredential)
	default:
		out.Annotations = withEntry(out.Annotations, fleet.AnnotationCredential, p.Offer)
	}
	if p.Settled {
		delete(out.Annotations, fleet.AnnotationRotate)
	}
	return out
}

// CredentialCondition returns the condition Credential of a Cluster, which is there only as
// long as there is something to say; nil: there is not.
func CredentialCondition(c *fleet.Cluster, p credential.Plan) *fleet.Condition {
	if p.Reason == "" {
		return nil
	}
	return &fleet.Condition{
		Type: fleet.ConditionCredential, Status: corev1.ConditionFalse, Reason: p.Reason, Message: p.Message,
		ObservedGeneration: c.Generation,
	}
}
