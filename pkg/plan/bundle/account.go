package bundle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// checkAccounts finds the service accounts in fleet.yaml that the bundle does
// not get: the repository has the last word on them, and no bundle may act as
// Fleet.
func (a *assembly) checkAccounts() {
	line, column := a.file.Position("serviceAccount")
	a.checkAccount(a.spec.ServiceAccount, line, column)
	for i := range a.spec.Targets {
		line, column := a.file.AtTarget(i, "serviceAccount")
		a.checkAccount(a.spec.Targets[i].ServiceAccount, line, column)
	}
}

func (a *assembly) checkAccount(name string, line, column int) {
	f := finding.Finding{Path: a.file.Path, Line: line, Column: column}
	switch forced := a.o.ServiceAccount; {
	case name == "" || name == forced:
		return
	case forced != "":
		f.Severity, f.Rule = finding.Warning, finding.RuleOverridden
		f.Message = fmt.Sprintf("serviceAccount %q is ignored; the repository is deployed as %q", name, forced)
		f.Hint = "remove it; the serviceAccount of the GitRepo counts for all of its bundles and targets"
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		f.Severity, f.Rule = finding.Error, finding.RuleValue
		f.Message = fmt.Sprintf("serviceAccount %q is not possible: want %s", name, fleetyaml.NameForm)
	case naming.FleetAccount(name):
		f.Severity, f.Rule = finding.Error, finding.RuleReserved
		f.Message = fmt.Sprintf("serviceAccount %q is Fleet's own; no bundle may act as it", name)
		f.Hint = "name an account that has the rights of this bundle"
	default:
		return
	}
	a.addFinding(f)
}

// forceAccount sets the account of the repository, also where a target names
// another one.
func forceAccount(s *fleet.BundleSpec, account string) {
	if account == "" {
		return
	}
	s.ServiceAccount = account
	for i := range s.Targets {
		if s.Targets[i].ServiceAccount != "" {
			s.Targets[i].ServiceAccount = account
		}
	}
}
