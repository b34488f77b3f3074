package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

func bareObject(name string, annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

func TestWorkspaces(t *testing.T) {
	inTeam := func() *fleet.Cluster {
		c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}}
		c.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionReady, Status: "True"}}
		return c
	}
	cases := map[string]struct {
		why  string
		seen WorkspaceVisibility
		want []string
	}{
		"Nothing": {why: "a new installation", want: nil},
		"Standalone": {
			why:  "a namespace is a workspace by what is in it, or because a user has asked for it",
			seen: WorkspaceVisibility{Fleet: Fleet{Clusters: []*fleet.Cluster{inTeam()}}, Namespaces: []*metav1.PartialObjectMetadata{bareObject("other", nil), bareObject("new", map[string]string{workspace.AnnotationOrigin: workspace.OriginAsked}), bareObject("team", nil)}},
			want: []string{"new 0 of 0", "team 1 of 1"},
		},
		"Creator": {
			why:  "Rancher knows who has made it",
			seen: WorkspaceVisibility{Kinds: true, Records: []*metav1.PartialObjectMetadata{bareObject("team", map[string]string{workspace.AnnotationCreator: "u-1"})}},
			want: []string{"team 0 of 0 by u-1"},
		},
		"NoNamespace": {
			why:  "nothing can be in it yet",
			seen: WorkspaceVisibility{Kinds: true, Records: []*metav1.PartialObjectMetadata{bareObject("team", nil)}, Namespaces: []*metav1.PartialObjectMetadata{bareObject("other", nil)}},
			want: []string{"team 0 of 0: has no namespace yet; kubectl describe fleetworkspace team says why"},
		},
		"NoRecord": {
			why:  "Rancher does not show it",
			seen: WorkspaceVisibility{Kinds: true, Fleet: Fleet{Clusters: []*fleet.Cluster{inTeam()}}, Namespaces: []*metav1.PartialObjectMetadata{bareObject("team", nil)}},
			want: []string{"team 1 of 1: a namespace alone, without FleetWorkspace"},
		},
		"Unseen": {
			why:  "without the right to list namespaces nothing wrong is shown of them",
			seen: WorkspaceVisibility{Kinds: true, Fleet: Fleet{Clusters: []*fleet.Cluster{inTeam()}}},
			want: []string{"team 1 of 1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range Workspaces(c.seen) {
				text := fmt.Sprintf("%s %d of %d", w.Name, w.Clusters.States[fleet.Ready], w.Clusters.Total)
				if w.Creator != "" {
					text += " by " + w.Creator
				}
				if w.Message != "" {
					text += ": " + w.Message
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestUnserved(t *testing.T) {
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "old", Name: "c1", Labels: map[string]string{"env": "prod"}}}
	deployed := func(name string, change func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-c1", Name: name}}
		if change != nil {
			change(bd)
		}
		return bd
	}
	bundle := func(name string, targets ...fleet.BundleTarget) *fleet.Bundle {
		return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: name}, Spec: fleet.BundleSpec{Targets: targets}}
	}
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	dev := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}
	cases := map[string]struct {
		why     string
		have    []*fleet.BundleDeployment
		bundles []*fleet.Bundle
		groups  []*fleet.ClusterGroup
		want    []string
	}{
		"Nothing": {why: "an empty cluster loses nothing"},
		"Same": {
			why: "what both deploy goes on", have: []*fleet.BundleDeployment{deployed("web", nil)},
			bundles: []*fleet.Bundle{bundle("web", fleet.BundleTarget{ClusterSelector: prod})},
		},
		"NotMeant": {
			why: "a bundle of the name that is for other clusters does not count", have: []*fleet.BundleDeployment{deployed("web", nil)},
			bundles: []*fleet.Bundle{bundle("web", fleet.BundleTarget{ClusterSelector: dev})}, want: []string{"web"},
		},
		"ByGroup": {
			why: "the groups of the new workspace count", have: []*fleet.BundleDeployment{deployed("web", nil)},
			bundles: []*fleet.Bundle{bundle("web", fleet.BundleTarget{ClusterGroup: "stores"})},
			groups:  []*fleet.ClusterGroup{{ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: "stores"}, Spec: fleet.ClusterGroupSpec{Selector: prod}}},
		},
		"Missing": {
			why: "sorted, for people", have: []*fleet.BundleDeployment{deployed("b", nil), deployed("a", nil)}, want: []string{"a", "b"},
		},
		"Kept": {
			why: "what says keepResources stays", have: []*fleet.BundleDeployment{deployed("web", func(bd *fleet.BundleDeployment) { bd.Spec.Options.KeepResources = true })},
		},
		"Leaving": {
			why: "what goes anyway is no loss by the move",
			have: []*fleet.BundleDeployment{deployed("web", func(bd *fleet.BundleDeployment) {
				bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "x"}
			})},
		},
		"LeavingThere": {
			why: "a bundle that is being removed there deploys nothing", have: []*fleet.BundleDeployment{deployed("web", nil)},
			bundles: func() []*fleet.Bundle {
				b := bundle("web", fleet.BundleTarget{ClusterSelector: prod})
				b.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				return []*fleet.Bundle{b}
			}(), want: []string{"web"},
		},
		"Agent": {why: "its agent comes along", have: []*fleet.BundleDeployment{deployed("fleet-agent-c1", nil)}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Unserved(cluster, "new", c.have, c.bundles, c.groups)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
