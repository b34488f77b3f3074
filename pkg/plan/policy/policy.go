// Package policy decides what GitRepoRestrictions and Policies allow in a namespace: for
// GitRepos, for HelmOps, for Bundles, and for each deployment of a Bundle.
//
// All objects of a namespace count together, in the order of their names: what one of them
// requires is required, lists are joined, the first default counts. The texts of violations
// are those of rancher/fleet.
package policy

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonInvalid is the reason of an object of these kinds that cannot be read: a pattern or
// a selector is not valid. Nothing that it concerns is allowed.
const ReasonInvalid = "InvalidPolicy"

// Kinds are the kinds of this package.
const (
	KindRestriction = "GitRepoRestriction"
	KindPolicy      = "Policy"
)

// An Object names a GitRepoRestriction or a Policy.
type Object struct{ Kind, Name string }

// String returns the kind and the quoted name.
func (o Object) String() string { return fmt.Sprintf("%s %q", o.Kind, o.Name) }

// A Violation is why an object or a deployment is refused. As an error it is wrapped in a
// reconcile.Terminal with reason fleet.EventPolicyViolation, or ReasonInvalid if an object
// cannot be read.
type Violation struct {
	// Text is the message in the words of rancher/fleet, at most 1,024 characters.
	Text string
	// Rule is the field that is violated, or that cannot be read.
	Rule string
	// By are the objects that set the field: restrictions by name, then Policies by name.
	By []Object
}

func (v *Violation) Error() string { return v.Text }

