package diagnose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestAccounts(t *testing.T) {
	type deployment struct{ name, now, staged, forced string }
	cases := map[string]struct {
		why  string
		list []deployment
		want []Finding
	}{
		"Well": {
			why:  "its own account, that of its GitRepo, or none",
			list: []deployment{{"a", "team", "team", ""}, {"b", "team", "team", "team"}, {"c", "", "", "team"}},
			want: []Finding{{Check: Accounts, Verdict: OK, Message: "each deployment uses an account that it may use"}},
		},
		"Own": {
			why:  "agents refuse it from the upgrade on, also what is only staged",
			list: []deployment{{"a", "fleet-agent", "fleet-agent", ""}, {"b", "team", "gitjob", "team"}},
			want: []Finding{{
				Check: Accounts, Verdict: Fail, Message: "2 deployments name an account of Fleet's own, which agents refuse: c/a (fleet-agent), c/b (gitjob)",
				Hint: "set serviceAccount in the GitRepo or fleet.yaml to an account with the rights of the bundle",
			}},
		},
		"Other": {
			why:  "a customization has chosen it, which it could before",
			list: []deployment{{"a", "admin", "admin", "team"}},
			want: []Finding{{
				Check: Accounts, Verdict: Warn, Message: "1 deployments act as another account than their GitRepo says: c/a (admin, not team)",
				Hint: "with their next commit they act as that of the GitRepo; give it the rights, or remove serviceAccount from the GitRepo",
			}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Observed{}
			for _, d := range c.list {
				bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: d.name}}
				bd.Spec.Options.ServiceAccount, bd.Spec.StagedOptions.ServiceAccount = d.now, d.staged
				s.Accounts = append(s.Accounts, AccountsOf(bd, d.forced)...)
			}
			if diff := cmp.Diff(c.want, accounts(s)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
