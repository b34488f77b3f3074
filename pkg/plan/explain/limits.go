package explain

import (
	"cmp"
	"errors"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// limitingKinds are the kinds whose objects limit a namespace.
var limitingKinds = []string{policy.KindRestriction, policy.KindPolicy}

// limitsHidden reports whether the user may not see what limits the namespaces.
func (s *compiledSubject) limitsHidden() bool {
	for _, kind := range limitingKinds {
		if plural, _, _ := fleet.Resource(kind); s.isForbidden(plural) {
			return true
		}
	}
	return false
}

// limitNames names the objects that limit the namespace of the Bundle.
func (s *compiledSubject) limitNames() []string {
	var names []string
	for _, r := range s.Restrictions {
		if r.Namespace == s.Bundle.Namespace {
			names = append(names, policy.Object{Kind: policy.KindRestriction, Name: r.Name}.String())
		}
	}
	for _, p := range s.Policies {
		if p.Namespace == s.Bundle.Namespace {
			names = append(names, policy.Object{Kind: policy.KindPolicy, Name: p.Name}.String())
		}
	}
	return names
}

// refusal returns why limits refuse the Bundle, or its deployment on the cluster; nil if
// they do not.
func (b *bundleOnCluster) refusal() error {
	err := deployment.Refusal(b.Bundle, b.limits)
	if err == nil && b.compiled != nil && b.place != nil && b.verdict.Deploy {
		err = b.compiled.RefusalOn(b.verdict, b.place)
	}
	var v *policy.Violation
	if !errors.As(err, &v) { // options that cannot be merged are no limit
		return nil
	}
	return err
}

// refusedLink names the rule that refuses the Bundle, and the objects that set it.
func (h holdLinks) refusedLink(err error) linkState {
	c, conditions := h.deploymentPlace.Cluster, h.Bundle.Status.Conditions
	j := stop(reconcile.ReasonOf(err), err.Error()).withRule(err).detail("what was deployed before stays as it is").
		withSince(cmp.Or(view.ChangedAt(conditions, fleet.ConditionAccepted), view.ChangedAt(conditions, fleet.ConditionReady)))
	ns := h.Bundle.Namespace
	if deployment.Refusal(h.Bundle, h.limits) == nil && c != nil && c.Namespace != ns {
		j = j.detail("the limits of namespace " + c.Namespace + ", where the cluster is, count as well")
	}
	return j.hint("to deploy it", "change %s to what is allowed, or ask who may change the rule", h.file())
}

// withRule adds the rule of a violation, and the objects that set it.
func (l linkState) withRule(err error) linkState {
	var v *policy.Violation
	if !errors.As(err, &v) {
		return l
	}
	var by []string
	for _, o := range v.By {
		by = append(by, o.Kind+"/"+o.Name)
	}
	return l.detail("rule: "+v.Source()).withEvidence("rule", v.Rule).withEvidence("objects", strings.Join(by, " "))
}
