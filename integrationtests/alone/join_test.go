package alone

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A manager with a new certificate authority is not trusted until a person says
// so, with the values of a registration token; then the agent joins again, and
// goes on with what it has. So does one whose credential cannot be read any more.
func joins(p *place) {
	p.Start()
	p.Order("app", harness.Order{Files: files("one")})
	p.State("app", fleet.Ready)

	p.Must(p.front.Rotate())
	p.contact("it does not trust the manager", func(c map[string]string) bool { return c["reason"] == "CertificateRefused" })
	p.Order("app", harness.Order{Files: files("two")})
	known := p.rejoin("")
	p.Until("the new order is carried out", func() bool { return p.Data("joins-app", "a") == "two" })
	p.State("app", fleet.Ready)

	// The credential is destroyed; the agent goes on, also when it is started.
	p.Stop()
	p.CredentialFor([]byte("rubbish"))
	p.SetData("joins-app", "a", "edited")
	p.Start()
	p.contact("the credential is broken", func(c map[string]string) bool { return c["reason"] == "CredentialUnusable" && c["hint"] != "" })
	p.rejoin(known)
	p.State("app", fleet.Modified)
}

// rejoin gives the agent a registration token, and grants its request as a manager
// does. known is the name of a request that was granted before.
func (p *place) rejoin(known string) string {
	p.Helper()
	ctx := p.Context()
	admin := p.Hub.Admin
	for _, name := range []string{fleet.NamespaceRegistration} {
		_, err := kube.StoreOf[*corev1.Namespace](admin).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		p.mayExist(err)
	}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	_, err := kube.StoreOf[*corev1.ServiceAccount](admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta(p.Workspace, "tok")})
	p.mayExist(err)
	p.allow(p.Workspace, "tok", rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"}})
	token, err := p.Hub.Client.CoreV1().ServiceAccounts(p.Workspace).CreateToken(ctx, "tok", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	p.Must(err)
	b := registration.Bootstrapping{
		APIServerURL: p.tcpProxy.URL(), APIServerCA: p.front.CA(), Token: token.Status.Token, TokenName: "tok",
		ClusterNamespace: p.Workspace, RegistrationNamespace: fleet.NamespaceRegistration,
	}
	_, err = kube.StoreOf[*corev1.Secret](p.Down.Admin).Create(ctx, &corev1.Secret{ObjectMeta: meta(p.Namespace, fleet.SecretAgentBootstrap), Data: b.Data()})
	p.Must(err)

	var request *fleet.ClusterRegistration
	p.Until("the agent asks to be registered", func() bool {
		list, err := kube.StoreOf[*fleet.ClusterRegistration](admin).List(ctx, p.Workspace, "")
		p.Must(err)
		for _, r := range list {
			if r.Name != known {
				request = r
			}
		}
		return request != nil
	})
	name := naming.RegistrationSecret(request.Spec.ClientID, request.Spec.ClientRandom)
	p.allow(fleet.NamespaceRegistration, request.Name, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get"},
	})
	_, err = kube.StoreOf[*corev1.Secret](admin).Create(ctx, &corev1.Secret{
		ObjectMeta: meta(fleet.NamespaceRegistration, name), Type: fleet.SecretTypeAgentCredential,
		Data: map[string][]byte{
			"token": []byte(p.Token()), "deploymentNamespace": []byte(p.Deployments), "clusterNamespace": []byte(p.Workspace),
			"clusterName": []byte(p.Name), "systemNamespace": []byte(p.Namespace),
		},
	})
	p.Must(err)
	p.contact("it has joined again", func(c map[string]string) bool { return c["reached"] == "true" })
	p.Until("the token is forgotten", func() bool {
		_, err := kube.StoreOf[*corev1.Secret](p.Down.Admin).Get(ctx, kube.Key{Namespace: p.Namespace, Name: fleet.SecretAgentBootstrap})
		return kube.IsGone(err)
	})
	return request.Name
}

// allow lets the account of the registration token do something.
func (p *place) allow(namespace, name string, rule rbacv1.PolicyRule) {
	p.Helper()
	roles := p.Hub.Client.RbacV1()
	_, err := roles.Roles(namespace).Create(p.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	p.mayExist(err)
	_, err = roles.RoleBindings(namespace).Create(p.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: p.Workspace, Name: "tok"}},
	}, metav1.CreateOptions{})
	p.mayExist(err)
}

func (p *place) mayExist(err error) {
	p.Helper()
	if err != nil && !kube.IsExists(err) {
		p.Fatal(err)
	}
}
