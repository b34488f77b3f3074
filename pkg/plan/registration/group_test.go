package registration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestGroupLabels(t *testing.T) {
	in := func(key string, op metav1.LabelSelectorOperator, values ...string) []metav1.LabelSelectorRequirement {
		return []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}
	}
	for name, c := range map[string]struct {
		why      string
		selector *metav1.LabelSelector
		want     map[string]string
		err      string
	}{
		"MatchLabels": {why: "they say what to give", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod", "a": ""}}, want: map[string]string{"env": "prod", "a": ""}},
		"Everything":  {why: "an empty selector needs nothing", selector: &metav1.LabelSelector{}, want: map[string]string{}},
		"Nothing":     {why: "no selector matches nothing", err: "no selector"},
		"Met": {
			why:      "what matchLabels fulfil needs no choice",
			selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}, MatchExpressions: in("env", metav1.LabelSelectorOpIn, "prod", "test")},
			want:     map[string]string{"env": "prod"},
		},
		"Absent": {why: "what must not be there is not given", selector: &metav1.LabelSelector{MatchExpressions: in("old", metav1.LabelSelectorOpDoesNotExist)}, want: map[string]string{}},
		"Choice": {why: "there is no rule for the choice between two", selector: &metav1.LabelSelector{MatchExpressions: in("region", metav1.LabelSelectorOpIn, "eu", "us")}, err: "region In (eu, us)"},
		"Exists": {why: "nor which value at all", selector: &metav1.LabelSelector{MatchExpressions: in("region", metav1.LabelSelectorOpExists)}, err: "region Exists"},
		"Contradiction": {
			why:      "no cluster can belong to it",
			selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: in("a", metav1.LabelSelectorOpNotIn, "b")}, err: "a NotIn (b)",
		},
		"Invalid":  {why: "the API server does not check selectors", selector: &metav1.LabelSelector{MatchExpressions: in("a", "Between", "b")}, err: "not valid"},
		"Reserved": {why: "a token must not give the name under which Rancher knows a cluster", selector: &metav1.LabelSelector{MatchLabels: map[string]string{fleet.LabelDisplayName: "x"}}, err: "Rancher"},
		"Identity": {why: "nor that of another Cluster", selector: &metav1.LabelSelector{MatchLabels: map[string]string{fleet.LabelCluster: "x"}}, err: fleet.LabelCluster},
		"Unmanage": {why: "nor one that takes the agent out of management", selector: &metav1.LabelSelector{MatchLabels: map[string]string{fleet.LabelNonManagedAgent: "true"}}, err: "not given by tokens"},
		"AgentPod": {why: "nor the one that says an agent asked", selector: &metav1.LabelSelector{MatchLabels: map[string]string{fleet.LabelCreatedByAgentPod: "true"}}, err: "not given by tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: fleet.ClusterGroupSpec{Selector: c.selector}}
			got, err := GroupLabels(g)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: want an error with %q, got %v, %v", c.why, c.err, got, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", c.why, err, diff)
			}
		})
	}
}

func TestNewGroup(t *testing.T) {
	g := NewGroup("w", "stores")
	given, err := GroupLabels(g)
	if err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(g.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(given)) || selector.Matches(labels.Set{}) {
		t.Errorf("a group that a token makes takes clusters with its labels and no other: %v, %v", given, err)
	}
	if accepted, _ := AcceptedLabels(given, false); len(accepted) > 0 {
		t.Errorf("an agent must not be able to put itself into a group that a token makes: %v", accepted)
	}
}
