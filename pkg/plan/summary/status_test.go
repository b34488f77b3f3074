package summary

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// large is a repository with two bundles on 5,000 clusters, of which most are
// Ready.
func large() []*Deployment {
	web, settings := objects("web", 5), objects("settings", 2)
	var out []*Deployment
	for i := range 5000 {
		d := &Deployment{Bundle: "web", Cluster: fmt.Sprintf("fleet-default/store-%04d", i), Repo: "fleet-default/shops",
			UID: types.UID(fmt.Sprintf("%05d", i*7919%5000)), State: fleet.Ready, Resources: web, Counts: fleet.ResourceCounts{Ready: 5, DesiredReady: 5}}
		switch {
		case i%33 == 0:
			d.State, d.Counts = fleet.NotReady, fleet.ResourceCounts{Ready: 4, NotReady: 1, DesiredReady: 5}
			d.NonReady = []fleet.NonReadyStatus{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "web-1",
				Summary: fleet.Summary{State: "updating", Transitioning: true, Message: []string{"Available: Deployment does not have minimum availability."}}}}
		case i%97 == 0:
			d.State, d.Message = fleet.ErrApplied, "upgrade web/web: Service web/web exists and does not belong to this release"
		case i%101 == 0:
			d.State, d.Counts = fleet.Modified, fleet.ResourceCounts{Ready: 4, Modified: 1, DesiredReady: 5}
			d.Modified = []fleet.ModifiedStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "web", Name: "web-0", Patch: `{"data":{"motd":"hello"}}`}}
		case i%211 == 0:
			d.State, d.Message = fleet.OutOfSync, `waits for partition "ring-1"`
		}
		s := *d
		s.Bundle, s.UID, s.State, s.Message, s.NonReady, s.Modified = "settings", "s"+d.UID, fleet.Ready, "", nil, nil
		s.Resources, s.Counts = settings, fleet.ResourceCounts{Ready: 2, DesiredReady: 2}
		out = append(out, d, &s)
	}
	return out
}

// TestGitRepoOf5000 shows the status of a repository on 5,000 clusters: what
// Rancher's Continuous Delivery pages count is exact, and each list that is not
// complete says so.
func TestGitRepoOf5000(t *testing.T) {
	st := GitRepoStatus(repo(nil), Sources{Deployments: large(), Bundles: []RepoBundle{{Name: "web", UID: "1", Targets: 5000}, {Name: "settings", UID: "2", Targets: 5000}}}, now)
	raw, err := yaml.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "TestGitRepoOf5000.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(raw)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if size := bytesOf(t, st); size > statusBytes {
		t.Errorf("%d bytes", size)
	}
}

