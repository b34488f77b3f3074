package target

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func match(pairs ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

func absent(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}}}
}

func labelled(pairs ...string) map[string]string { return match(pairs...).MatchLabels }

func cluster(name string, labels map[string]string, groups ...Group) *Cluster {
	return &Cluster{Namespace: "fleet-default", Name: name, Labels: labels, Groups: groups}
}

func TestMatch(t *testing.T) {
	prod := fleet.BundleTarget{Name: "prod", ClusterSelector: match("env", "prod")}
	cases := map[string]struct {
		why     string
		spec    fleet.BundleSpec
		cluster *Cluster
		want    Verdict
	}{
		"Selector": {
			why:     "the plain case: labels match",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{prod}},
			cluster: cluster("c2", labelled("env", "prod")),
			want:    Verdict{Deploy: true, Reason: `target 1 "prod" matches: env=prod`},
		},
		"SelectorOtherValue": {
			why:     "the reason shows both sides, so that a person sees what to change",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{prod}},
			cluster: cluster("c1", labelled("env", "dev")),
			want:    Verdict{Target: -1, Reason: `target 1 "prod" wants env=prod, c1 has env=dev`},
		},
		"SelectorNoLabel": {
			why:     "an absent label is not an empty one",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{prod}},
			cluster: cluster("c1", nil),
			want:    Verdict{Target: -1, Reason: `target 1 "prod" wants env=prod, c1 has no label env`},
		},
		"ClusterName": {
			why:     "by the name of the Cluster",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "c9"}}},
			cluster: cluster("c9", nil),
			want:    Verdict{Deploy: true, Reason: "target 1 matches: clusterName c9"},
		},
		"DisplayName": {
			why:     "Rancher's users know a cluster by its display name",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "shop"}}},
			cluster: cluster("c-m-abc", labelled(fleet.LabelDisplayName, "shop")),
			want:    Verdict{Deploy: true, Reason: "target 1 matches: clusterName shop"},
		},
		"OtherName": {
			why:     "the reason names the cluster at hand",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "canary", ClusterName: "c9"}}},
			cluster: cluster("c1", nil),
			want:    Verdict{Target: -1, Reason: `target 1 "canary" wants clusterName c9, this is c1`},
		},
		"Empty": {
			why:     "no criteria match nothing",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "x"}}},
			cluster: cluster("c1", nil),
			want:    Verdict{Target: -1, Reason: `target 1 "x" wants nothing: it has no criteria and matches no cluster, so not c1`},
		},
		"EverySelector": {
			why:     "an empty selector matches everything, labels or not",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}},
			cluster: cluster("c1", nil),
			want:    Verdict{Deploy: true, Reason: "target 1 matches: every cluster"},
		},
		"NoTargets": {
			why:     "a Bundle without targets goes to the group default",
			cluster: cluster("local", nil, Group{Name: "default"}),
			want:    Verdict{Deploy: true, Reason: `target 1 "default" matches: clusterGroup default`},
		},
		"NoTargetsNoGroup": {
			why:     "and to no other cluster",
			cluster: cluster("c1", nil),
			want:    Verdict{Target: -1, Reason: `target 1 "default" wants clusterGroup default, c1 is in no cluster group`},
		},
		"GroupSelectorEmptyWithoutGroup": {
			why:     "a cluster without group is looked at once, with no group labels",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroupSelector: &metav1.LabelSelector{}}}},
			cluster: cluster("c1", nil),
			want:    Verdict{Deploy: true, Reason: "target 1 matches: clusterGroupSelector every cluster"},
		},
		"GroupSelectorAbsentLabel": {
			why:     "DoesNotExist holds for no group as well",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroupSelector: absent("tier")}}},
			cluster: cluster("c1", nil),
			want:    Verdict{Deploy: true, Reason: "target 1 matches: clusterGroupSelector !tier"},
		},
		"GroupAndGroupSelectorSameGroup": {
			why: "both must hold for one group",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{
				{ClusterGroup: "a", ClusterGroupSelector: match("tier", "1")}}},
			cluster: cluster("c1", nil, Group{Name: "a"}, Group{Name: "b", Labels: labelled("tier", "1")}),
			want: Verdict{Target: -1,
				Reason: "target 1 wants clusterGroup a and clusterGroupSelector tier=1, c1 has them only in different cluster groups"},
		},
		"OtherGroup": {
			why:     "the reason lists the groups that the cluster is in",
			spec:    fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroup: "x"}}},
			cluster: cluster("c1", nil, Group{Name: "b"}, Group{Name: "a"}),
			want:    Verdict{Target: -1, Reason: "target 1 wants clusterGroup x, c1 is in a, b"},
		},
		"FirstTargetWins": {
			why: "order decides between targets",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{
				{Name: "a", ClusterSelector: match("env", "dev")}, prod,
				{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}},
			cluster: cluster("c2", labelled("env", "prod")),
			want:    Verdict{Deploy: true, Target: 1, Reason: `target 2 "prod" matches: env=prod`},
		},
		"DoNotDeployTarget": {
			why: "the first target decides, also against",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{
				{Name: "not", ClusterSelector: match("env", "prod"), DoNotDeploy: true},
				{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}},
			cluster: cluster("c2", labelled("env", "prod")),
			want:    Verdict{Reason: `target 1 "not" says doNotDeploy for c2`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := Compile(&c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, m.Match(c.cluster)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestCustomizations(t *testing.T) {
	all := fleet.BundleTarget{Name: "all", ClusterSelector: &metav1.LabelSelector{}}
	prod := fleet.BundleTarget{Name: "prod", ClusterSelector: match("env", "prod")}
	eu := fleet.BundleTarget{Name: "eu", ClusterSelector: match("region", "eu")}
	stop := fleet.BundleTarget{Name: "stop", ClusterSelector: match("region", "eu"), DoNotDeploy: true}
	allowAll := []fleet.BundleTargetRestriction{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
	c := cluster("c1", labelled("env", "prod", "region", "eu"))
	cases := map[string]struct {
		why  string
		spec fleet.BundleSpec
		want Verdict
	}{
		"FirstMatch": {
			why:  "customizations are those before the last R targets, the first that matches counts",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{prod, eu, all}, TargetRestrictions: allowAll},
			want: Verdict{Deploy: true, Target: 2, Customizations: []int{0}},
		},
		"AllMatches": {
			why: "in this mode all count, in order",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{prod, eu, all}, TargetRestrictions: allowAll,
				TargetCustomizationMode: fleet.TargetCustomizationAllMatches},
			want: Verdict{Deploy: true, Target: 2, Customizations: []int{0, 1}},
		},
		"FirstMatchHidesLaterRefusal": {
			why:  "a later doNotDeploy is not looked at",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{prod, stop, all}, TargetRestrictions: allowAll},
			want: Verdict{Deploy: true, Target: 2, Customizations: []int{0}},
		},
		"AllMatchesRefusal": {
			why: "one doNotDeploy is enough",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{prod, stop, all}, TargetRestrictions: allowAll,
				TargetCustomizationMode: fleet.TargetCustomizationAllMatches},
			want: Verdict{Target: 2, Customizations: []int{0, 1}},
		},
		"WithoutRestrictionsAllAreTargets": {
			why:  "only position distinguishes customizations from targets, and only with restrictions",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{prod, eu, all}},
			want: Verdict{Deploy: true, Target: 0},
		},
		"RestrictionKeepsOut": {
			why: "a target that matches is no good without a restriction that allows it",
			spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{all}, TargetRestrictions: []fleet.BundleTargetRestriction{
				{ClusterName: "c2"}}},
			want: Verdict{Target: -1},
		},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := Compile(&k.spec)
			if err != nil {
				t.Fatal(err)
			}
			got := m.Match(c)
			got.Reason = ""
			if diff := cmp.Diff(k.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", k.why, diff)
			}
		})
	}
}

