package diagnose

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A RoleSeen is a Role, or a ClusterRole that a RoleBinding grants, in a workspace.
type RoleSeen struct {
	Workspace string
	Kind      string
	Name      string
	Rules     []rbacv1.PolicyRule
}

// secrets names the Roles by which a user may change Secrets of a workspace without the
// right to read them: the API server refuses that, because its answer would show them.
func secrets(s Observed) []Finding {
	var roles []string
	for _, r := range s.Roles {
		if mayAnySecret(r.Rules, "update", "patch", "delete", "deletecollection") && !mayAnySecret(r.Rules, "get", "list", "watch") {
			roles = append(roles, r.Workspace+": "+r.Kind+" "+r.Name)
		}
	}
	if len(roles) == 0 {
		return nil
	}
	slices.Sort(roles)
	roles = slices.Compact(roles)
	return []Finding{{
		Check: Secrets, Verdict: Warn,
		Message: fmt.Sprintf("%d roles allow to change Secrets of a workspace and not to get them, which is refused (Kubernetes 1.30 and later): %s",
			len(roles), firstNames(roles, 3)),
		Hint: "name in resourceNames the Secrets that are to be changed, with get (docs/security.md), or set the value admission.secrets of the chart fleet to false",
	}}
}

// mayAnySecret reports whether rules allow one of some verbs on Secrets of any name.
func mayAnySecret(rules []rbacv1.PolicyRule, verbs ...string) bool {
	holds := func(list []string, words ...string) bool {
		return slices.Contains(list, "*") || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) == 0 && holds(r.APIGroups, "") && holds(r.Resources, "secrets") && holds(r.Verbs, verbs...)
	})
}
