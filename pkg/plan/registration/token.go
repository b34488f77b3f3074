package registration

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// A TokenVerdict says whether a registration token is valid.
type TokenVerdict struct {
	Expires *metav1.Time  // for its status; nil: never, or not said
	Delete  string        // why the token goes now; empty: it stays
	Left    time.Duration // until it goes; 0: for ever
}

// DecideToken decides about a token at a time. A ttl of 0 is no limit, and no
// limit is refused where one is required.
func DecideToken(t *fleet.ClusterRegistrationToken, now time.Time, ttlRequired bool) TokenVerdict {
	var v TokenVerdict
	ttl := time.Duration(0)
	if t.Spec.TTL != nil {
		ttl = max(t.Spec.TTL.Duration, 0)
		expires := metav1.NewTime(t.CreationTimestamp.Add(ttl))
		v.Expires = &expires
	}
	switch {
	case ttl > 0:
		v.Left = t.CreationTimestamp.Add(ttl).Sub(now)
		if v.Left <= 0 {
			v.Left, v.Delete = 0, "the token has expired"
		}
	case ttlRequired:
		v.Delete = "the token has no ttl, and the manager requires one"
	}
	return v
}

// TokenGrant holds the objects of a registration token: an account that may create requests
// in the token's namespace that name this token, and nothing else.
type TokenGrant struct {
	ServiceAccount *corev1.ServiceAccount
	Secret         *corev1.Secret // the API server fills in the account's token
	Role           *rbacv1.Role
	RoleBinding    *rbacv1.RoleBinding
}

// TokenAccount returns the name of the account of a registration token.
func TokenAccount(t *fleet.ClusterRegistrationToken) string {
	return naming.TokenAccount(t.Name, string(t.UID))
}

// GrantToken returns the grant of a registration token. Everything is owned by the token
// and goes with it.
func GrantToken(t *fleet.ClusterRegistrationToken, s System) TokenGrant {
	account := TokenAccount(t)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: t.Namespace, Name: name, Labels: s.labels(),
			OwnerReferences: []metav1.OwnerReference{owner("ClusterRegistrationToken", t)},
		}
	}
	role := naming.TokenRole(account)
	return TokenGrant{
		ServiceAccount: &corev1.ServiceAccount{ObjectMeta: meta(account)},
		Secret:         accountToken(meta(naming.AccountToken(account)), account),
		Role: &rbacv1.Role{
			ObjectMeta: meta(role),
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{fleet.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"}},
				// By this an admission policy of the chart knows which token a request is made with.
				{APIGroups: []string{fleet.Group}, Resources: []string{"clusterregistrationtokens"}, ResourceNames: []string{t.Name}, Verbs: []string{"use"}},
			},
		},
		RoleBinding: bindRole(meta(naming.TokenRoleBinding(account)), role,
			accountSubject(t.Namespace, account)),
	}
}

// tokenValues is the values file of the agent's chart.
type tokenValues struct {
	ClusterNamespace            string          `json:"clusterNamespace"`
	APIServerURL                string          `json:"apiServerURL"`
	APIServerCA                 string          `json:"apiServerCA"`
	Token                       string          `json:"token"`
	SystemRegistrationNamespace string          `json:"systemRegistrationNamespace"`
	TokenName                   string          `json:"tokenName"`
	Internal                    *internalValues `json:"internal,omitempty"`
}

type internalValues struct {
	SystemNamespace string `json:"systemNamespace"`
}

// TokenSecret returns the Secret that a person or a program installs the agent's chart
// with: it has the token's name and holds the chart's values. bearer is the token of the
// grant's account.
func TokenSecret(t *fleet.ClusterRegistrationToken, s System, settings Settings, bearer string) (*corev1.Secret, error) {
	v := tokenValues{
		ClusterNamespace: t.Namespace, APIServerURL: settings.APIServerURL, APIServerCA: string(settings.APIServerCA),
		Token: bearer, TokenName: t.Name, SystemRegistrationNamespace: s.RegistrationNamespace(),
	}
	if s.Namespace != fleet.NamespaceSystem {
		v.Internal = &internalValues{SystemNamespace: s.Namespace}
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("values of token %q: %w", t.Name, err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Namespace, Name: t.Name, Labels: s.labels(),
			OwnerReferences: []metav1.OwnerReference{owner("ClusterRegistrationToken", t)},
		},
		Type: fleet.SecretTypeRegistrationValues,
		Data: map[string][]byte{fleet.KeyValues: text},
	}, nil
}

// ReadTokenSecret finds the values in the Secret of a registration token that
// an agent's bootstrap Secret is made of.
func ReadTokenSecret(secret *corev1.Secret) (Bootstrapping, error) {
	var v tokenValues
	if err := yaml.Unmarshal(secret.Data[fleet.KeyValues], &v); err != nil {
		return Bootstrapping{}, fmt.Errorf("values of token %q: %w", secret.Name, err)
	}
	return Bootstrapping{
		APIServerURL: v.APIServerURL, APIServerCA: []byte(v.APIServerCA), Token: v.Token, TokenName: v.TokenName,
		ClusterNamespace: v.ClusterNamespace, RegistrationNamespace: v.SystemRegistrationNamespace,
	}, nil
}
