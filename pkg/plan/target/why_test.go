package target

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func requires(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

// TestWhyNot checks the text for a cluster that does not get a Bundle: which
// rule excludes it, what the rule asks for, and what the cluster has of that.
func TestWhyNot(t *testing.T) {
	every := fleet.BundleTarget{Name: "all", ClusterSelector: &metav1.LabelSelector{}}
	gold, silver := Group{Name: "gold", Labels: labelled("tier", "1")}, Group{Name: "silver", Labels: labelled("tier", "2")}
	c1 := cluster("c1", labelled("env", "dev", "region", "eu"), gold, silver)
	shop := cluster("c-m-1", labelled(fleet.LabelDisplayName, "shop"))
	only := func(r ...fleet.BundleTargetRestriction) []fleet.BundleTargetRestriction { return r }
	cases := map[string]struct {
		why     string
		spec    fleet.BundleSpec
		cluster *Cluster
		want    string
	}{
		"ValueNotInList": {"the whole requirement, and the value that is there",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterSelector: requires("env", metav1.LabelSelectorOpIn, "prod", "stage")}}}, c1,
			"target 1 wants env in (prod,stage), c1 has env=dev"},
		"ValueExcluded": {"what may not be is there",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterSelector: requires("env", metav1.LabelSelectorOpNotIn, "dev")}}}, c1,
			"target 1 wants env notin (dev), c1 has env=dev"},
		"LabelMustNotBe": {"what may not be is there",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterSelector: absent("region")}}}, c1,
			"target 1 wants !region, c1 has region=eu"},
		"LabelMustBe": {"it is not there",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterSelector: requires("gpu", metav1.LabelSelectorOpExists)}}}, c1,
			"target 1 wants gpu, c1 has no label gpu"},
		"SecondOfTwoLabels": {"of several requirements the one that fails",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterSelector: match("env", "dev", "region", "us")}}}, c1,
			"target 1 wants env=dev,region=us, c1 has region=eu"},
		"NameOfAnother": {"people know a cluster by its display name",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "c9"}}}, shop,
			"target 1 wants clusterName c9, this is c-m-1 (shop)"},
		"NameBeforeLabels": {"of several criteria the first that fails",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "c9", ClusterSelector: match("env", "prod")}}}, c1,
			"target 1 wants clusterName c9 and env=prod, this is c1"},
		"LabelsAfterName": {"of several criteria the first that fails",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "c1", ClusterSelector: match("env", "prod")}}}, c1,
			"target 1 wants clusterName c1 and env=prod, c1 has env=dev"},
		"Group": {"the groups that the cluster is in",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroup: "bronze"}}}, c1,
			"target 1 wants clusterGroup bronze, c1 is in gold, silver"},
		"GroupSelector": {"the groups that the cluster is in",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroupSelector: match("tier", "3")}}}, c1,
			"target 1 wants clusterGroupSelector tier=3, c1 is in gold, silver"},
		"TwoGroups": {"each holds, but not for one group",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroup: "gold", ClusterGroupSelector: match("tier", "2")}}}, c1,
			"target 1 wants clusterGroup gold and clusterGroupSelector tier=2, c1 has them only in different cluster groups"},
		"NoCriteria": {"an empty block is a mistake that a reader does not see",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "x"}}}, c1,
			`target 1 "x" wants nothing: it has no criteria and matches no cluster, so not c1`},
		"Restricted": {"which restriction is in the way",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{every}, TargetRestrictions: only(fleet.BundleTargetRestriction{ClusterName: "c2"})}, c1,
			`target 1 "all" matches c1, but no restriction of the repository allows it: restriction 1 wants clusterName c2, this is c1`},
		"RestrictedTwice": {"there are more of them",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{every}, TargetRestrictions: only(
				fleet.BundleTargetRestriction{Name: "two", ClusterName: "c2"}, fleet.BundleTargetRestriction{ClusterGroup: "bronze"})}, c1,
			`target 1 "all" matches c1, but no restriction of the repository allows it: restriction 1 "two" wants clusterName c2, this is c1 (and 1 more)`},
		"RestrictedByGroup": {"both match, through different groups",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterGroup: "gold"}}, TargetRestrictions: only(
				fleet.BundleTargetRestriction{ClusterName: "c2"}, fleet.BundleTargetRestriction{ClusterGroup: "silver"})}, c1,
			"target 1 matches c1, but no restriction of the repository allows it: " +
				"restriction 2 does through cluster group silver, the target matches through cluster group gold"},
		"Target": {"the target itself refuses",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "not", ClusterGroup: "gold", DoNotDeploy: true}, every}}, c1,
			`target 1 "not" says doNotDeploy for c1`},
		"Customization": {"a customization refuses, and is called so",
			fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "eu", ClusterSelector: match("region", "eu"), DoNotDeploy: true}, every},
				TargetRestrictions: only(fleet.BundleTargetRestriction{ClusterSelector: &metav1.LabelSelector{}})}, c1,
			`customization 1 "eu" says doNotDeploy for c1`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := Compile(&c.spec)
			if err != nil {
				t.Fatal(err)
			}
			v := m.Match(c.cluster)
			if v.Deploy || v.Reason != c.want {
				t.Errorf("%s: got %t, %q, want %q", c.why, v.Deploy, v.Reason, c.want)
			}
		})
	}
}

