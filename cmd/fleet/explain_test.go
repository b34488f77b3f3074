package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/explain"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/status"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// giveIDs writes the ids and marks of the manager where a scenario has "@".
func giveIDs(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	var in preview.Input
	var bundles []*fleet.Bundle
	need := map[string]bool{}
	for _, o := range objects {
		switch o.GetKind() {
		case "Bundle":
			bundles = append(bundles, must(t, client.Convert[fleet.Bundle], o))
		case "Cluster":
			in.Clusters = append(in.Clusters, must(t, client.Convert[fleet.Cluster], o))
		case "ClusterGroup":
			in.Groups = append(in.Groups, must(t, client.Convert[fleet.ClusterGroup], o))
		case "BundleDeployment":
			need[o.GetName()] = need[o.GetName()] || places(o, "@") != nil
		}
	}
	made := map[string]preview.Cluster{}
	for _, b := range bundles {
		if !need[b.Name] {
			continue
		}
		b.Spec.RolloutStrategy = nil // everything at once
		in.Bundle = b
		result, err := preview.Compute(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range result.Clusters {
			made[b.Name+" "+c.Name] = c
		}
	}
	for _, o := range objects {
		at := places(o, "@")
		if at == nil {
			continue
		}
		bd := must(t, client.Convert[fleet.BundleDeployment], o)
		c := made[bd.Name+" "+view.ClusterOf(bd).Name]
		if c.Object == nil {
			t.Fatalf("%s is not meant for %s: %s", bd.Name, view.ClusterOf(bd).Name, c.Why)
		}
		for _, path := range at {
			if err := unstructured.SetNestedField(o.Object, c.ID, path...); err != nil {
				t.Fatal(err)
			}
		}
		o.SetAnnotations(c.Object.Annotations)
	}
}

// places are the fields of a deployment with this id.
func places(o *unstructured.Unstructured, id string) [][]string {
	if o.GetKind() != "BundleDeployment" {
		return nil
	}
	var out [][]string
	for _, path := range [][]string{{"spec", "deploymentID"}, {"spec", "stagedDeploymentID"}, {"status", "appliedDeploymentID"}} {
		if got, _, _ := unstructured.NestedString(o.Object, path...); got == id {
			out = append(out, path)
		}
	}
	return out
}

func must[T any](t *testing.T, read func(*unstructured.Unstructured) (*T, error), u *unstructured.Unstructured) *T {
	t.Helper()
	out, err := read(u)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// One cluster of many is explained with a dozen requests, of which none lists
// clusters or deployments; without a cluster both are listed once.
func TestExplainAsksLittle(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"explain pos-ui store-0344", []string{
			"get bundledeployments", "get bundles", "get clusters", "get configmaps", "get gitrepos", "get leases",
			"list bundles", "list clustergroups", "list gitreporestrictions", "list policies",
		}},
		{"explain pos-ui", []string{
			"get bundles", "get configmaps", "get gitrepos", "get leases", "list bundledeployments", "list bundledeployments",
			"list bundlenamespacemappings", "list bundles", "list clustergroups", "list clusters", "list clusters", "list gitreporestrictions", "list policies",
		}}, // both lists in pages of 500
	} {
		t.Run(c.args, func(t *testing.T) {
			st := stage{fake: shops(t)}
			out := st.run(t, strings.Fields(c.args))
			if !strings.Contains(out, "pos-ui") {
				t.Fatalf("no answer:\n%s", out)
			}
			got := slices.Sorted(slices.Values(st.fake.asked))
			if !slices.Equal(c.want, got) {
				t.Errorf("want %q\ngot  %q", c.want, got)
			}
		})
	}
}

// However different the answers are, the screen is bounded.
func TestExplainIsBounded(t *testing.T) {
	st := stage{fake: shops(t)}
	for _, o := range st.fake.held {
		if o.GetKind() == "BundleDeployment" && o.GetName() == "pos-ui" {
			n := o.GetLabels()[fleet.LabelCluster]
			conditions := []any{map[string]any{"type": "Deployed", "status": "False", "reason": "Error", "message": "out of luck " + n}}
			_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
			_ = unstructured.SetNestedField(o.Object, "s-other:o", "status", "appliedDeploymentID")
		}
	}
	out := st.run(t, strings.Fields("explain pos-ui"))
	if n := strings.Count(out, "\n"); n > explain.MaxAnswers+8 {
		t.Errorf("%d lines:\n%s", n, out)
	}
	const answers = 199 + 2 // each of ring 1, but one that is away; and all others wait
	if want := fmt.Sprintf("and %d more answers: fleet explain pos-ui -n stores -o wide", answers-explain.MaxAnswers); !strings.Contains(out, want) {
		t.Errorf("want %q in\n%s", want, out)
	}
}

// The screen of status asks the same at any size but for its pages, and a page
// of get is one request.
func TestManyClustersAskLittle(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"status", []string{
			"get configmaps", "get configmaps", "get configmaps", "get leases", "get leases", "list bundles", "list bundles",
			"list clusters", "list clusters", "list clusters", "list gitrepos", "list gitrepos", "list helmops", "list helmops", // a probe, and pages of 500
		}},
		{"get clusters --limit 3", []string{"get configmaps", "list clusters", "list clusters"}},
		{"get clusters --not-ready --limit 3", []string{"get configmaps", "list clusters", "list clusters", "list clusters"}},
		{"get deployments --bundle pos-ui", []string{"get bundles", "get configmaps", "list bundledeployments", "list bundledeployments", "list bundledeployments"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			st := stage{fake: shops(t)}
			st.run(t, strings.Fields(c.args))
			if got := slices.Sorted(slices.Values(st.fake.asked)); !slices.Equal(c.want, got) {
				t.Errorf("want %q\ngot  %q", c.want, got)
			}
		})
	}
}

// However much is wrong and moves, the screen is bounded.
func TestStatusIsBounded(t *testing.T) {
	f := shops(t)
	for _, o := range f.held {
		if o.GetKind() == "Bundle" {
			states := map[string]any{"errApplied": int64(3), "waitApplied": int64(3), "desiredReady": int64(6), "ready": int64(0)}
			_ = unstructured.SetNestedMap(o.Object, states, "status", "summary")
		}
	}
	st := stage{fake: f}
	out := st.run(t, []string{"status"})
	if n := strings.Count(out, "\n"); n > status.MaxAttention+status.MaxMoving+12 {
		t.Errorf("%d lines:\n%s", n, out)
	}
	if n := strings.Count(out, " more: fleet status -o wide\n"); n != 2 {
		t.Errorf("want two hints to -o wide, got %d:\n%s", n, out)
	}
}

// A fleet of any size in which all is well is two lines.
func TestQuietAtAnySize(t *testing.T) {
	f := shops(t)
	for _, o := range f.held {
		if o.GetKind() == "BundleDeployment" {
			continue
		}
		unstructured.RemoveNestedField(o.Object, "status", "display")
		unstructured.RemoveNestedField(o.Object, "status", "summary")
		unstructured.RemoveNestedField(o.Object, "status", "conditions")
		ready := []any{map[string]any{"type": "Ready", "status": "True"}}
		if _, ours, _ := fleet.Resource(o.GetKind()); ours {
			_ = unstructured.SetNestedSlice(o.Object, ready, "status", "conditions")
		}
	}
	st := stage{fake: f}
	want := "812 clusters: all Ready        50 bundles: all Ready        manager v0.3.1, leader for 19d\nnothing needs attention\n"
	if got := st.run(t, []string{"status"}); got != want {
		t.Errorf("want\n%sgot\n%s", want, got)
	}
}
