package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// attributes are what rights are decided by, as in
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/.
type attributes struct {
	verb, group, resource, subresource, namespace, name string
	path                                                string // of a request that is not about a resource
}

// attributes returns what a call asks for. The name of an object that is created is
// unknown to authorization. A list or a watch of a single name has this name.
func (c *call) attributes() attributes {
	a := attributes{verb: c.Verb, group: c.Kind.Group, resource: c.Resource, subresource: c.Subresource, namespace: c.Namespace, name: c.Name}
	if c.Resource == "namespaces" && c.Namespace == "" {
		a.namespace = c.Name
	}
	if c.Verb == "create" && c.Subresource == "" {
		a.name = ""
	}
	if c.Verb == "list" || c.Verb == "watch" {
		for selector := range strings.SplitSeq(c.query.Get("fieldSelector"), ",") {
			if name, ok := strings.CutPrefix(selector, "metadata.name="); ok {
				a.name = name
			}
		}
	}
	return a
}

// forbidden is the answer to a user without the right, in the words of API servers.
func (a attributes) forbidden(who user) error {
	what := a.resource
	if a.subresource != "" {
		what += "/" + a.subresource
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", who.name, a.verb, what, a.group)
	if a.namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", a.namespace)
	} else {
		text += " at the cluster scope"
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.group, Resource: what}, a.name, errors.New(text))
}

// A grant is a binding with the rules of its role.
type grant struct {
	namespace string // of a RoleBinding; empty: everywhere
	subjects  []rbacv1.Subject
	rules     []rbacv1.PolicyRule
}

// roleKinds are the kinds that rights follow from.
var roleKinds = []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"}

// allows reports whether a user has a right. The caller holds s.mu.
func (s *Server) allows(who user, a attributes) bool {
	if slices.Contains(who.groups, groupMasters) {
		return true
	}
	return slices.ContainsFunc(s.grants(), func(g grant) bool {
		return (g.namespace == "" || g.namespace == a.namespace) &&
			slices.ContainsFunc(g.subjects, func(sub rbacv1.Subject) bool { return who.is(sub) }) &&
			slices.ContainsFunc(g.rules, a.in)
	})
}

// is reports whether a subject means the user.
func (u user) is(s rbacv1.Subject) bool {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		return u.name == accountPrefix+s.Namespace+":"+s.Name
	case rbacv1.UserKind:
		return u.name == s.Name
	}
	return slices.Contains(u.groups, s.Name)
}

// accountOf splits the user name of a service account.
func accountOf(name string) (namespace, account string, ok bool) {
	rest, ok := strings.CutPrefix(name, accountPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// in reports whether a rule grants what is asked for.
func (a attributes) in(r rbacv1.PolicyRule) bool {
	has := func(list []string, want ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == "*" || slices.Contains(want, s) })
	}
	if !has(r.Verbs, a.verb) {
		return false
	}
	if a.path != "" {
		return slices.ContainsFunc(r.NonResourceURLs, func(u string) bool {
			begin, any := strings.CutSuffix(u, "*")
			return u == a.path || any && strings.HasPrefix(a.path, begin)
		})
	}
	names := []string{a.resource}
	if a.subresource != "" {
		names = []string{a.resource + "/" + a.subresource, "*/" + a.subresource}
	}
	return has(r.APIGroups, a.group) && has(r.Resources, names...) &&
		(len(r.ResourceNames) == 0 || a.name != "" && slices.Contains(r.ResourceNames, a.name))
}

// grants returns all bindings with their rules. They are read again after a role or a
// binding has changed.
func (s *Server) grants() []grant {
	changes := 0
	for _, kind := range roleKinds {
		changes += len(s.resources[rbacv1.SchemeGroupVersion.WithResource(kind)].log)
	}
	if s.guard.changes != changes {
		s.guard.changes, s.guard.grants = changes, s.readGrants()
	}
	return s.guard.grants
}

