package bundle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// A scene is a snapshot that tests change a little.
func scene(t testing.TB, clusters int, change func(*fleet.Bundle)) *snapshot {
	t.Helper()
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app", Generation: 4}}
	b.Spec.Targets = []fleet.BundleTarget{{Name: "prod", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}
	if change != nil {
		change(b)
	}
	s := &snapshot{key: kube.KeyOf(b), bundle: b, deployments: map[kube.Key]*fleet.BundleDeployment{}}
	s.compiled, s.compiledErr = deployment.Compile(b, "s-1", nil)
	for i := range clusters {
		name := fmt.Sprintf("c%04d", i)
		p := &deployment.Place{Namespace: "c-" + name,
			Cluster: target.Cluster{Namespace: "ns", Name: name, Labels: map[string]string{"env": "prod"}}}
		p.Seal()
		s.candidates = append(s.candidates, &fleetstate.Candidate{Key: kube.Key{Namespace: "ns", Name: name}, Place: p})
	}
	return s
}

// deployed puts on every cluster what a first decision would write.
func (s *snapshot) deployed(t testing.TB, ready bool) *snapshot {
	t.Helper()
	for _, p := range decide(s).pairs {
		o, err := deploymentOrder(s, p)
		if err != nil {
			t.Fatal(err)
		}
		o.Move = true
		payload, err := deployment.Compose(o, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		payload.Object.Status.AppliedDeploymentID = payload.Object.Spec.DeploymentID
		payload.Object.Status.Ready = ready
		s.deployments[p.key] = payload.Object
	}
	return s
}

// unplace takes its namespace from a cluster.
func (s *snapshot) unplace(i int) {
	c := s.candidates[i]
	c.Place.Namespace, c.NoPlace = "", registration.NoNamespaceYet
}

// changed is the scene with another version of the Bundle.
func (s *snapshot) changed(t testing.TB, change func(*fleet.Bundle)) *snapshot {
	t.Helper()
	next := scene(t, len(s.candidates), change)
	next.deployments = s.deployments
	return next
}

// linesOf returns what a decision says, one line for each cluster.
func linesOf(d *decision) string {
	var b strings.Builder
	words := map[writeKind]string{nothing: "-", create: "create", replace: "replace", stage: "stage", patchMetadata: "retouch"}
	for _, p := range d.pairs {
		fmt.Fprintf(&b, "%s %s", p.key.Name, words[p.write])
		if p.want.Held != "" {
			fmt.Fprintf(&b, " (%s)", p.want.Held)
		}
		if p.want.Broken != "" {
			fmt.Fprintf(&b, " broken: %s", p.want.Broken)
		}
		b.WriteString("\n")
	}
	for _, l := range d.leaving {
		fmt.Fprintf(&b, "%s leaves (%s)\n", l.cluster.Name, l.reason)
	}
	if p := d.plan.Problem; p != nil {
		fmt.Fprintf(&b, "%s: %s\n", p.Reason, p.Message)
	}
	return b.String()
}

func TestDecide(t *testing.T) {
	v2 := func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "other" }
	one := func(b *fleet.Bundle) {
		n := intstr.FromInt32(1)
		b.Spec.DefaultNamespace, b.Spec.RolloutStrategy = "other", &fleet.RolloutStrategy{MaxUnavailable: &n}
	}
	cases := map[string]struct {
		why   string
		scene func() *snapshot
		want  string
	}{
		"New": {"nothing is there", func() *snapshot { return scene(t, 2, nil) }, "c0000 create\nc0001 create\n"},
		"Rest": {"what is as it should be is left alone", func() *snapshot { return scene(t, 2, nil).deployed(t, true) },
			"c0000 -\nc0001 -\n"},
		"Change": {"a new version goes everywhere at once by default",
			func() *snapshot { return scene(t, 2, nil).deployed(t, true).changed(t, v2) }, "c0000 replace\nc0001 replace\n"},
		"OneByOne": {"what has no room is staged, and says what it waits for",
			func() *snapshot { return scene(t, 2, nil).deployed(t, true).changed(t, one) },
			"c0000 replace\nc0001 stage (waits for room: 1 may be unavailable)\n"},
		"Paused": {"a pause is written, and versions are staged",
			func() *snapshot {
				return scene(t, 1, nil).deployed(t, true).changed(t, func(b *fleet.Bundle) { v2(b); b.Spec.Paused = true })
			}, "c0000 stage (paused)\n"},
		"Label": {"a label of the Bundle costs no new version",
			func() *snapshot {
				return scene(t, 1, nil).deployed(t, true).changed(t, func(b *fleet.Bundle) { b.Labels = map[string]string{fleet.LabelCommit: "c2"} })
			}, "c0000 retouch\n"},
		"DiffOnly": {"what is not part of the id is written all the same",
			func() *snapshot {
				return scene(t, 1, nil).deployed(t, true).changed(t, func(b *fleet.Bundle) {
					b.Spec.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "Service"}}}
				})
			}, "c0000 replace\n"},
		"Revived": {"wanted again: the mark goes, whatever the ids say",
			func() *snapshot {
				s := scene(t, 1, nil).deployed(t, true)
				s.deployments[s.candidates[0].Key].Annotations[fleet.AnnotationWithdrawn] = "b7"
				return s
			}, "c0000 replace\n"},
		"Lost": {"values that are gone are written again",
			func() *snapshot {
				s := scene(t, 1, nil).deployed(t, true)
				s.stale = map[kube.Key]bool{{Namespace: "c-c0000", Name: "app"}: true}
				return s
			}, "c0000 replace\n"},
		"Leaves": {"a cluster that matches no more is named with the reason",
			func() *snapshot {
				s := scene(t, 2, nil).deployed(t, true)
				s.candidates[1].Place.Labels["env"] = "dev"
				return s
			}, "c0000 -\nc0001 leaves (target 1 \"prod\" wants env=prod, c0001 has env=dev)\n"},
		"ClusterDeleted": {"the deletion of a cluster withdraws nothing",
			func() *snapshot {
				s := scene(t, 2, nil).deployed(t, true)
				s.candidates[1].Deleting = true
				return s
			}, "c0000 -\n"},
		"NoTargets": {"and says so with the first rule",
			func() *snapshot { return scene(t, 0, nil) }, "NoTargets: targets no cluster: there is none in ns\n"},
		"Hold": {"the brake holds what is new, not what is there",
			func() *snapshot {
				s := scene(t, 2, nil).deployed(t, true).changed(t, v2)
				delete(s.deployments, s.candidates[1].Key)
				s.hold = "suspended by ana"
				return s
			}, "c0000 - (suspended by ana)\nc0001 - (suspended by ana)\n"},
		"HoldAtRest": {"nothing is held where nothing is new",
			func() *snapshot { s := scene(t, 1, nil).deployed(t, true); s.hold = "suspended"; return s }, "c0000 -\n"},
		"Unplaced": {"a cluster without namespace waits alone",
			func() *snapshot { s := scene(t, 2, nil); s.unplace(0); return s },
			"c0000 - (the cluster has no namespace for deployments yet)\nc0001 create\n"},
		"OtherManager": {"two managers never write to one cluster",
			func() *snapshot { s := scene(t, 1, nil); s.candidates[0].Other = "abc"; return s },
			"c0000 - (another manager, installation abc, looks after this cluster)\n"},
		"Template": {"a template that fails stops its cluster only",
			func() *snapshot {
				s := scene(t, 2, func(b *fleet.Bundle) {
					b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"x": "${ .ClusterLabels.zone }"}}}
				})
				s.candidates[0].Place.Labels["zone"] = "a"
				return s
			}, "c0000 create\nc0001 - broken: targeting error: render values for cluster \"c0001\" in namespace \"ns\": "},
		"Blocked": {"what would limit and is not acted on fails closed",
			func() *snapshot {
				return scene(t, 1, nil).deployed(t, true).changed(t, func(b *fleet.Bundle) {
					v2(b)
					b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{BundleDeploymentOptions: fleet.BundleDeploymentOptions{
						AllowedTargetNamespaceSelector: &metav1.LabelSelector{}}})
				})
			}, "NotImplemented: allowedTargetNamespaceSelector has no effect in targets, so nothing new is deployed; set it for the whole Bundle\n"},
		"Rollout": {"a strategy that cannot be read changes nothing",
			func() *snapshot {
				return scene(t, 1, nil).deployed(t, true).changed(t, func(b *fleet.Bundle) {
					v2(b)
					bad := intstr.FromString("many")
					b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &bad}
				})
			}, "InvalidRolloutStrategy: maxUnavailable: \"many\" is neither a number nor a percentage like \"25%\"\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := linesOf(decide(c.scene()))
			if strings.HasSuffix(c.want, " ") { // the rest of a line is another package's words
				if !strings.HasPrefix(got, c.want) {
					t.Errorf("%s: got\n%s", c.why, got)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// A Bundle whose values have not arrived keeps what runs, and is Ready nowhere.
// TestDecideLimits: a template that makes too much for one cluster stops that
// cluster, and the message says so; the others go on.
func TestDecideLimits(t *testing.T) {
	s := scene(t, 3, func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{TemplateValues: map[string]string{
			"x": `${ if eq .ClusterName "c0001" }${ repeat 20000000 "x" }${ end }`,
		}}
	})
	d := decide(s)
	for i, p := range d.pairs {
		broken := strings.HasPrefix(p.want.Broken, "targeting error: ") && strings.Contains(p.want.Broken, `cluster "c0001"`) &&
			strings.Contains(p.want.Broken, "templateValues.x, line 1: repeat makes too much: templates of values may make 16 MiB")
		if broken != (i == 1) || (p.write == create) == broken {
			t.Errorf("%s: broken %q, effort %d", p.key, p.want.Broken, p.write)
		}
	}
	if len(d.pairs) != 3 || d.late || d.plan.Problem != nil {
		t.Errorf("%d pairs, late %t, problem %v", len(d.pairs), d.late, d.plan.Problem)
	}
}

func TestDecideWaits(t *testing.T) {
	s := scene(t, 2, nil).deployed(t, true)
	s.compiled, s.compiledErr = nil, reconcile.RequeueError("WaitForValues", 0, errors.New("waits for Secret"))
	d := decide(s)
	if len(d.plan.Order) != 2 || len(d.pairs) != 0 || len(d.leaving) != 0 || d.plan.Problem.Reason != "WaitForValues" {
		t.Errorf("%+v", d.plan)
	}
}

// What was worked out and needs no write is not worked out again.
func TestDecideRemembers(t *testing.T) {
	templated := func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"x": "${ .ClusterLabels.env }"}}}
	}
	s := scene(t, 1, templated).deployed(t, true)
	place := *s.candidates[0].Place
	place.Labels = map[string]string{"env": "prod", "irrelevant": "yes"}
	place.Seal()
	s.candidates[0].Place = &place
	d := decide(s)
	if linesOf(d) != "c0000 -\n" || d.pairs[0].version == nil || len(d.versions) != 1 {
		t.Fatalf("another label, the same outcome: %s %v", linesOf(d), d.versions)
	}
	s.versions = d.versions
	if d = decide(s); d.pairs[0].version != nil {
		t.Error("worked out twice")
	}
}

