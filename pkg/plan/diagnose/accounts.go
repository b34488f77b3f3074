package diagnose

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// An AccountSeen is a service account that a deployment names and may not keep.
type AccountSeen struct {
	Deployment string // "<namespace>/<name>" of the BundleDeployment
	Account    string
	Forced     string // the account of its GitRepo, or empty
}

// AccountsOf returns the service accounts that a deployment names, now or as soon as it
// moves on, and may not keep: those of Fleet's own, and others than the one of its GitRepo,
// which is forced where that is not empty.
func AccountsOf(bd *fleet.BundleDeployment, forced string) []AccountSeen {
	var out []AccountSeen
	now, next := bd.Spec.Options.ServiceAccount, bd.Spec.StagedOptions.ServiceAccount
	for i, name := range []string{now, next} {
		if i == 1 && next == now {
			break
		}
		if naming.FleetAccount(name) || forced != "" && name != "" && name != forced {
			out = append(out, AccountSeen{Deployment: bd.Namespace + "/" + bd.Name, Account: name, Forced: forced})
		}
	}
	return out
}

// accounts finds deployments that act as an account that they may not use.
func accounts(s Observed) []Finding {
	var own, other []string
	for _, a := range s.Accounts {
		text := fmt.Sprintf("%s (%s)", a.Deployment, a.Account)
		if naming.FleetAccount(a.Account) {
			own = append(own, text)
			continue
		}
		other = append(other, fmt.Sprintf("%s (%s, not %s)", a.Deployment, a.Account, a.Forced))
	}
	var out []Finding
	if len(own) > 0 {
		out = append(out, Finding{
			Check: Accounts, Verdict: Fail, Message: fmt.Sprintf("%d deployments name an account of Fleet's own, which agents refuse: %s", len(own), firstNames(own, 3)),
			Hint: "set serviceAccount in the GitRepo or fleet.yaml to an account with the rights of the bundle",
		})
	}
	if len(other) > 0 {
		out = append(out, Finding{
			Check: Accounts, Verdict: Warn, Message: fmt.Sprintf("%d deployments act as another account than their GitRepo says: %s", len(other), firstNames(other, 3)),
			Hint: "with their next commit they act as that of the GitRepo; give it the rights, or remove serviceAccount from the GitRepo",
		})
	}
	if len(out) == 0 {
		return []Finding{{Check: Accounts, Verdict: OK, Message: "each deployment uses an account that it may use"}}
	}
	return out
}
