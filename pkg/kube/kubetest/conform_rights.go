package kubetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ConformRights tests what a server that authorizes requests (Guard) and real API servers
// have in common. cfg is an administrator's connection over a network. collect runs the
// token controller of the cluster; nil: it runs by itself.
func ConformRights(t *testing.T, cfg *rest.Config, collect func()) {
	if collect == nil {
		collect = func() {}
	}
	for name, test := range map[string]func(*rights){
		"Tokens": (*rights).tokens, "AccountDeleted": (*rights).accountDeleted, "SecretToken": (*rights).secretToken,
		"Role": (*rights).role, "Names": (*rights).names, "Subresource": (*rights).subresource,
		"ClusterRoleInNamespace": (*rights).clusterRoleInNamespace, "ClusterRoleBinding": (*rights).clusterRoleBinding,
		"Aggregated": (*rights).aggregated, "Escalation": (*rights).escalation,
		"Impersonation": (*rights).impersonation, "SelfReview": (*rights).selfReview, "Review": (*rights).review, "Watch": (*rights).watch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := kubernetes.NewForConfigOrDie(cfg)
			ns, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rights-"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r := &rights{T: t, cfg: cfg, collect: collect, admin: admin, ns: ns.Name}
			if _, err := admin.CoreV1().ServiceAccounts(r.ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "account"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two"} {
				r.create(r.admin, name)
			}
			r.account = r.with(r.token())
			test(r)
		})
	}
}

// A rights is one test of ConformRights: a namespace with the ConfigMaps one and two, and an
// account without any right.
type rights struct {
	*testing.T
	cfg            *rest.Config
	collect        func()
	admin, account kubernetes.Interface
	ns             string
}

func (r *rights) token() string {
	r.Helper()
	made, err := r.admin.CoreV1().ServiceAccounts(r.ns).CreateToken(r.Context(), "account", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return made.Status.Token
}

// with returns the clients of a token.
func (r *rights) with(token string) kubernetes.Interface {
	cfg := rest.AnonymousClientConfig(r.cfg)
	cfg.BearerToken = token
	return kubernetes.NewForConfigOrDie(cfg)
}

func (r *rights) create(who kubernetes.Interface, name string) {
	r.Helper()
	if _, err := who.CoreV1().ConfigMaps(r.ns).Create(r.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// get returns the error with which an account reads a ConfigMap.
func (r *rights) get(who kubernetes.Interface, name string) error {
	_, err := who.CoreV1().ConfigMaps(r.ns).Get(r.Context(), name, metav1.GetOptions{})
	return err
}

// grant binds a role to the account: real API servers go by a binding some time later.
func (r *rights) grant(rule rbacv1.PolicyRule) {
	r.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "role"}, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := r.admin.RbacV1().Roles(r.ns).Create(r.Context(), role, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	r.bind(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "role"})
}

func (r *rights) bind(ref rbacv1.RoleRef) {
	r.Helper()
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "binding"}, RoleRef: ref, Subjects: r.subjects()}
	if _, err := r.admin.RbacV1().RoleBindings(r.ns).Create(r.Context(), b, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rights) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.ns, Name: "account"}}
}

// until waits until a condition holds.
func (r *rights) until(what string, holds func() bool) {
	r.Helper()
	waitFor(r, r.collect, what, holds)
}

func (r *rights) forbidden(err error, what string) {
	r.Helper()
	if !apierrors.IsForbidden(err) {
		r.Errorf("want it forbidden: %s; got %v", what, err)
	}
}

func (r *rights) tokens() {
	if err := r.get(r.with("unknown"), "one"); !apierrors.IsUnauthorized(err) {
		r.Errorf("want an unknown token refused, got %v", err)
	}
	r.forbidden(r.get(r.with(""), "one"), "a request without a token")
	r.forbidden(r.get(r.account, "one"), "a request without the right")
	if _, err := r.account.Discovery().ServerVersion(); err != nil {
		r.Errorf("an account may ask for the version, got %v", err)
	}
}