// BenchmarkDecide5000 measures a second decision without any change: for a
// Bundle that targets all of 5,000 clusters, and for one that targets ten of
// them, as after one of them was relabelled.
func BenchmarkDecide5000(b *testing.B) {
	const clusters = 5000
	for name, wanted := range map[string]int{"All": clusters, "Ten": 10} {
		b.Run(name, func(b *testing.B) {
			many := clusters
			s := scene(b, clusters, func(b *fleet.Bundle) { b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxNew: &many} })
			for i, c := range s.candidates {
				if i%(clusters/wanted) != 0 {
					c.Place.Labels = map[string]string{"env": "test"}
				}
			}
			s.deployed(b, true)
			for b.Loop() {
				if d := decide(s); len(d.pairs) != wanted {
					b.Fatal(len(d.pairs))
				}
			}
		})
	}
}

// An agent that cannot read parts gets an error of its own; the others go on, and
// what runs there runs on.
func TestDecideParts(t *testing.T) {
	large := func(n int, change func(*fleet.Bundle)) *snapshot {
		s := scene(t, n, change)
		s.parts = 30
		s.bundle.Annotations = map[string]string{fleet.AnnotationContentLargest: "a.yaml (8.0 MiB),\n b.yaml (2 KiB)"}
		for _, c := range s.candidates {
			c.Protocol = fleet.ProtocolVersion
		}
		return s
	}
	const refused = "above 1 MiB, the limit of this agent (protocol 1): upgrade the agent, make the bundle smaller, or use an OCI registry; " +
		"largest files: a.yaml (8.0 MiB), b.yaml (2 KiB); it is kept in 30 parts, which agents of protocol 2 can read"
	cases := map[string]struct {
		why   string
		scene func() *snapshot
		want  string
	}{
		"Reads": {"every agent of this version does", func() *snapshot { return large(2, nil) }, "c0000 create\nc0001 create\n"},
		"OldAgent": {"its status says what to do, and the other cluster goes on",
			func() *snapshot { s := large(2, nil); s.candidates[0].Protocol = 1; return s }, "c0000 - broken: " + refused + "\nc0001 create\n"},
		"Reference": {"its agents say no number",
			func() *snapshot { s := large(1, nil); s.candidates[0].Protocol = 0; return s },
			"c0000 - broken: " + strings.Replace(refused, "protocol 1", "the reference's", 1) + "\n"},
		"Unseen": {"it is not known yet what its agent reads",
			func() *snapshot {
				s := large(1, nil)
				s.candidates[0].Protocol, s.candidates[0].Unseen = 0, true
				return s
			},
			"c0000 - (waits for the first report of the agent, to know whether it can read a bundle of this size)\n"},
		"Runs": {"an agent that was replaced by an older one runs what it has",
			func() *snapshot {
				s := large(1, nil).deployed(t, true)
				s.candidates[0].Protocol = 1
				return s
			}, "c0000 -\n"},
		"RunsOlder": {"but cannot take another version; the one that runs stays",
			func() *snapshot {
				s := large(1, nil).deployed(t, true)
				next := large(1, func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "other" })
				next.deployments, next.candidates[0].Protocol = s.deployments, 1
				return next
			}, "c0000 - broken: " + refused + "\n"},
		"Whole": {"what is kept in one piece every agent reads",
			func() *snapshot { s := large(1, nil); s.parts, s.candidates[0].Protocol = 0, 1; return s }, "c0000 create\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, linesOf(decide(c.scene()))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// A person's order empties a cluster: of what the Bundle has there nothing is kept,
// and nothing new comes; the cluster's own agent stays.
func TestDecideEmptied(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		bundle string
		pairs  int
		leaves int
	}{
		"Workload": {why: "everything goes, and at once", bundle: "app", pairs: 1, leaves: 1},
		"Agent":    {why: "who is to remove it all stays", bundle: "fleet-agent-c0000", pairs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(t, 2, func(b *fleet.Bundle) { b.Name = c.bundle }).deployed(t, true)
			s.candidates[0].Emptied = true
			d := decide(s)
			if len(d.pairs) != c.pairs || len(d.leaving) != c.leaves {
				t.Fatalf("%s: want %d pairs and %d that leave, got %d and %d", c.why, c.pairs, c.leaves, len(d.pairs), len(d.leaving))
			}
			for _, l := range d.leaving {
				if l.cluster.Name != "c0000" || !l.ordered || l.reason == "" {
					t.Errorf("%s: got %+v", c.why, l)
				}
			}
		})
	}
}