func (s *Server) readGrants() []grant {
	rules := map[string]map[kube.Key][]rbacv1.PolicyRule{"Role": {}, "ClusterRole": {}}
	each(s, "roles", func(r *rbacv1.Role) { rules["Role"][kube.KeyOf(r)] = r.Rules })
	each(s, "clusterroles", func(r *rbacv1.ClusterRole) { rules["ClusterRole"][kube.KeyOf(r)] = r.Rules })
	var out []grant
	add := func(namespace string, subjects []rbacv1.Subject, ref rbacv1.RoleRef) {
		key := kube.Key{Name: ref.Name}
		if ref.Kind == "Role" {
			key.Namespace = namespace
		}
		out = append(out, grant{namespace: namespace, subjects: subjects, rules: rules[ref.Kind][key]})
	}
	each(s, "rolebindings", func(b *rbacv1.RoleBinding) { add(b.Namespace, b.Subjects, b.RoleRef) })
	each(s, "clusterrolebindings", func(b *rbacv1.ClusterRoleBinding) { add("", b.Subjects, b.RoleRef) })
	return out
}

// each calls f for every object of a kind of RBAC.
func each[T any](s *Server, resource string, f func(*T)) {
	for _, r := range s.resources[rbacv1.SchemeGroupVersion.WithResource(resource)].objects {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, typed); err != nil {
			s.t.Errorf("kubetest: read %s %s: %v", resource, kube.KeyOf(r), err)
			continue
		}
		f(typed)
	}
}

// reviewKind is the kind of questions for rights. The server keeps none of them.
var reviewKind = Kind{GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview")}

// selfReviewKind is the kind of the question who asks. Every authenticated user may ask.
var selfReviewKind = Kind{GroupVersionKind: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview")}

// selfReview answers a SelfSubjectReview.
func (h handler) selfReview(c *call) (answer, error) {
	if c.Verb != "create" {
		return answer{}, h.refuse("does not serve %s", c.Request)
	}
	var r authenticationv1.SelfSubjectReview
	if err := h.typed(c, &r); err != nil {
		return answer{}, err
	}
	r.Status.UserInfo = authenticationv1.UserInfo{Username: c.who.name, Groups: c.who.groups}
	out, err := json.Marshal(r)
	return jsonAnswer(http.StatusCreated, out), err
}

// review answers a SubjectAccessReview. The caller holds s.mu.
func (h handler) review(c *call) (answer, error) {
	if c.Verb != "create" {
		return answer{}, h.refuse("does not serve %s", c.Request)
	}
	var r authorizationv1.SubjectAccessReview
	if err := h.typed(c, &r); err != nil {
		return answer{}, err
	}
	var ask attributes
	if in := r.Spec.ResourceAttributes; in != nil {
		ask = attributes{verb: in.Verb, group: in.Group, resource: in.Resource, subresource: in.Subresource, namespace: in.Namespace, name: in.Name}
	} else if in := r.Spec.NonResourceAttributes; in != nil {
		ask = attributes{verb: in.Verb, path: in.Path}
	}
	who := user{r.Spec.User, r.Spec.Groups}
	if namespace, name, ok := accountOf(r.Spec.User); ok {
		who = accountUser(namespace, name)
	}
	r.Status.Allowed = h.allows(who, ask)
	out, err := json.Marshal(r)
	return jsonAnswer(http.StatusCreated, out), err
}

// AggregateRoles does what the controller of aggregated ClusterRoles does: each has the rules
// of the ClusterRoles that it selects.
func (s *Server) AggregateRoles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	roles := s.resources[rbacv1.SchemeGroupVersion.WithResource("clusterroles")]
	if s.aggregated == len(roles.log) {
		return
	}
	all := roles.sorted(func(*record) bool { return true })
	for _, r := range all {
		if r.Object["aggregationRule"] == nil {
			continue
		}
		obj := r.DeepCopy()
		rules := []any{}
		for _, other := range all {
			own, _, _ := unstructured.NestedSlice(other.Object, "rules")
			if other != r && aggregates(r, other) {
				rules = append(rules, own...)
			}
		}
		if obj.Object["rules"] = rules; equality.Semantic.DeepEqual(r.Object["rules"], obj.Object["rules"]) {
			continue
		}
		if _, err := s.commit(roles, obj, false); err != nil {
			s.t.Errorf("kubetest: aggregate %s: %v", kube.KeyOf(obj), err)
		}
	}
	s.aggregated = len(roles.log)
}

// aggregates reports whether a ClusterRole selects another one.
func aggregates(role, other *record) bool {
	var typed rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, &typed); err != nil {
		return false
	}
	return slices.ContainsFunc(typed.AggregationRule.ClusterRoleSelectors, func(l metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&l)
		return err == nil && selector.Matches(labels.Set(other.GetLabels()))
	})
}