func (r *rights) accountDeleted() {
	if err := r.admin.CoreV1().ServiceAccounts(r.ns).Delete(r.Context(), "account", metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
	r.until("the token of a deleted account is refused", func() bool { return apierrors.IsUnauthorized(r.get(r.account, "one")) })
}

func (r *rights) secretToken() {
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	secrets := r.admin.CoreV1().Secrets(r.ns)
	read := func() *corev1.Secret {
		s, err := secrets.Get(r.Context(), "token", metav1.GetOptions{})
		if err != nil {
			r.Fatal(err)
		}
		return s
	}
	_, err := secrets.Create(r.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "account"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.until("the Secret has a token", func() bool { return len(read().Data[corev1.ServiceAccountTokenKey]) > 0 })
	who := r.with(string(read().Data[corev1.ServiceAccountTokenKey]))
	r.until("the token is accepted", func() bool { return r.get(who, "one") == nil })
	r.until("the Secret says when its token was used", func() bool { return read().Labels[labelLastUsed] != "" })
	if err := secrets.Delete(r.Context(), "token", metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
	r.until("the token of a deleted Secret is refused", func() bool { return apierrors.IsUnauthorized(r.get(who, "one")) })
}

func (r *rights) role() {
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create"}})
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	r.create(r.account, "three")
	r.forbidden(r.account.CoreV1().ConfigMaps(r.ns).Delete(r.Context(), "one", metav1.DeleteOptions{}), "another verb")
	_, err := r.account.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(r.Context(), "one", metav1.GetOptions{})
	r.forbidden(err, "another namespace")
	_, err = r.account.CoreV1().Secrets(r.ns).Get(r.Context(), "one", metav1.GetOptions{})
	r.forbidden(err, "another resource")
}

// A rule with names is about these. It grants no creation: the name is not known then.
func (r *rights) names() {
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"one"}, Verbs: []string{"*"}})
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	r.forbidden(r.get(r.account, "two"), "another name")
	maps := r.account.CoreV1().ConfigMaps(r.ns)
	_, err := maps.Create(r.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	r.forbidden(err, "a creation")
	_, err = maps.List(r.Context(), metav1.ListOptions{})
	r.forbidden(err, "a list of all")
	list, err := maps.List(r.Context(), metav1.ListOptions{FieldSelector: "metadata.name=one"})
	if err != nil || len(list.Items) != 1 {
		r.Errorf("want a list of the one name, got %v, %v", list, err)
	}
}

func (r *rights) subresource() {
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}})
	accounts := r.account.CoreV1().ServiceAccounts(r.ns)
	r.until("the account makes tokens", func() bool {
		_, err := accounts.CreateToken(r.Context(), "account", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return err == nil
	})
	_, err := accounts.Get(r.Context(), "account", metav1.GetOptions{})
	r.forbidden(err, "the object itself")
}

// clusterRole makes a ClusterRole that reads ConfigMaps.
func (r *rights) clusterRole() rbacv1.RoleRef {
	r.Helper()
	made, err := r.admin.RbacV1().ClusterRoles().Create(r.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: r.ns},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: made.Name}
}

func (r *rights) clusterRoleInNamespace() {
	r.bind(r.clusterRole())
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	_, err := r.account.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(r.Context(), "one", metav1.GetOptions{})
	r.forbidden(err, "another namespace")
}

func (r *rights) clusterRoleBinding() {
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: r.ns}, RoleRef: r.clusterRole(), Subjects: []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + r.ns},
	}}
	if _, err := r.admin.RbacV1().ClusterRoleBindings().Create(r.Context(), b, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	_, err := r.account.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(r.Context(), "none", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		r.Errorf("want the right in every namespace, got %v", err)
	}
}

// A user who may write roles and bindings grants only the rights that the user has, without
// the verbs escalate and bind.
func (r *rights) escalation() {
	rbac, maps := []string{rbacv1.GroupName}, []string{"configmaps"}
	r.grant(rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create", "update"}})
	extra := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "extra"}}
	_, err := r.admin.RbacV1().Roles(r.ns).Create(r.Context(), extra, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	bound := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "extra"}, Subjects: r.subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extra"},
	}
	if _, err := r.admin.RbacV1().RoleBindings(r.ns).Create(r.Context(), bound, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	set := func(rules ...rbacv1.PolicyRule) {
		extra.Rules = rules
		if _, err := r.admin.RbacV1().Roles(r.ns).Update(r.Context(), extra, metav1.UpdateOptions{}); err != nil {
			r.Fatal(err)
		}
	}
	made := 0
	role := func(rule rbacv1.PolicyRule) error {
		made++
		_, err := r.account.RbacV1().Roles(r.ns).Create(r.Context(), &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("role-%d", made)}, Rules: []rbacv1.PolicyRule{rule},
		}, metav1.CreateOptions{})
		return err
	}
	bind := func(name string) error {
		made++
		_, err := r.account.RbacV1().RoleBindings(r.ns).Create(r.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%d", made)}, Subjects: r.subjects(),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}, metav1.CreateOptions{})
		return err
	}
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: maps, Verbs: []string{"get"}}
	all := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: maps, Verbs: []string{"*"}}
	r.until("the account writes roles", func() bool {
		return role(rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"roles"}, Verbs: []string{"create"}}) == nil
	})
	r.forbidden(role(read), "to grant what the account may not do")
	set(read)
	r.until("the account grants what it may do", func() bool { return role(read) == nil })
	r.until("the account binds a role whose rights it has", func() bool { return bind("extra") == nil })
	r.forbidden(role(all), "to grant more verbs")
	r.otherRole(all, bind)
	set(rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"roles"}, ResourceNames: []string{"other"}, Verbs: []string{"bind"}},
		rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"roles"}, Verbs: []string{"escalate"}})
	r.until("the account may bind", func() bool { return bind("other") == nil })
	r.until("the account may escalate", func() bool { return role(all) == nil })
}