// A deployment that cannot be written is never counted as Ready, whatever its agent
// reports.
func TestUnwrittenIsNotReady(t *testing.T) {
	v2 := func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "other" }
	for name, c := range map[string]struct {
		change func(s *snapshot)
		next   func(b *fleet.Bundle)
		want   bool
	}{
		"NoNamespace":           {change: func(s *snapshot) { s.unplace(0) }, want: true},
		"NoNamespaceNewVersion": {change: func(s *snapshot) { s.unplace(0) }, next: v2, want: true},
		"OtherManager":          {change: func(s *snapshot) { s.candidates[0].Other = "abc" }, want: true},
		"GuestNewVersion":       {change: func(s *snapshot) { s.foreign = map[kube.Key]foreignCluster{s.candidates[0].Key: {held: "stays"}} }, next: v2, want: true},
		"GuestAtRest":           {change: func(s *snapshot) { s.foreign = map[kube.Key]foreignCluster{s.candidates[0].Key: {held: "stays"}} }},
		"AtRest":                {change: func(*snapshot) {}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(t, 1, nil).deployed(t, true).changed(t, c.next)
			c.change(s)
			for key, want := range decide(s).plan.Wants {
				if want.Barred != c.want || want.Barred && want.Held == "" {
					t.Errorf("%s: %+v, want barred %v", key, want, c.want)
				}
			}
		})
	}
}