// TestWaiting: what a Bundle waits for, for whom, and since when.
func TestWaiting(t *testing.T) {
	stop := &rollout.Stop{Partition: "ring-2", For: "ring-1", Allowed: 1, Clusters: rollout.Names{First: []string{"ns/c1", "ns/c2"}, Count: 2}}
	cases := map[string]struct {
		why  string
		f    Bundle
		want string
	}{
		"Nothing": {"no wait, no condition", Bundle{Deployments: d("c1 Ready", "c2 NotReady no pods", "c3 WaitApplied")}, ""},
		"Paused":  {"each reason once, with the first cluster", Bundle{Deployments: d("c2 OutOfSync paused", "c1 OutOfSync paused", "c3 Ready")}, "ns/c1 and 1 more: paused"},
		"Reasons": {"what most wait for comes first", Bundle{Deployments: d("c1 OutOfSync paused", "c2 Pending no namespace", "c3 Pending no namespace")}, "ns/c2 and 1 more: no namespace; ns/c1: paused"},
		"Many":    {"at most three", Bundle{Deployments: d("c1 Pending a", "c2 Pending b", "c3 Pending c", "c4 Pending d", "c5 Pending e")}, "ns/c1: a; ns/c2: b; ns/c3: c; and 2 other reasons"},
		"Rollout": {"whom a partition waits for", Bundle{Deployments: d("c3 OutOfSync later"), Rollout: rollout.Result{Stop: stop}}, `partition "ring-2" waits for partition "ring-1": 2 not there yet, 1 allowed: ns/c1, ns/c2; ns/c3: later`},
		"All": {"counts before reasons, since what comes last may be cut off", Bundle{Deployments: d("c3 OutOfSync later"), Rollout: rollout.Result{
			Stop: &rollout.Stop{Allowed: 1, Clusters: rollout.Names{First: []string{"c1"}, Count: 1}}, Deferred: 1, Outside: rollout.Names{First: []string{"c9"}, Count: 1}}},
			"waits for room: 1 unavailable, 1 allowed: c1; 1 cluster is in no partition of the rollout strategy and never gets the bundle: c9; " +
				"1 cluster is deferred: it is offline, silent or outside of its change windows; ns/c3: later"},
		"Deferred": {"no rollout waits for a cluster that is away; it is counted", Bundle{Deployments: d("c1 Ready"), Rollout: rollout.Result{Deferred: 2}}, "2 clusters are deferred: they are offline, silent or outside of their change windows"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := BundleStatus(&fleet.BundleStatus{}, &c.f, now)
			w := condition.Find(st.Conditions, fleet.ConditionWaiting)
			switch {
			case c.want == "" && w == nil:
			case w == nil || w.Status != "True" || w.Message != c.want || w.LastTransitionTime != now.Format(time.RFC3339):
				t.Errorf("%s: got %+v, want %q", c.why, w, c.want)
			}
			later := BundleStatus(&st, &c.f, now.Add(time.Hour))
			if diff := cmp.Diff(st, later); diff != "" {
				t.Errorf("the same facts an hour later make another status:\n%s", diff)
			}
			if c.want != "" {
				done := BundleStatus(&st, &Bundle{Deployments: d("c1 Ready")}, now)
				if condition.Find(done.Conditions, fleet.ConditionWaiting) != nil {
					t.Error("it stays when no deployment waits any more")
				}
			}
		})
	}
}

// TestBroken: a pair that cannot be worked out is ErrApplied with its message in
// every summary, whatever runs there (docs/decisions/0007).
func TestBroken(t *testing.T) {
	why := `render values for cluster "c1" in namespace "ns": no label zone`
	list := d("c1 Ready", "c2 Ready")
	broken := Uncomputable(*list[0], why)
	list[0] = &broken
	want := "ErrApplied(1) [Cluster ns/c1: " + why + "]"
	b := BundleStatus(&fleet.BundleStatus{}, &Bundle{Deployments: list}, now)
	r := condition.Find(b.Conditions, fleet.ConditionReady)
	if b.Summary.ErrApplied != 1 || b.Summary.Ready != 1 || b.Display.State != "ErrApplied" || r.Message != want {
		t.Errorf("Bundle: %+v %q", b.Summary, r.Message)
	}
	g := GitRepoStatus(repo(nil), Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: 2}}}, now)
	if r := condition.Find(g.Conditions, fleet.ConditionReady); g.Summary.ErrApplied != 1 || g.ReadyClusters != 1 || r.Message != want || g.Display.Message != why {
		t.Errorf("GitRepo: %+v %q", g.Summary, r.Message)
	}
	want = strings.Replace(want, "Cluster ns/c1", "Bundle app", 1)
	c := ClusterStatus(&fleet.Cluster{}, ClusterView{Deployments: list[:1], Life: Online}, now)
	if r := condition.Find(c.Conditions, fleet.ConditionReady); c.Summary.ErrApplied != 1 || r.Message != want {
		t.Errorf("Cluster: %+v %q", c.Summary, r.Message)
	}
	group := GroupStatus(&fleet.ClusterGroup{}, []Member{{Name: "c1", Summary: c.Summary}}, now)
	if r := condition.Find(group.Conditions, fleet.ConditionReady); group.Summary.ErrApplied != 1 || r.Message != want {
		t.Errorf("ClusterGroup: %+v %q", group.Summary, r.Message)
	}
}
