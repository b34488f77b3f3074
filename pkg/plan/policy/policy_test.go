package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func restriction(name string, change func(*fleet.GitRepoRestriction)) *fleet.GitRepoRestriction {
	r := &fleet.GitRepoRestriction{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	change(r)
	return r
}

func policyOf(name string, change func(*fleet.Policy)) *fleet.Policy {
	p := &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	change(p)
	return p
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// wantError compares the text of an error, its reason, and its source.
func wantError(t *testing.T, err error, text, source string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var v *Violation
	if !errors.As(err, &v) || !reconcile.IsTerminal(err) {
		t.Fatalf("want %q, got %v", text, err)
	}
	want := fleet.EventPolicyViolation
	if strings.Contains(text, ` of GitRepoRestriction "`) || strings.Contains(text, ` of Policy "`) {
		want = ReasonInvalid
	}
	if reconcile.ReasonOf(err) != want {
		t.Errorf("want reason %s, got %s", want, reconcile.ReasonOf(err))
	}
	if !strings.HasPrefix(err.Error(), text) {
		t.Errorf("want %q\ngot  %q", text, err)
	}
	if source != "" && v.Source() != source {
		t.Errorf("want the rule %q, got %q", source, v.Source())
	}
}

func TestGitRepoError(t *testing.T) {
	r := func(change func(*fleet.GitRepoRestriction)) []*fleet.GitRepoRestriction {
		return []*fleet.GitRepoRestriction{restriction("r", change)}
	}
	p := func(change func(*fleet.Policy)) []*fleet.Policy { return []*fleet.Policy{policyOf("p", change)} }
	repoPatterns := func(patterns ...string) func(*fleet.GitRepoRestriction) {
		return func(r *fleet.GitRepoRestriction) { r.AllowedRepoPatterns = patterns }
	}
	policyPatterns := func(patterns ...string) func(*fleet.Policy) {
		return func(p *fleet.Policy) { p.GitRepo = &fleet.GitRepoPolicySpec{AllowedRepoPatterns: patterns} }
	}
	namespaces := func(r *fleet.GitRepoRestriction) { r.AllowedTargetNamespaces = []string{"a", "b"} }
	for name, c := range map[string]struct {
		why          string
		restrictions []*fleet.GitRepoRestriction
		policies     []*fleet.Policy
		spec         fleet.GitRepoSpec
		want, source string
	}{
		"Nothing":      {why: "no limits, no refusal", spec: fleet.GitRepoSpec{Repo: "x"}},
		"EmptyObjects": {why: "objects that say nothing allow everything", restrictions: r(func(*fleet.GitRepoRestriction) {}), policies: p(func(*fleet.Policy) {})},
		"NoNamespace":  {restrictions: r(namespaces), want: "empty targetNamespace denied, because allowedTargetNamespaces restriction is present", source: `allowedTargetNamespaces of GitRepoRestriction "r"`},
		"NoNamespace2": {restrictions: r(func(r *fleet.GitRepoRestriction) { r.AllowedTargetNamespaceSelector = &metav1.LabelSelector{} }), want: "empty targetNamespace denied, because allowedTargetNamespaceSelector restriction is present"},
		"Namespace":    {restrictions: r(namespaces), spec: fleet.GitRepoSpec{TargetNamespace: "b"}},
		"BadNamespace": {restrictions: r(namespaces), spec: fleet.GitRepoSpec{TargetNamespace: "c"}, want: "disallowed targetNamespace c: c not in allowed set [a b]"},
		"EmptyPasses":  {why: "an empty value passes allow lists", policies: p(func(p *fleet.Policy) { p.AllowedServiceAccounts = []string{"a"} })},
		"Union":        {why: "both kinds add up", restrictions: r(func(r *fleet.GitRepoRestriction) { r.AllowedServiceAccounts = []string{"a"} }), policies: p(func(p *fleet.Policy) { p.AllowedServiceAccounts = []string{"b"} }), spec: fleet.GitRepoSpec{ServiceAccount: "b"}},
		"BadAccount":   {restrictions: r(func(r *fleet.GitRepoRestriction) { r.AllowedServiceAccounts = []string{"a"} }), policies: p(func(p *fleet.Policy) { p.AllowedServiceAccounts = []string{"b"} }), spec: fleet.GitRepoSpec{ServiceAccount: "c"}, want: "disallowed serviceAccount c: c not in allowed set [a b]", source: `allowedServiceAccounts of GitRepoRestriction "r", Policy "p"`},
		"Required":     {policies: p(func(p *fleet.Policy) { p.RequireServiceAccount = true }), want: "serviceAccount is required by Policy but is not set", source: `requireServiceAccount of Policy "p"`},
		"Secret":       {policies: p(func(p *fleet.Policy) { p.GitRepo = &fleet.GitRepoPolicySpec{AllowedClientSecretNames: []string{"s"}} }), spec: fleet.GitRepoSpec{ClientSecretName: "t"}, want: "disallowed clientSecretName t: t not in allowed set [s]"},
		"Unanchored":   {why: "patterns of restrictions match anywhere", restrictions: r(repoPatterns("example")), spec: fleet.GitRepoSpec{Repo: "https://example.com/a"}},
		"Anchored":     {why: "those of Policies match the whole", policies: p(policyPatterns("example")), spec: fleet.GitRepoSpec{Repo: "https://example.com/a"}, want: "disallowed repo https://example.com/a: https://example.com/a not in allowed set [example]"},
		"Alternatives": {why: "an anchor counts for every alternative", policies: p(policyPatterns("a|https://x")), spec: fleet.GitRepoSpec{Repo: "https://x/evil"}, want: "disallowed repo"},
		"GroupsEnd":    {why: "a pattern cannot leave its anchors", policies: p(policyPatterns(")|(")), spec: fleet.GitRepoSpec{Repo: "https://x"}, want: `allowedRepoPatterns of Policy "p": pattern ")|(": error parsing regexp: unexpected )`},
		"Either":       {why: "one kind suffices", restrictions: r(repoPatterns("one")), policies: p(policyPatterns("https://two")), spec: fleet.GitRepoSpec{Repo: "https://two"}},
		"Verbatim":     {why: "a text is allowed verbatim", policies: p(policyPatterns("https://x/a?b")), spec: fleet.GitRepoSpec{Repo: "https://x/a?b"}},
		"Password":     {why: "a password is not shown", policies: p(policyPatterns("y")), spec: fleet.GitRepoSpec{Repo: "https://u:secret@x"}, want: "disallowed repo https://u:xxxxx@x: https://u:xxxxx@x not in allowed set [y]"},
		"Broken":       {why: "a pattern that does not compile is no mismatch", restrictions: r(repoPatterns("[", "x")), spec: fleet.GitRepoSpec{Repo: "x"}, want: ""},
		"Broken2":      {restrictions: r(repoPatterns("[", "x")), spec: fleet.GitRepoSpec{Repo: "https://x"}, want: `allowedRepoPatterns of GitRepoRestriction "r": pattern "[": error parsing regexp: missing closing ]`, source: `allowedRepoPatterns of GitRepoRestriction "r"`},
		"Long":         {policies: p(policyPatterns(strings.Repeat("a", 2000))), spec: fleet.GitRepoSpec{Repo: "x"}, want: `allowedRepoPatterns of Policy "p": pattern`},
		"Complex":      {policies: p(policyPatterns("(a{500}){2}(b{500}){2}" + strings.Repeat("(c{1000})", 8))), spec: fleet.GitRepoSpec{Repo: "x"}, want: `allowedRepoPatterns of Policy "p": pattern`},
		"LongText":     {why: "a long text matches no pattern", restrictions: r(repoPatterns(".*")), spec: fleet.GitRepoSpec{Repo: strings.Repeat("a", 5000)}, want: "disallowed repo aaa"},
		"Order": {why: "the target namespace is judged first, a missing account last", restrictions: r(namespaces), policies: p(func(p *fleet.Policy) {
			p.RequireServiceAccount, p.GitRepo = true, &fleet.GitRepoPolicySpec{AllowedRepoPatterns: []string{"y"}}
		}), spec: fleet.GitRepoSpec{TargetNamespace: "a", Repo: "x"}, want: "disallowed repo x"},
		"BadSelector":   {restrictions: r(func(r *fleet.GitRepoRestriction) { r.AllowedTargetNamespaceSelector = labelled("a", "not a label!") }), spec: fleet.GitRepoSpec{TargetNamespace: "a"}, want: `allowedTargetNamespaceSelector of GitRepoRestriction "r": `},
		"OnlyHelmRules": {why: "rules of HelmOps do not concern GitRepos", policies: p(func(p *fleet.Policy) { p.HelmOp = &fleet.HelmOpPolicySpec{AllowedHelmRepoPatterns: []string{"y"}} }), spec: fleet.GitRepoSpec{Repo: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, Aggregate(c.restrictions, c.policies).GitRepoError(&c.spec), c.want, c.source)
			if t.Failed() {
				t.Log(c.why)
			}
		})
	}
}

// The first default in the order of names counts, and that of a restriction before that of a
// Policy. Defaults replace nothing.
func TestDefaults(t *testing.T) {
	account := func(name string) func(*fleet.GitRepoRestriction) {
		return func(r *fleet.GitRepoRestriction) { r.DefaultServiceAccount = name }
	}
	l := Aggregate(
		[]*fleet.GitRepoRestriction{restriction("b", account("second")), restriction("c", account("third")), restriction("a", func(*fleet.GitRepoRestriction) {})},
		[]*fleet.Policy{policyOf("a", func(p *fleet.Policy) {
			p.GitRepo = &fleet.GitRepoPolicySpec{DefaultServiceAccount: "first", DefaultClientSecretName: "auth"}
			p.HelmOp = &fleet.HelmOpPolicySpec{DefaultServiceAccount: "op", DefaultHelmSecretName: "helm"}
		})})
	spec := fleet.GitRepoSpec{}
	if !l.SetGitRepoDefaults(&spec) || spec.ServiceAccount != "second" || spec.ClientSecretName != "auth" {
		t.Errorf("got %+v", spec)
	}
	if l.SetGitRepoDefaults(&spec) {
		t.Error("the same defaults change the spec again")
	}
	own := fleet.GitRepoSpec{ServiceAccount: "x", ClientSecretName: "y"}
	if l.SetGitRepoDefaults(&own) || own.ServiceAccount != "x" {
		t.Errorf("a default replaces %+v", own)
	}
	op := fleet.HelmOpSpec{}
	l.SetHelmOpDefaults(&op)
	if op.ServiceAccount != "op" || op.HelmSecretName != "helm" || l.DefaultHelmSecret() != "helm" {
		t.Errorf("got %+v", op)
	}
	var none *Limits
	if none.SetHelmOpDefaults(&op); none.SetGitRepoDefaults(&spec) || none.DefaultHelmSecret() != "" || Aggregate(nil, nil) != nil {
		t.Error("no limits have defaults")
	}
}

func TestHelmOpError(t *testing.T) {
	limits := Aggregate(nil, []*fleet.Policy{policyOf("p", func(p *fleet.Policy) {
		p.AllowedServiceAccounts = []string{"a"}
		p.HelmOp = &fleet.HelmOpPolicySpec{
			AllowedHelmSecretNames: []string{"s"}, AllowedHelmRepoPatterns: []string{"https://r.*", "oci://r/.*"}, AllowedChartPatterns: []string{"web"},
		}
	})})
	onlyRepos := Aggregate(nil, []*fleet.Policy{policyOf("p", func(p *fleet.Policy) {
		p.HelmOp = &fleet.HelmOpPolicySpec{AllowedHelmRepoPatterns: []string{"https://r.*"}}
	})})
	good := func(change func(*fleet.HelmOpSpec)) fleet.HelmOpSpec {
		spec := fleet.HelmOpSpec{HelmSecretName: "s"}
		spec.ServiceAccount, spec.Helm = "a", &fleet.HelmOptions{Repo: "https://r/x", Chart: "web"}
		if change != nil {
			change(&spec)
		}
		return spec
	}
	target := func(h *fleet.HelmOptions, account string) func(*fleet.HelmOpSpec) {
		return func(s *fleet.HelmOpSpec) {
			s.Targets = []fleet.BundleTarget{{}, {BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: h, ServiceAccount: account}}}
		}
	}
	for name, c := range map[string]struct {
		limits *Limits
		spec   fleet.HelmOpSpec
		want   string
	}{
		"Good":          {limits, good(nil), ""},
		"Account":       {limits, good(func(s *fleet.HelmOpSpec) { s.ServiceAccount = "b" }), "disallowed serviceAccount b: b not in allowed set [a]"},
		"Secret":        {limits, good(func(s *fleet.HelmOpSpec) { s.HelmSecretName = "t" }), "disallowed helmSecretName t: t not in allowed set [s]"},
		"Repo":          {limits, good(func(s *fleet.HelmOpSpec) { s.Helm.Repo = "https://evil" }), "disallowed helm repo https://evil: https://evil not in allowed set [https://r.* oci://r/.*]"},
		"Chart":         {limits, good(func(s *fleet.HelmOpSpec) { s.Helm.Chart = "webs" }), "disallowed helm chart webs: webs not in allowed set [web]"},
		"Registry":      {limits, good(func(s *fleet.HelmOpSpec) { s.Helm = &fleet.HelmOptions{Repo: "oci://r/web"} }), ""},
		"NoHelm":        {limits, good(func(s *fleet.HelmOpSpec) { s.Helm = nil }), ""},
		"TargetRepo":    {limits, good(target(&fleet.HelmOptions{Repo: "https://evil"}, "")), "disallowed helm repo https://evil"},
		"TargetChart":   {limits, good(target(&fleet.HelmOptions{Chart: "evil"}, "")), "disallowed helm chart evil"},
		"TargetAccount": {limits, good(target(nil, "b")), "disallowed serviceAccount b in target target001: b not in allowed set [a]"},
		"Archive":       {onlyRepos, good(func(s *fleet.HelmOpSpec) { s.Helm = &fleet.HelmOptions{Chart: "https://evil/x.tgz"} }), "disallowed helm repo https://evil/x.tgz"},
		"ArchiveGood":   {onlyRepos, good(func(s *fleet.HelmOpSpec) { s.Helm = &fleet.HelmOptions{Chart: "https://r/x.tgz"} }), ""},
		"None":          {nil, good(nil), ""},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, c.limits.HelmOpError(&c.spec), c.want, "") })
	}
}