// A target and the restriction that lets it through must hold for the same
// group; otherwise a tenant could borrow another group's permission.
func TestRestrictionAndTargetShareAGroup(t *testing.T) {
	m, err := Compile(&fleet.BundleSpec{
		Targets:            []fleet.BundleTarget{{ClusterGroup: "a"}},
		TargetRestrictions: []fleet.BundleTargetRestriction{{ClusterGroup: "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := m.Match(cluster("c1", nil, Group{Name: "a"}, Group{Name: "b"}))
	if v.Deploy {
		t.Errorf("deployed through two groups: %s", v.Reason)
	}
	want := "target 1 matches c1, but no restriction of the repository allows it: " +
		"restriction 1 does through cluster group b, the target matches through cluster group a"
	if v.Reason != want {
		t.Errorf("reason %q, want %q", v.Reason, want)
	}
}

func TestInvalidSelector(t *testing.T) {
	_, err := Compile(&fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "x", ClusterSelector: match("a b", "c")}}})
	var p *reconcile.Terminal
	if !errors.As(err, &p) || p.Reason != ReasonInvalidSelector {
		t.Fatalf("want a permanent fault, got %v", err)
	}
}

func TestRefusal(t *testing.T) {
	const first = "target 1 wants env=prod, c1 has env=dev"
	for n, want := range map[int]string{
		0: "targets no cluster: there is none in fleet-default",
		1: "targets no cluster: " + first,
		2: "targets none of 2 clusters: " + first,
	} {
		if got := Refusal("fleet-default", n, first); got != want {
			t.Errorf("%d clusters: got %q, want %q", n, got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	group := func(name string, s *metav1.LabelSelector) *fleet.ClusterGroup {
		return &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fleet.ClusterGroupSpec{Selector: s}}
	}
	groups, errs := CompileGroups([]*fleet.ClusterGroup{
		group("z", match("env", "prod")), group("a", &metav1.LabelSelector{}), group("none", nil), group("bad", match("a b", "")),
	})
	if len(errs) != 1 {
		t.Errorf("want one error for the broken group, got %v", errs)
	}
	got := fmt.Sprint(groups.Selecting(labelled("env", "prod")))
	if want := "[{a map[]} {z map[]}]"; got != want {
		t.Errorf("got %s, want %s: sorted, without the group that has no selector", got, want)
	}
}

func BenchmarkMatch5000(b *testing.B) {
	spec := &fleet.BundleSpec{
		Targets: []fleet.BundleTarget{
			{ClusterSelector: match("env", "prod", "ring", "1")}, {ClusterGroup: "canary"},
			{ClusterSelector: match("env", "prod")}, {ClusterGroup: "all"}},
		TargetRestrictions: []fleet.BundleTargetRestriction{
			{ClusterSelector: match("env", "prod")}, {ClusterGroup: "all"}},
	}
	m, err := Compile(spec)
	if err != nil {
		b.Fatal(err)
	}
	var clusters []*Cluster
	for i := range 5000 {
		clusters = append(clusters, cluster(fmt.Sprintf("c%d", i),
			labelled("env", []string{"prod", "dev"}[i%2], "ring", fmt.Sprint(i%4), "region", "eu"), Group{Name: "all"}))
	}
	b.ResetTimer()
	for b.Loop() {
		for _, c := range clusters {
			m.Match(c)
		}
	}
}