// otherRole makes a role with a right that the account lacks, and checks what the account may
// do with it.
func (r *rights) otherRole(rule rbacv1.PolicyRule, bind func(role string) error) {
	other := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Rules: []rbacv1.PolicyRule{rule}}
	other, err := r.admin.RbacV1().Roles(r.ns).Create(r.Context(), other, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.forbidden(bind("other"), "to bind a role with more rights")
	other.Finalizers = []string{"conform.example/hold"}
	if other, err = r.account.RbacV1().Roles(r.ns).Update(r.Context(), other, metav1.UpdateOptions{}); err != nil {
		r.Fatalf("the account may change finalizers, got %v", err)
	}
	other.Finalizers, other.Labels = nil, map[string]string{"any": "label"}
	_, err = r.account.RbacV1().Roles(r.ns).Update(r.Context(), other, metav1.UpdateOptions{})
	r.forbidden(err, "to change a role with more rights")
	if _, err = r.admin.RbacV1().Roles(r.ns).Update(r.Context(), other, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// An aggregated role has the rules of the roles that it selects, also of those that come
// later.
func (r *rights) aggregated() {
	roles := r.admin.RbacV1().ClusterRoles()
	part := map[string]string{"conform.example/into": r.ns}
	_, err := roles.Create(r.Context(), &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: r.ns},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: part}}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.bind(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.ns})
	r.forbidden(r.get(r.account, "one"), "what no role adds")
	_, err = roles.Create(r.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: r.ns + "-part", Labels: part},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	if err := roles.Delete(r.Context(), r.ns+"-part", metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
	r.until("the right is gone with the part", func() bool { return apierrors.IsForbidden(r.get(r.account, "one")) })
}

func (r *rights) impersonation() {
	as := rest.CopyConfig(r.cfg)
	as.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:account", r.ns)}
	r.forbidden(r.get(kubernetes.NewForConfigOrDie(as), "one"), "an administrator in the place of the account")
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	if err := r.get(kubernetes.NewForConfigOrDie(as), "one"); err != nil {
		r.Errorf("want the right of the account, got %v", err)
	}
	by := rest.AnonymousClientConfig(r.cfg)
	by.BearerToken, by.Impersonate = r.token(), rest.ImpersonationConfig{UserName: "another"}
	r.forbidden(r.get(kubernetes.NewForConfigOrDie(by), "one"), "to impersonate without the right")
}

func (r *rights) review() {
	ask := authorizationv1.SubjectAccessReviewSpec{
		User:               fmt.Sprintf("system:serviceaccount:%s:account", r.ns),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.ns, Verb: "get", Resource: "configmaps", Name: "one"},
	}
	_, err := r.account.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{Spec: ask}, metav1.CreateOptions{})
	r.forbidden(err, "a question for rights without the right to ask")
	allowed := func() bool {
		out, err := r.admin.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{Spec: ask}, metav1.CreateOptions{})
		if err != nil {
			r.Fatal(err)
		}
		return out.Status.Allowed
	}
	if allowed() {
		r.Error("want no right before it is granted")
	}
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	r.until("the right is granted", allowed)
}

// Every user may ask who he is.
func (r *rights) selfReview() {
	ask := func(who kubernetes.Interface) (*authenticationv1.SelfSubjectReview, error) {
		return who.AuthenticationV1().SelfSubjectReviews().Create(r.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	}
	out, err := ask(r.account)
	if err != nil {
		r.Fatal(err)
	}
	want := []string{"system:serviceaccounts", "system:serviceaccounts:" + r.ns, groupAuthenticated}
	if u := out.Status.UserInfo; u.Username != fmt.Sprintf("system:serviceaccount:%s:account", r.ns) || !slices.Equal(u.Groups, want) {
		r.Errorf("got %+v", u)
	}
	_, err = ask(r.with(""))
	r.forbidden(err, "a user who does not say who he is")
}

// An event reaches a watch over the network at once.
func (r *rights) watch() {
	r.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}})
	r.until("the account reads", func() bool { return r.get(r.account, "one") == nil })
	w, err := r.account.CoreV1().ConfigMaps(r.ns).Watch(r.Context(), metav1.ListOptions{FieldSelector: "metadata.name=late"})
	if err != nil {
		r.Fatal(err)
	}
	defer w.Stop()
	r.create(r.admin, "late")
	select {
	case event := <-w.ResultChan():
		if made, ok := event.Object.(*corev1.ConfigMap); !ok || made.Name != "late" {
			r.Errorf("want the new ConfigMap, got %v", event.Object)
		}
	case <-time.After(timeout):
		r.Error("no event comes")
	}
}