func TestBundleError(t *testing.T) {
	limits := Aggregate([]*fleet.GitRepoRestriction{restriction("r", func(r *fleet.GitRepoRestriction) {
		r.AllowedServiceAccounts, r.AllowedTargetNamespaces = []string{"a"}, []string{"n"}
	})}, []*fleet.Policy{policyOf("p", func(p *fleet.Policy) {
		p.RequireServiceAccount = true
		p.HelmOp = &fleet.HelmOpPolicySpec{AllowedHelmRepoPatterns: []string{"https://r"}, AllowedHelmSecretNames: []string{"s"}}
	})})
	bundle := func(account, namespace string, targets ...fleet.BundleTarget) fleet.BundleSpec {
		return fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{ServiceAccount: account, TargetNamespace: namespace}, Targets: targets,
		}
	}
	target := func(name, account, namespace string) fleet.BundleTarget {
		return fleet.BundleTarget{Name: name, BundleDeploymentOptions: fleet.BundleDeploymentOptions{ServiceAccount: account, TargetNamespace: namespace}}
	}
	op := bundle("a", "n")
	op.HelmOpOptions = &fleet.BundleHelmOptions{SecretName: "t"}
	opRepo := bundle("a", "n")
	opRepo.HelmOpOptions, opRepo.Helm = &fleet.BundleHelmOptions{}, &fleet.HelmOptions{Repo: "https://evil"}
	chart := bundle("a", "n")
	chart.Helm = &fleet.HelmOptions{Repo: "https://evil"}
	for name, c := range map[string]struct {
		spec fleet.BundleSpec
		want string
	}{
		"Good":            {bundle("a", "n", target("x", "", ""), target("y", "a", "n")), ""},
		"NoAccount":       {bundle("", "n", target("x", "a", "")), "serviceAccount is required by Policy but is not set"},
		"Account":         {bundle("b", "n"), "disallowed serviceAccount b: b not in allowed set [a]"},
		"Namespace":       {bundle("a", "m"), "disallowed targetNamespace m: m not in allowed set [n]"},
		"TargetAccount":   {bundle("a", "n", target("x", "b", "")), "disallowed serviceAccount b in target x: b not in allowed set [a]"},
		"TargetNamespace": {bundle("a", "n", target("", "", "m")), "disallowed targetNamespace m in target target000: m not in allowed set [n]"},
		"ChartSecret":     {op, "disallowed helmSecretName t: t not in allowed set [s]"},
		"ChartRepo":       {opRepo, "disallowed helm repo https://evil: https://evil not in allowed set [https://r]"},
		"OwnChart":        {chart, ""}, // its files come with the Bundle
	} {
		t.Run(name, func(t *testing.T) { wantError(t, limits.BundleError(&c.spec), c.want, "") })
	}
}

