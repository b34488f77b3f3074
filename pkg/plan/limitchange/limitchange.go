// Package limitchange compares what two sets of GitRepoRestrictions and Policies make of the
// objects of a fleet, before the second set is applied.
package limitchange

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

// An Effect is what a change of the limits does to an object.
type Effect string

const (
	// Refused means that the object was allowed and is refused. What is deployed of it stays.
	Refused Effect = "refused"
	// Allowed means that the object was refused and is allowed.
	Allowed Effect = "allowed"
	// Changed means that the object stays allowed and gets other options.
	Changed Effect = "changed"
)

// A Change is the effect on one object.
type Change struct {
	Effect    Effect
	Kind      string // GitRepo, HelmOp or Bundle
	Namespace string
	Name      string
	// Clusters are the clusters that it concerns, as namespace/name; empty for GitRepos and
	// HelmOps, and for a Bundle that is refused or allowed as a whole.
	Clusters []string
	// Message says why the object is refused or was refused, or what it gets.
	Message string
	// Source is the rule that refuses it and the objects that set the rule; empty if the
	// message is not about a rule.
	Source string
}

// Limits are the objects that limit namespaces.
type Limits struct {
	Restrictions []*fleet.GitRepoRestriction
	Policies     []*fleet.Policy
}

// With returns the limits after the objects of more are applied: each replaces the one of
// its namespace and name, or is added.
func (l Limits) With(more Limits) Limits {
	return Limits{Restrictions: applied(l.Restrictions, more.Restrictions), Policies: applied(l.Policies, more.Policies)}
}