// TestOverriddenTargets: overrideTargets that is there and empty leaves a Bundle
// without restrictions, so that what were customizations are targets.
func TestOverriddenTargets(t *testing.T) {
	m, err := Compile(&fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "was a customization", ClusterSelector: match("env", "dev")}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := m.Match(cluster("c1", labelled("env", "dev"))); !v.Deploy || v.Target != 0 || len(v.Customizations) > 0 {
		t.Errorf("got %+v", v)
	}
}

// TestMoreRestrictionsThanTargets: then no target is a customization.
func TestMoreRestrictionsThanTargets(t *testing.T) {
	m, err := Compile(&fleet.BundleSpec{
		Targets:            []fleet.BundleTarget{{ClusterName: "c1"}},
		TargetRestrictions: []fleet.BundleTargetRestriction{{ClusterName: "c2"}, {ClusterName: "c1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := m.Match(cluster("c1", nil)); !v.Deploy {
		t.Errorf("got %+v", v)
	}
}

// TestTwoOfOneName: a display name may be the name of another cluster; both get
// the Bundle, as in rancher/fleet.
func TestTwoOfOneName(t *testing.T) {
	m, err := Compile(&fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "shop"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Cluster{cluster("shop", nil), cluster("c-m-1", labelled(fleet.LabelDisplayName, "shop"))} {
		if v := m.Match(c); !v.Deploy {
			t.Errorf("%s: %s", c.Name, v.Reason)
		}
	}
}

// TestInvalidSelectorAnywhere: one selector that cannot be read stops the Bundle,
// wherever it stands (trap 8).
func TestInvalidSelectorAnywhere(t *testing.T) {
	bad := match("a b", "c")
	good := fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}}
	for name, spec := range map[string]fleet.BundleSpec{
		`target 2 "t": clusterSelector`:      {Targets: []fleet.BundleTarget{good, {Name: "t", ClusterSelector: bad}}},
		`target 1 "g": clusterGroupSelector`: {Targets: []fleet.BundleTarget{{Name: "g", ClusterGroupSelector: bad}}},
		`restriction 1: clusterSelector`: {Targets: []fleet.BundleTarget{good},
			TargetRestrictions: []fleet.BundleTargetRestriction{{ClusterSelector: bad}}},
		`restriction 1: clusterGroupSelector`: {Targets: []fleet.BundleTarget{good},
			TargetRestrictions: []fleet.BundleTargetRestriction{{ClusterGroupSelector: bad}}},
	} {
		_, err := Compile(&spec)
		if err == nil || len(err.Error()) < len(name) || err.Error()[:len(name)] != name {
			t.Errorf("want an error about %s, got %v", name, err)
		}
	}
}