func TestConstrain(t *testing.T) {
	require := func(p *fleet.Policy) { p.RequireServiceAccount = true }
	allow := func(p *fleet.Policy) { p.AllowNamespaceCreation = true }
	yes, no := true, false
	selected := Aggregate([]*fleet.GitRepoRestriction{
		restriction("b", func(r *fleet.GitRepoRestriction) {
			r.AllowedTargetNamespaceSelector = &metav1.LabelSelector{
				MatchLabels:      map[string]string{"env": "dev", "tier": "1"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpExists}},
			}
		}),
		restriction("a", func(r *fleet.GitRepoRestriction) {
			r.AllowedTargetNamespaceSelector = &metav1.LabelSelector{
				MatchLabels:      map[string]string{"env": "prod", "team": "a"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpExists}},
			}
		}),
	}, nil)
	merged := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"env": "dev", "tier": "1", "team": "a"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpExists}},
	}
	with := func(own, all *metav1.LabelSelector) (fleet.BundleDeploymentOptions, fleet.BundleDeploymentOptions) {
		return fleet.BundleDeploymentOptions{TargetNamespace: "n", AllowedTargetNamespaceSelector: own}, fleet.BundleDeploymentOptions{TargetNamespace: "n", AllowedTargetNamespaceSelector: all}
	}
	plain, all := with(nil, merged)
	same, _ := with(labelled("env", "dev"), nil)
	more := merged.DeepCopy()
	more.MatchLabels["own"] = "1"
	own, ownAll := with(labelled("own", "1"), more)
	never := merged.DeepCopy()
	never.MatchExpressions = append(never.MatchExpressions, metav1.LabelSelectorRequirement{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"prod"}})
	conflict, conflictAll := with(labelled("env", "prod"), never)
	for name, c := range map[string]struct {
		why      string
		limits   *Limits
		in, want fleet.BundleDeploymentOptions
		refused  string
	}{
		"None":          {why: "no limits change nothing", in: fleet.BundleDeploymentOptions{CreateNamespace: &yes}, want: fleet.BundleDeploymentOptions{CreateNamespace: &yes}},
		"NoCreation":    {limits: Aggregate(nil, []*fleet.Policy{policyOf("p", require)}), in: fleet.BundleDeploymentOptions{ServiceAccount: "a", CreateNamespace: &yes}, want: fleet.BundleDeploymentOptions{ServiceAccount: "a", CreateNamespace: &no}},
		"OneAllows":     {why: "any Policy that allows it suffices", limits: Aggregate(nil, []*fleet.Policy{policyOf("p", require), policyOf("q", allow)}), in: fleet.BundleDeploymentOptions{ServiceAccount: "a"}, want: fleet.BundleDeploymentOptions{ServiceAccount: "a"}},
		"Selector":      {why: "a later restriction replaces labels; expressions are joined", limits: selected, in: plain, want: all},
		"OwnSame":       {why: "the same label twice is one", limits: selected, in: same, want: all},
		"OwnMore":       {why: "what the Bundle asks for counts as well", limits: selected, in: own, want: ownAll},
		"OwnConflicts":  {why: "a Bundle cannot replace a label", limits: selected, in: conflict, want: conflictAll},
		"NoNamespace":   {limits: selected, refused: "empty targetNamespace denied, because allowedTargetNamespaceSelector restriction is present"},
		"AccountMerged": {limits: Aggregate(nil, []*fleet.Policy{policyOf("p", require)}), refused: "serviceAccount is required by Policy but is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.in.DeepCopy()
			got, err := c.limits.Constrain(c.in, nil)
			wantError(t, err, c.refused, "")
			if diff := cmp.Diff(c.want, got); err == nil && diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(*before, c.in); diff != "" {
				t.Errorf("the options were changed\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(merged, selected.selector.merged); diff != "" {
		t.Errorf("the limits were changed\n%s", diff)
	}
}

// Objects count for their own namespace.
func TestOf(t *testing.T) {
	other := policyOf("p", func(p *fleet.Policy) { p.Namespace = "other" })
	got := Of([]*fleet.GitRepoRestriction{restriction("r", func(*fleet.GitRepoRestriction) {})}, []*fleet.Policy{other})
	if len(got) != 2 || got["team"] == nil || got["other"] == nil || got["none"] != nil {
		t.Errorf("got %v", got)
	}
}

// FuzzPattern: a pattern of any text compiles or is refused within its bounds, and an
// anchored one matches no part of a text.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a|b", "xb"}, {")|(", "x"}, {"(?i)A$", "a\nb"}, {"(?s:.)*", "a\n"}, {`\Qa`, "a"}, {"(?m)^a$", "a\nb"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := compile(pattern, true)
		if err != nil {
			return
		}
		whole := strings.TrimSuffix(text, "\n")
		if at := re.FindStringIndex(text); at != nil && (at[0] != 0 || at[1] < len(whole)) {
			t.Errorf("%q matches %v of %q", pattern, at, text)
		}
	})
}
