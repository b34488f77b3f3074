package registration

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// ClusterRoles that every agent is bound to. The chart brings them.
const (
	ClusterRoleBundleDeployment = "fleet-bundle-deployment"
	ClusterRoleContent          = "fleet-content"
)

// CredentialLifetime is how long an agent has to fetch its credential.
const CredentialLifetime = 40 * time.Minute

// A Grant is what the agent of a Cluster may do on the management cluster.
//
// The account is not in the cluster's namespace: deleting the namespace would delete it
// too, and the agent's token would be void forever. So deleting a namespace costs one
// RoleBinding, which the manager makes again.
type Grant struct {
	ServiceAccount *corev1.ServiceAccount     // in the registration namespace
	Secret         *corev1.Secret             // beside it; the API server fills in the token
	StatusRole     *rbacv1.Role               // in the workspace: the status of the own Cluster
	StatusBinding  *rbacv1.RoleBinding        // in the workspace
	Deployments    *rbacv1.RoleBinding        // in the cluster's namespace: BundleDeployments, Secrets, ConfigMaps
	Content        *rbacv1.ClusterRoleBinding // contents, by name
}

// Account returns the name of the account that a request is granted.
func Account(r *fleet.ClusterRegistration) string {
	return naming.RequestAccount(r.Name, string(r.UID))
}

// GrantAgent returns the grant for a request, for a Cluster whose BundleDeployments are in
// namespace.
func GrantAgent(r *fleet.ClusterRegistration, c *fleet.Cluster, namespace string, s System) Grant {
	account := Account(r)
	meta := func(namespace, name string) metav1.ObjectMeta {
		return s.metaFor(r, c, namespace, name)
	}
	owned := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		m.OwnerReferences = []metav1.OwnerReference{owner("ClusterRegistration", r)}
		return m
	}
	who := accountSubject(s.RegistrationNamespace(), account)
	return Grant{
		ServiceAccount: &corev1.ServiceAccount{ObjectMeta: meta(s.RegistrationNamespace(), account)},
		Secret:         accountToken(meta(s.RegistrationNamespace(), naming.AccountToken(account)), account),
		StatusRole: &rbacv1.Role{
			ObjectMeta: owned(meta(r.Namespace, r.Name)),
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{fleet.Group}, Resources: []string{"clusters/status"},
				ResourceNames: []string{c.Name}, Verbs: []string{"patch"},
			}},
		},
		StatusBinding: bindRole(owned(meta(r.Namespace, r.Name)), r.Name, who),
		Deployments: &rbacv1.RoleBinding{
			ObjectMeta: meta(namespace, r.Name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ClusterRoleBundleDeployment},
			Subjects:   []rbacv1.Subject{who},
		},
		Content: &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", naming.ContentBinding(account)),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ClusterRoleContent},
			Subjects:   []rbacv1.Subject{who},
		},
	}
}

// A Handover is how an agent gets its token: a Secret whose name only the
// agent can know, and the right of the one registration token that it used to
// read it.
type Handover struct {
	Secret      *corev1.Secret
	Role        *rbacv1.Role
	RoleBinding *rbacv1.RoleBinding
}

// HandOver returns the handover of a granted account's token to the agent that made the
// request with registration token t.
func HandOver(r *fleet.ClusterRegistration, c *fleet.Cluster, s System, t *fleet.ClusterRegistrationToken) Handover {
	in := s.RegistrationNamespace()
	name := naming.RegistrationSecret(r.Spec.ClientID, r.Spec.ClientRandom)
	role := naming.CredentialRole(Account(r))
	return Handover{
		Secret: &corev1.Secret{
			ObjectMeta: s.metaFor(r, c, in, name),
			Type:       fleet.SecretTypeAgentCredential,
		},
		Role: &rbacv1.Role{
			ObjectMeta: s.metaFor(r, c, in, role),
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get"},
			}},
		},
		RoleBinding: bindRole(s.metaFor(r, c, in, role), role, accountSubject(t.Namespace, TokenAccount(t))),
	}
}

// Fill puts the account's token, and where the agent finds its work, into the
// Secret of a handover.
func (h Handover) Fill(c *fleet.Cluster, namespace string, s System, token []byte) {
	h.Secret.Data = map[string][]byte{
		"token":               token,
		"deploymentNamespace": []byte(namespace),
		"clusterNamespace":    []byte(c.Namespace),
		"clusterName":         []byte(c.Name),
		"systemNamespace":     []byte(s.Namespace),
	}
}

// CredentialLeft returns how long a handover that was made at a time still lasts; 0 when it
// is over.
func CredentialLeft(made, now time.Time) time.Duration {
	return max(made.Add(CredentialLifetime).Sub(now), 0)
}

// metaFor is the metadata of an object that is made for a request.
func (s System) metaFor(r *fleet.ClusterRegistration, c *fleet.Cluster, namespace, name string) metav1.ObjectMeta {
	labels := s.labels()
	if len(c.Name) <= validation.LabelValueMaxLength {
		maps.Copy(labels, map[string]string{fleet.LabelCluster: c.Name, fleet.LabelClusterNamespace: c.Namespace})
	}
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: labels,
		Annotations: map[string]string{
			fleet.AnnotationClusterRegistration:          r.Name,
			fleet.AnnotationClusterRegistrationNamespace: r.Namespace,
		},
	}
}

// accountToken is the Secret that the API server fills with a lasting token of
// an account.
func accountToken(meta metav1.ObjectMeta, account string) *corev1.Secret {
	annotations := map[string]string{corev1.ServiceAccountNameKey: account}
	maps.Copy(annotations, meta.Annotations)
	meta.Annotations = annotations
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
}

func accountSubject(namespace, account string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
}

func bindRole(meta metav1.ObjectMeta, role string, who rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{who},
	}
}

// owner is a reference to the object in the same namespace with which another
// one goes.
func owner(kind string, o metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: fleet.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID(),
	}
}

// OwnedBy makes the Secret of a handover, once it exists, the owner of the right to read
// it.
func (h Handover) OwnedBy(secret *corev1.Secret) {
	refs := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID}}
	h.Role.OwnerReferences, h.RoleBinding.OwnerReferences = refs, refs
}

// RequestOf returns the request that an object was made for; false for an object that was
// not made for one.
func RequestOf(o metav1.Object) (namespace, name string, ok bool) {
	a := o.GetAnnotations()
	namespace, name = a[fleet.AnnotationClusterRegistrationNamespace], a[fleet.AnnotationClusterRegistration]
	return namespace, name, namespace != "" && name != ""
}