// A Bundle says for which clusters templates of its values are not rendered, as long as
// these have no label.
func TestDecideUnrendered(t *testing.T) {
	everywhere := func(helm *fleet.HelmOptions) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) {
			b.Spec.Targets[0].ClusterSelector = &metav1.LabelSelector{}
			b.Spec.Helm = helm
		}
	}
	text := &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"x": "${ .ClusterLabels.env }"}}}
	for name, c := range map[string]struct {
		change     func(*fleet.Bundle)
		unlabelled []int
		want       values.Unrendered
	}{
		"Labelled":    {change: everywhere(text)},
		"One":         {change: everywhere(text), unlabelled: []int{1}, want: values.Unrendered{Clusters: 1, First: "c0001"}},
		"Several":     {change: everywhere(text), unlabelled: []int{1, 2}, want: values.Unrendered{Clusters: 2, First: "c0001"}},
		"NoTemplate":  {change: everywhere(&fleet.HelmOptions{ReleaseName: "x"}), unlabelled: []int{1}},
		"SwitchedOff": {change: everywhere(&fleet.HelmOptions{DisablePreProcess: true, Values: text.Values}), unlabelled: []int{1}},
		"NotTargeted": {change: func(b *fleet.Bundle) { b.Spec.Helm = text }, unlabelled: []int{1}},
		"OfTheTarget": {
			change:     func(b *fleet.Bundle) { everywhere(nil)(b); b.Spec.Targets[0].Helm = text },
			unlabelled: []int{0}, want: values.Unrendered{Clusters: 1, First: "c0000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(t, 3, c.change)
			for _, i := range c.unlabelled {
				s.candidates[i].Place.Labels = nil
				s.candidates[i].Place.Seal()
			}
			if got := decide(s).plan.Unrendered; got != c.want {
				t.Errorf("want %+v, got %+v", c.want, got)
			}
		})
	}
}