func applied[T interface {
	GetNamespace() string
	GetName() string
}](old, more []T) []T {
	key := func(o T) string { return o.GetNamespace() + "/" + o.GetName() }
	replaced := map[string]bool{}
	for _, o := range more {
		replaced[key(o)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(o T) bool { return replaced[key(o)] })
	return append(kept, more...)
}

// Namespaces returns the namespaces of the objects, by name.
func (l Limits) Namespaces() []string {
	var out []string
	for _, r := range l.Restrictions {
		out = append(out, r.Namespace)
	}
	for _, p := range l.Policies {
		out = append(out, p.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A Comparison compares limits before and after a change.
type Comparison struct {
	before, after           Limits
	limitsBefore, limitsNow policy.Namespaces
}

// New returns the comparison of two sets of limits.
func New(before, after Limits) *Comparison {
	return &Comparison{
		before: before, after: after,
		limitsBefore: policy.Of(before.Restrictions, before.Policies), limitsNow: policy.Of(after.Restrictions, after.Policies),
	}
}

// OfGitRepo returns the effect on a GitRepo, nil if there is none, and the service account
// that it has after the change. Its Bundles are judged by themselves.
func (cp *Comparison) OfGitRepo(repo *fleet.GitRepo) (c *Change, account string) {
	// The manager has written the defaults of before into the spec, so that they stay.
	old := repo.Spec
	was, now := cp.limitsBefore[repo.Namespace], cp.limitsNow[repo.Namespace]
	was.SetGitRepoDefaults(&old)
	next := old
	now.SetGitRepoDefaults(&next)
	c = compareErrors(was.GitRepoError(&old), now.GitRepoError(&next))
	if c == nil {
		c = changedDefaults(
			[3]string{"serviceAccount", old.ServiceAccount, next.ServiceAccount}, [3]string{"clientSecretName", old.ClientSecretName, next.ClientSecretName})
	}
	return c.at("GitRepo", repo.Namespace, repo.Name), next.ServiceAccount
}

// OfHelmOp returns the effect on a HelmOp, nil if there is none, and the service account that
// it has after the change.
func (cp *Comparison) OfHelmOp(op *fleet.HelmOp) (c *Change, account string) {
	old, next := op.Spec, op.Spec
	was, now := cp.limitsBefore[op.Namespace], cp.limitsNow[op.Namespace]
	was.SetHelmOpDefaults(&old)
	now.SetHelmOpDefaults(&next)
	c = compareErrors(was.HelmOpError(&old), now.HelmOpError(&next))
	if c == nil {
		c = changedDefaults(
			[3]string{"serviceAccount", old.ServiceAccount, next.ServiceAccount}, [3]string{"helmSecretName", old.HelmSecretName, next.HelmSecretName})
	}
	return c.at("HelmOp", op.Namespace, op.Name), next.ServiceAccount
}

// OfBundle returns the effects on a Bundle: one for each effect and message, with its
// clusters. A Bundle without a service account gets account, that of its GitRepo or HelmOp
// after the change. The limits of in do not count. The error is about a Bundle that cannot be
// computed for another reason than its limits.
func (cp *Comparison) OfBundle(in preview.Input, account string) ([]Change, error) {
	in.Restrictions, in.Policies = cp.before.Restrictions, cp.before.Policies
	old, oldErr := preview.Compute(in)
	if account != "" && in.Bundle.Spec.ServiceAccount == "" {
		in.Bundle = in.Bundle.DeepCopy()
		in.Bundle.Spec.ServiceAccount = account
	}
	in.Restrictions, in.Policies = cp.after.Restrictions, cp.after.Policies
	next, err := preview.Compute(in)
	for _, err := range []error{oldErr, err} {
		if err != nil && !isViolation(err) {
			return nil, err
		}
	}
	at := func(c *Change) *Change { return c.at("Bundle", in.Bundle.Namespace, in.Bundle.Name) }
	if c := compareErrors(oldErr, err); c != nil {
		return []Change{*at(c)}, nil
	}
	if err != nil {
		return nil, nil // refused before and after
	}
	var out []Change
	for i, now := range next.Clusters {
		c := compareClusters(old.Clusters[i], now)
		if c == nil {
			continue
		}
		where := now.Namespace + "/" + now.Name
		same := slices.IndexFunc(out, func(o Change) bool { return o.Effect == c.Effect && o.Message == c.Message })
		if same < 0 {
			same = len(out)
			out = append(out, *at(c))
		}
		out[same].Clusters = append(out[same].Clusters, where)
	}
	return out, nil
}

// compareClusters returns the effect on the deployment of a Bundle on a cluster.
func compareClusters(old, next preview.Cluster) *Change {
	switch {
	case old.Broken == "" && next.Broken != "":
		return &Change{Effect: Refused, Message: next.Broken}
	case old.Broken != "" && next.Broken == "":
		return &Change{Effect: Allowed, Message: old.Broken}
	case old.ID != next.ID:
		return &Change{Effect: Changed, Message: "is deployed again with other options"}
	}
	return nil
}

func isViolation(err error) bool {
	var v *policy.Violation
	return errors.As(err, &v)
}

// compareErrors returns the effect that two reasons for a refusal show; nil errors are none.
func compareErrors(old, next error) *Change {
	switch {
	case old == nil && next != nil:
		return refusal(Refused, next)
	case old != nil && next == nil:
		return refusal(Allowed, old)
	}
	return nil
}

func refusal(e Effect, err error) *Change {
	c := &Change{Effect: e, Message: err.Error()}
	var v *policy.Violation
	if errors.As(err, &v) {
		c.Source = v.Source()
	}
	return c
}

// changedDefaults returns the effect of defaults; fields are name, old and new value.
func changedDefaults(fields ...[3]string) *Change {
	var texts []string
	for _, f := range fields {
		if f[1] != f[2] {
			texts = append(texts, fmt.Sprintf("gets %s %s", f[0], cmp.Or(f[2], "(none)")))
		}
	}
	if texts == nil {
		return nil
	}
	return &Change{Effect: Changed, Message: strings.Join(texts, ", ")}
}

func (c *Change) at(kind, namespace, name string) *Change {
	if c != nil {
		c.Kind, c.Namespace, c.Name = kind, namespace, name
	}
	return c
}
