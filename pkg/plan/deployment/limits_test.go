package deployment_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/placement"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// A world is random limits, and a Bundle that may go to clusters of two namespaces.
type world struct {
	*rand.Rand
	restrictions []*fleet.GitRepoRestriction
	policies     []*fleet.Policy
	bundle       *fleet.Bundle
}

// chance reports whether something happens that happens once in n times.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// one returns one of the texts, or often nothing.
func (w *world) one(texts ...string) string {
	if w.chance(3) {
		return ""
	}
	return texts[w.IntN(len(texts))]
}

// some returns some of the texts.
func (w *world) some(texts ...string) []string {
	return slices.DeleteFunc(texts, func(string) bool { return w.chance(2) })
}

func (w *world) selector() *metav1.LabelSelector {
	if !w.chance(3) {
		return nil
	}
	s := &metav1.LabelSelector{}
	for _, key := range w.some("env", "team") {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[key] = []string{"a", "b"}[w.IntN(2)]
	}
	if w.chance(3) {
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}
	}
	return s
}

func (w *world) options() fleet.BundleDeploymentOptions {
	o := fleet.BundleDeploymentOptions{
		ServiceAccount: w.one("a", "b", "c"), TargetNamespace: w.one("n", "m", "o"), DefaultNamespace: w.one("d"), AllowedTargetNamespaceSelector: w.selector(),
	}
	if w.chance(2) {
		o.CreateNamespace = new(bool)
		*o.CreateNamespace = w.chance(2)
	}
	if w.chance(2) {
		o.Helm = &fleet.HelmOptions{Repo: w.one("https://r", "https://evil"), Chart: w.one("web", "https://evil/x.tgz")}
	}
	return o
}

func newLimitedWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range w.IntN(4) {
		r := &fleet.GitRepoRestriction{ObjectMeta: metav1.ObjectMeta{Namespace: []string{"home", "far"}[w.IntN(2)], Name: fmt.Sprint("r", w.IntN(9), i)}}
		if w.chance(2) {
			r.AllowedServiceAccounts = w.some("a", "b")
		}
		if w.chance(2) {
			r.AllowedTargetNamespaces = w.some("n", "m")
		}
		r.AllowedTargetNamespaceSelector = w.selector()
		w.restrictions = append(w.restrictions, r)
	}
	for i := range w.IntN(4) {
		p := &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: []string{"home", "far"}[w.IntN(2)], Name: fmt.Sprint("p", w.IntN(9), i)}}
		p.RequireServiceAccount, p.AllowNamespaceCreation = w.chance(2), w.chance(3)
		if w.chance(2) {
			p.AllowedServiceAccounts = w.some("a", "c")
		}
		if w.chance(2) {
			p.HelmOp = &fleet.HelmOpPolicySpec{AllowedHelmRepoPatterns: w.some("https://r", "http.*"), AllowedChartPatterns: w.some("web", ".*tgz")}
		}
		w.policies = append(w.policies, p)
	}
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "app"}}
	b.Spec.BundleDeploymentOptions = w.options()
	if w.chance(2) {
		b.Spec.TargetCustomizationMode = fleet.TargetCustomizationAllMatches
	}
	if w.chance(3) {
		b.Spec.HelmOpOptions = &fleet.BundleHelmOptions{}
		b.Spec.Helm = &fleet.HelmOptions{Repo: []string{"https://r", "https://evil"}[w.IntN(2)], Chart: "web"}
	}
	for range w.IntN(4) {
		b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{BundleDeploymentOptions: w.options(), ClusterSelector: &metav1.LabelSelector{}})
	}
	b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}})
	if w.chance(2) {
		b.Spec.TargetRestrictions = []fleet.BundleTargetRestriction{{ClusterSelector: &metav1.LabelSelector{}}}
	}
	w.bundle = b
	return w
}

// violated returns the rule of a namespace that a deployment violates; empty for none. It
// looks at the objects one by one.
func (w *world) violated(namespace string, o fleet.BundleDeploymentOptions) string {
	var accounts, namespaces, repos, charts []string
	require, create := false, false
	for _, r := range w.restrictions {
		if r.Namespace != namespace {
			continue
		}
		accounts, namespaces = append(accounts, r.AllowedServiceAccounts...), append(namespaces, r.AllowedTargetNamespaces...)
		if s := r.AllowedTargetNamespaceSelector; s != nil {
			if o.TargetNamespace == "" || o.AllowedTargetNamespaceSelector == nil {
				return "allowedTargetNamespaceSelector"
			}
		}
	}
	for _, p := range w.policies {
		if p.Namespace != namespace {
			continue
		}
		accounts = append(accounts, p.AllowedServiceAccounts...)
		require, create = require || p.RequireServiceAccount, create || p.AllowNamespaceCreation
		if p.HelmOp != nil {
			repos, charts = append(repos, p.HelmOp.AllowedHelmRepoPatterns...), append(charts, p.HelmOp.AllowedChartPatterns...)
		}
	}
	switch {
	case len(accounts) > 0 && o.ServiceAccount != "" && !slices.Contains(accounts, o.ServiceAccount):
		return "allowedServiceAccounts"
	case require && o.ServiceAccount == "":
		return "requireServiceAccount"
	case len(namespaces) > 0 && !slices.Contains(namespaces, o.TargetNamespace):
		return "allowedTargetNamespaces"
	case require && !create && (o.CreateNamespace == nil || *o.CreateNamespace):
		return "allowNamespaceCreation"
	}
	matches := func(patterns []string, text string) bool {
		return len(patterns) == 0 || text == "" || slices.ContainsFunc(patterns, func(p string) bool {
			return regexp.MustCompile("^(?:" + p + ")$").MatchString(text)
		})
	}
	if w.bundle.Spec.HelmOpOptions != nil && o.Helm != nil && (!matches(repos, o.Helm.Repo) || !matches(charts, o.Helm.Chart)) {
		return "helmOp"
	}
	return w.wider(namespace, o)
}