// Source names the rule and the objects that set it, at most three of them.
func (v *Violation) Source() string {
	var names []string
	for _, o := range v.By[:min(len(v.By), 3)] {
		names = append(names, o.String())
	}
	text := v.Rule + " of " + strings.Join(names, ", ")
	if more := len(v.By) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func violation(r rule, format string, args ...any) error {
	return reconcile.TerminalError(fleet.EventPolicyViolation, newViolation(r, format, args...))
}

func newViolation(r rule, format string, args ...any) *Violation {
	return &Violation{Text: condition.Cut(fmt.Sprintf(format, args...), condition.MessageLimit), Rule: r.name, By: r.by}
}

// A rule is a field and the objects that set it.
type rule struct {
	name string
	by   []Object
}

func (r *rule) add(o Object) {
	if !slices.Contains(r.by, o) {
		r.by = append(r.by, o)
	}
}

// isSet reports whether any object sets the field.
func (r *rule) isSet() bool { return len(r.by) > 0 }

// A list is a list of allowed values. It allows everything if no object sets it.
type list struct {
	rule
	values []string
}

func (l *list) join(o Object, values []string) {
	if len(values) > 0 {
		l.add(o)
		l.values = append(l.values, values...)
	}
}

// check returns why a value is not allowed; what is the word for it, and where says where it
// stands, empty for the object itself. An empty value is allowed.
func (l *list) check(what, value, where string) error {
	if value == "" || !l.isSet() || slices.Contains(l.values, value) {
		return nil
	}
	return violation(l.rule, "disallowed %s %s%s: %s not in allowed set %v", what, value, where, value, l.values)
}

// Limits are what the objects of one namespace allow. Nil Limits allow everything. They do
// not change, and may be used by several goroutines.
type Limits struct {
	defaults struct{ account, clientSecret, opAccount, helmSecret string }

	requireAccount   rule
	namespaces       rule // allowNamespaceCreation
	accounts         list
	repos            patterns
	clientSecrets    list
	targetNamespaces list
	selector         struct {
		rule
		merged *metav1.LabelSelector
		fault  *Violation
	}
	helmSecrets list
	helmRepos   patterns
	charts      patterns
}

// Aggregate joins the objects of one namespace. It returns nil if there are none. It does
// not change the objects.
func Aggregate(restrictions []*fleet.GitRepoRestriction, policies []*fleet.Policy) *Limits {
	if len(restrictions)+len(policies) == 0 {
		return nil
	}
	l := &Limits{}
	l.requireAccount.name, l.namespaces.name = "requireServiceAccount", "allowNamespaceCreation"
	l.accounts.name, l.targetNamespaces.name = "allowedServiceAccounts", "allowedTargetNamespaces"
	l.repos.name, l.clientSecrets.name = "allowedRepoPatterns", "allowedClientSecretNames"
	l.selector.name, l.helmSecrets.name = "allowedTargetNamespaceSelector", "allowedHelmSecretNames"
	l.helmRepos.name, l.charts.name = "allowedHelmRepoPatterns", "allowedChartPatterns"
	for _, r := range byName(restrictions) {
		l.addRestriction(r)
	}
	for _, p := range byName(policies) {
		l.addPolicy(p)
	}
	l.checkSelector()
	return l
}

// byName returns the objects in the order of their names.
func byName[T interface{ GetName() string }](objects []T) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

func (l *Limits) addRestriction(r *fleet.GitRepoRestriction) {
	o := Object{KindRestriction, r.Name}
	l.defaults.account = cmp.Or(l.defaults.account, r.DefaultServiceAccount)
	l.defaults.clientSecret = cmp.Or(l.defaults.clientSecret, r.DefaultClientSecretName)
	l.accounts.join(o, r.AllowedServiceAccounts)
	l.clientSecrets.join(o, r.AllowedClientSecretNames)
	l.targetNamespaces.join(o, r.AllowedTargetNamespaces)
	l.repos.join(o, r.AllowedRepoPatterns, false)
	if r.AllowedTargetNamespaceSelector != nil {
		l.addSelector(o, r.AllowedTargetNamespaceSelector)
	}
}

func (l *Limits) addPolicy(p *fleet.Policy) {
	o := Object{KindPolicy, p.Name}
	if p.RequireServiceAccount {
		l.requireAccount.add(o)
	}
	if p.AllowNamespaceCreation {
		l.namespaces.add(o)
	}
	l.accounts.join(o, p.AllowedServiceAccounts)
	if g := p.GitRepo; g != nil {
		l.defaults.account = cmp.Or(l.defaults.account, g.DefaultServiceAccount)
		l.defaults.clientSecret = cmp.Or(l.defaults.clientSecret, g.DefaultClientSecretName)
		l.clientSecrets.join(o, g.AllowedClientSecretNames)
		l.repos.join(o, g.AllowedRepoPatterns, true)
	}
	if h := p.HelmOp; h != nil {
		l.defaults.opAccount = cmp.Or(l.defaults.opAccount, h.DefaultServiceAccount)
		l.defaults.helmSecret = cmp.Or(l.defaults.helmSecret, h.DefaultHelmSecretName)
		l.helmSecrets.join(o, h.AllowedHelmSecretNames)
		l.helmRepos.join(o, h.AllowedHelmRepoPatterns, true)
		l.charts.join(o, h.AllowedChartPatterns, true)
	}
}

// SetGitRepoDefaults sets the defaults in the spec of a GitRepo, and reports whether that
// changed it.
func (l *Limits) SetGitRepoDefaults(spec *fleet.GitRepoSpec) bool {
	if l == nil {
		return false
	}
	account, secret := spec.ServiceAccount, spec.ClientSecretName
	spec.ServiceAccount = cmp.Or(account, l.defaults.account)
	spec.ClientSecretName = cmp.Or(secret, l.defaults.clientSecret)
	return spec.ServiceAccount != account || spec.ClientSecretName != secret
}

// GitRepoError returns why a GitRepo is refused, with the defaults set; nil if it is not.
func (l *Limits) GitRepoError(spec *fleet.GitRepoSpec) error {
	if l == nil {
		return nil
	}
	if err := l.targetNamespaceError(spec.TargetNamespace); err != nil {
		return err
	}
	return cmp.Or(
		l.accounts.check("serviceAccount", spec.ServiceAccount, ""),
		l.repos.check("repo", spec.Repo),
		l.clientSecrets.check("clientSecretName", spec.ClientSecretName, ""),
		l.accountMissing(spec.ServiceAccount),
	)
}

// SetHelmOpDefaults sets the defaults in the spec of a HelmOp.
func (l *Limits) SetHelmOpDefaults(spec *fleet.HelmOpSpec) {
	if l == nil {
		return
	}
	spec.ServiceAccount = cmp.Or(spec.ServiceAccount, l.defaults.opAccount)
	spec.HelmSecretName = cmp.Or(spec.HelmSecretName, l.defaults.helmSecret)
}

// DefaultHelmSecret returns the name of the Secret of HelmOps that name none; empty: there
// is no default.
func (l *Limits) DefaultHelmSecret() string {
	if l == nil {
		return ""
	}
	return l.defaults.helmSecret
}

// HelmOpError returns why a HelmOp is refused, with the defaults set; nil if it is not. The
// options of its targets count as well.
func (l *Limits) HelmOpError(spec *fleet.HelmOpSpec) error {
	if l == nil {
		return nil
	}
	if err := l.accounts.check("serviceAccount", spec.ServiceAccount, ""); err != nil {
		return err
	}
	return cmp.Or(l.chartsError(&spec.BundleSpec, spec.HelmSecretName), l.accountMissing(spec.ServiceAccount), l.targetsError(spec.Targets))
}

// BundleError returns why a Bundle is refused on all clusters; nil if it is not. It looks at
// what the Bundle and each of its targets say by themselves; Constrain looks at what becomes
// of it on a cluster.
func (l *Limits) BundleError(spec *fleet.BundleSpec) error {
	if l == nil {
		return nil
	}
	if l.selector.fault != nil {
		return reconcile.TerminalError(ReasonInvalid, l.selector.fault)
	}
	if err := l.accountMissing(spec.ServiceAccount); err != nil {
		return err
	}
	err := cmp.Or(
		l.accounts.check("serviceAccount", spec.ServiceAccount, ""),
		l.targetNamespaces.check("targetNamespace", spec.TargetNamespace, ""),
		l.targetsError(spec.Targets),
	)
	if err == nil && spec.HelmOpOptions != nil {
		err = l.chartsError(spec, spec.HelmOpOptions.SecretName)
	}
	return err
}

// targetsError returns why the own options of a target are refused.
func (l *Limits) targetsError(targets []fleet.BundleTarget) error {
	for i := range targets {
		t, where := &targets[i], " in target "+targetName(targets, i)
		err := cmp.Or(
			l.accounts.check("serviceAccount", t.ServiceAccount, where),
			l.targetNamespaces.check("targetNamespace", t.TargetNamespace, where),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// targetName is the name of a target, or the name that it gets by default.
func targetName(targets []fleet.BundleTarget, i int) string {
	return cmp.Or(targets[i].Name, fmt.Sprintf("target%03d", i))
}

// chartsError returns why the source of a chart is refused that agents or the manager
// download: of the spec, or of a target that has another one.
func (l *Limits) chartsError(spec *fleet.BundleSpec, secret string) error {
	if err := l.helmSecrets.check("helmSecretName", secret, ""); err != nil {
		return err
	}
	root := fleet.HelmOptions{}
	if spec.Helm != nil {
		root = *spec.Helm
	}
	if err := l.chartError(root.Repo, root.Chart); err != nil {
		return err
	}
	for i := range spec.Targets {
		if own := spec.Targets[i].Helm; own != nil && own.Repo+own.Chart != "" {
			if err := l.chartError(cmp.Or(own.Repo, root.Repo), cmp.Or(own.Chart, root.Chart)); err != nil {
				return err
			}
		}
	}
	return nil
}

// chartError returns why a chart is refused. The repository is matched as it is written. If
// there is none, the chart is the address of an archive: patterns for repositories then
// apply to it, unless there are patterns for charts.
func (l *Limits) chartError(repo, chart string) error {
	if repo == "" && !l.charts.isSet() {
		repo = chart
	}
	return cmp.Or(l.helmRepos.check("helm repo", repo), l.charts.check("helm chart", chart))
}

// accountMissing returns why an empty service account is refused.
func (l *Limits) accountMissing(account string) error {
	if account != "" || !l.requireAccount.isSet() {
		return nil
	}
	return violation(l.requireAccount, "serviceAccount is required by Policy but is not set")
}

// targetNamespaceError returns why a target namespace is refused.
func (l *Limits) targetNamespaceError(namespace string) error {
	if l.selector.fault != nil {
		return reconcile.TerminalError(ReasonInvalid, l.selector.fault)
	}
	if namespace == "" {
		for _, r := range []rule{l.targetNamespaces.rule, l.selector.rule} {
			if r.isSet() {
				return violation(r, "empty targetNamespace denied, because %s restriction is present", r.name)
			}
		}
	}
	return l.targetNamespaces.check("targetNamespace", namespace, "")
}

// Constrain returns the options of one deployment as the limits change them, and why the
// deployment is refused. The options are those of the Bundle, merged with those of its
// targets for the cluster. It does not change them. pulled has the credentials of a chart
// that is downloaded for the deployment; nil: there is none.
//
// If a service account is required, Helm creates no namespaces, unless a Policy allows it.
// The target namespace must match the selectors of the restrictions; the agent checks that.
func (l *Limits) Constrain(o fleet.BundleDeploymentOptions, pulled *fleet.BundleHelmOptions) (fleet.BundleDeploymentOptions, error) {
	if l == nil {
		return o, nil
	}
	err := cmp.Or(
		l.targetNamespaceError(o.TargetNamespace),
		l.accounts.check("serviceAccount", o.ServiceAccount, ""),
		l.accountMissing(o.ServiceAccount),
	)
	if err == nil && pulled != nil {
		err = l.chartsError(&fleet.BundleSpec{BundleDeploymentOptions: o}, pulled.SecretName)
	}
	if err != nil {
		return o, err
	}
	if !l.CreatesNamespaces() {
		o.CreateNamespace = new(bool)
	}
	if l.selector.merged != nil {
		o.AllowedTargetNamespaceSelector = andSelectors(l.selector.merged, o.AllowedTargetNamespaceSelector)
	}
	return o, nil
}

// CreatesNamespaces reports whether Helm may create the namespace of a release.
func (l *Limits) CreatesNamespaces() bool {
	return l == nil || !l.requireAccount.isSet() || l.namespaces.isSet()
}

// shown returns a value for a message: without the password of a URL.
func shown(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return value
	}
	if _, has := u.User.Password(); !has {
		return value
	}
	return u.Redacted()
}
