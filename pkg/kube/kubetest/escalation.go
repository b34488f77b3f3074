package kubetest

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// refuseEscalation refuses a role with rights that its writer does not have, and a binding to
// such a role, as
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
// describes: the verbs escalate and bind allow it. The caller holds s.mu.
func (c *call) refuseEscalation(s *Server, obj *unstructured.Unstructured) error {
	if c.res.Group != rbacv1.GroupName {
		return nil
	}
	if live := c.res.objects[kube.KeyOf(obj)]; live != nil {
		same := live.DeepCopy()
		same.SetOwnerReferences(obj.GetOwnerReferences())
		same.SetFinalizers(obj.GetFinalizers())
		same.SetManagedFields(obj.GetManagedFields())
		if equality.Semantic.DeepEqual(same.Object, obj.Object) {
			return nil // what the garbage collector needs
		}
	}
	return c.mayGrant(s, obj)
}

// mayGrant returns an error unless the user of a call may grant what a role or a binding
// grants.
func (c *call) mayGrant(s *Server, obj *unstructured.Unstructured) error {
	in := obj.GetNamespace()
	ask := attributes{verb: "escalate", group: rbacv1.GroupName, resource: c.Resource, namespace: in, name: obj.GetName()}
	var rules []rbacv1.PolicyRule
	if strings.HasSuffix(c.res.Kind.Kind, "Binding") {
		var b rbacv1.RoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &b); err != nil {
			return err
		}
		ask.verb, ask.name, ask.resource = "bind", b.RoleRef.Name, strings.ToLower(b.RoleRef.Kind)+"s"
		rules = rulesOf(s, b.RoleRef, in)
	} else {
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
			return err
		}
		rules = role.Rules
		if role.AggregationRule != nil {
			all := []string{"*"}
			rules = []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}, {NonResourceURLs: all, Verbs: all}}
		}
	}
	if s.allows(c.who, ask) {
		return nil
	}
	for _, one := range single(rules, in) {
		if !s.allows(c.who, one) {
			why := fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held: %+v", c.who.name, c.who.groups, one)
			return apierrors.NewForbidden(c.res.resource().GroupResource(), obj.GetName(), why)
		}
	}
	return nil
}

// rulesOf returns the rules of a role that a binding refers to.
func rulesOf(s *Server, ref rbacv1.RoleRef, namespace string) []rbacv1.PolicyRule {
	key := kube.Key{Name: ref.Name}
	if ref.Kind == "Role" {
		key.Namespace = namespace
	}
	var role rbacv1.ClusterRole
	r := s.resources[rbacv1.SchemeGroupVersion.WithResource(strings.ToLower(ref.Kind)+"s")].objects[key]
	if r == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, &role) != nil {
		return nil
	}
	return role.Rules
}

// single returns what rules grant in a namespace, one verb of one resource at a time.
func single(rules []rbacv1.PolicyRule, namespace string) []attributes {
	var out []attributes
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range r.Verbs {
			for _, path := range r.NonResourceURLs {
				out = append(out, attributes{verb: verb, path: path})
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					resource, sub, _ := strings.Cut(resource, "/")
					for _, name := range names {
						out = append(out, attributes{verb: verb, group: group, resource: resource, subresource: sub, namespace: namespace, name: name})
					}
				}
			}
		}
	}
	return out
}