// wider returns what the selector of a deployment matches although the restrictions of a
// namespace do not. The last restriction with a label, by name, counts.
func (w *world) wider(namespace string, o fleet.BundleDeploymentOptions) string {
	for _, set := range []labels.Set{{}, {"env": "a"}, {"env": "b"}, {"team": "a"}, {"team": "b"}, {"env": "a", "team": "a"}, {"env": "a", "team": "b"}, {"env": "b", "team": "a"}, {"env": "b", "team": "b"}} {
		last := map[string]string{}
		newest := map[string]string{}
		exists := false
		for _, r := range w.restrictions {
			if r.Namespace != namespace || r.AllowedTargetNamespaceSelector == nil {
				continue
			}
			for key, value := range r.AllowedTargetNamespaceSelector.MatchLabels {
				if r.Name >= newest[key] {
					last[key], newest[key] = value, r.Name
				}
			}
			exists = exists || len(r.AllowedTargetNamespaceSelector.MatchExpressions) > 0
		}
		allowed := labels.SelectorFromSet(last).Matches(set) && (!exists || set.Has("env"))
		if o.AllowedTargetNamespaceSelector == nil {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(o.AllowedTargetNamespaceSelector)
		if err != nil {
			return err.Error()
		}
		if s.Matches(set) && !allowed {
			return "a namespace with labels " + set.String()
		}
	}
	return ""
}

// Every deployment that results satisfies the limits of its Bundle's namespace and of its
// cluster's, whatever a Bundle and its targets say.
func TestDeploymentsSatisfyLimits(t *testing.T) {
	deployed, refused := 0, 0
	for seed := range uint64(5000) {
		w := newLimitedWorld(seed)
		k, err := deployment.CompileWithin(w.bundle, "s-1", nil, policy.Of(w.restrictions, w.policies))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, namespace := range []string{"home", "far"} {
			p := &deployment.Place{Namespace: "c-" + namespace, Cluster: target.Cluster{Namespace: namespace, Name: "c"}}
			p.Seal()
			v := k.Match(&p.Cluster)
			n, err := placement.Version(k, placement.Candidate{Place: p, Verdict: v}, placement.Rules{})
			if err != nil {
				refused++
				continue
			}
			deployed++
			for _, limiting := range []string{"home", namespace} {
				if rule := w.violated(limiting, n.Version.Options); rule != "" {
					t.Fatalf("seed %d: on %s the limits of %s are violated: %s\n%+v", seed, namespace, limiting, rule, n.Version.Options)
				}
			}
		}
	}
	if deployed < 1000 || refused < 1000 {
		t.Errorf("the worlds are not worth much: %d deployed, %d refused", deployed, refused)
	}
}

// Limits that do not concern a Bundle change none of its ids, and the Bundle of an agent has
// none on its cluster.
func TestLimitsThatDoNotConcern(t *testing.T) {
	strict := func(namespace string) policy.Namespaces {
		return policy.Of(nil, []*fleet.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, RequireServiceAccount: true}})
	}
	everywhere := []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	bundle := func(name string, labels map[string]string) *fleet.Bundle {
		return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: name, Labels: labels}, Spec: fleet.BundleSpec{Targets: everywhere}}
	}
	p := &deployment.Place{Namespace: "c-home", Cluster: target.Cluster{Namespace: "home", Name: "c"}}
	p.Seal()
	for name, c := range map[string]struct {
		bundle *fleet.Bundle
		limits policy.Namespaces
		same   bool
	}{
		"OtherNamespace": {bundle("app", nil), strict("far"), true},
		"Own":            {bundle("app", nil), strict("home"), false},
		"Agent":          {bundle(naming.AgentBundle("c"), nil), strict("home"), true},
		"AgentOfAnother": {bundle(naming.AgentBundle("d"), nil), strict("home"), false},
		"FromRepository": {bundle(naming.AgentBundle("c"), map[string]string{fleet.LabelRepoName: "fleet-agent"}), strict("home"), false},
		"FromHelmOp":     {bundle(naming.AgentBundle("c"), map[string]string{fleet.LabelHelmOpName: "x"}), strict("home"), false},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := deployment.Compile(c.bundle, "s-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			k, err := deployment.CompileWithin(c.bundle, "s-1", nil, c.limits)
			if err != nil {
				t.Fatal(err)
			}
			v := k.Match(&p.Cluster)
			want, err := plain.Inputs(v, p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.Inputs(v, p)
			if same := err == nil && got == want; same != c.same {
				t.Errorf("got %q and %v, want %q", got, err, want)
			}
			if refused := k.RefusalOn(v, p) != nil; refused == c.same {
				t.Errorf("refused: %v", refused)
			}
		})
	}
}
