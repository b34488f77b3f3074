package diagnose

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestSecrets(t *testing.T) {
	rule := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs}
	}
	own := rule("get", "update", "patch", "delete")
	own.ResourceNames = []string{"team-git"}
	other := rule("update")
	other.Resources = []string{"configmaps"}
	for name, c := range map[string]struct {
		why   string
		rules []rbacv1.PolicyRule
		warns bool
	}{
		"FormerTeam": {"what was recommended: it reads by writing", []rbacv1.PolicyRule{rule("create", "update", "patch", "delete")}, true},
		"Deletes":    {"an answer to a deletion shows a Secret, too", []rbacv1.PolicyRule{rule("delete")}, true},
		"Team":       {"what is recommended", []rbacv1.PolicyRule{rule("create"), own}, false},
		"Reads":      {"who may read them may go on", []rbacv1.PolicyRule{rule("patch"), rule("get")}, false},
		"Lists":      {"a list shows them as well", []rbacv1.PolicyRule{rule("patch", "list")}, false},
		"Everything": {"an administrator", []rbacv1.PolicyRule{rule("*")}, false},
		"Other":      {"this is about Secrets", []rbacv1.PolicyRule{other}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := well()
			s.Roles = []RoleSeen{{Workspace: "w", Kind: "Role", Name: "team", Rules: c.rules}}
			var got []Finding
			for _, f := range Check(s) {
				if f.Check == Secrets {
					got = append(got, f)
				}
			}
			if (len(got) > 0) != c.warns {
				t.Fatalf("%s: got %v", c.why, got)
			}
			if c.warns && (!strings.Contains(got[0].Message, "w: Role team") || !strings.Contains(got[0].Hint, "admission.secrets")) {
				t.Errorf("want which one, and what helps, got %+v", got[0])
			}
		})
	}
}
