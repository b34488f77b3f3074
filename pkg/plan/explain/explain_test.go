package explain

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const commit = "8b7d410cc2f04b2d9e3a6a2f7f1a0e5d3c4b2a19"

var now = time.Date(2026, 8, 24, 14, 10, 44, 0, time.UTC)

// A world is one bundle of one repository on one cluster, where all is well.
type world struct {
	s  Subject
	at Place
}

func cond(kind string, status corev1.ConditionStatus, reason, message string, since time.Duration) fleet.Condition {
	return fleet.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: now.Add(-since).Format(time.RFC3339)}
}

func well() *world {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shops", Name: "shop-web", Generation: 2, Labels: map[string]string{fleet.LabelRepoName: "shop", fleet.LabelCommit: commit},
	}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "web/Chart.yaml", Content: "name: web\nversion: 1.4.0\n"}, {Name: "web/sub/Chart.yaml", Content: "name: sub"}}
	b.Spec.Targets = []fleet.BundleTarget{{Name: "prod", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}
	b.Spec.TargetRestrictions = []fleet.BundleTargetRestriction{limitOf(b.Spec.Targets[0])}
	b.Status.ObservedGeneration, b.Status.MaxUnavailable = 2, 3
	b.Status.Summary = fleet.BundleSummary{Ready: 3, DesiredReady: 3}
	b.Status.PartitionStatus = []fleet.PartitionStatus{{Name: "All", Count: 3, MaxUnavailable: 3, Summary: b.Status.Summary}}
	b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, "True", "", "", time.Hour)}

	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop", Generation: 1}}
	r.Spec.Branch, r.Spec.Targets = "main", []fleet.GitTarget{fleet.GitTarget(b.Spec.TargetRestrictions[0])}
	r.Status.ObservedGeneration, r.Status.Commit, r.Status.PollingCommit = 1, commit, commit
	r.Status.LastPollingTime = metav1.NewTime(now.Add(-6 * time.Minute))

	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shops", Name: "c1", Labels: map[string]string{"env": "prod"}, Annotations: map[string]string{"fleet.cattle.io/deployment-namespace": "cluster-c1"},
	}}
	c.Status.Namespace = "cluster-c1"
	c.Status.Agent.LastSeen = metav1.NewTime(now.Add(-12 * time.Second))
	c.Status.Conditions = []fleet.Condition{cond(fleet.ConditionConnected, "True", "", "", time.Hour), cond(fleet.ConditionReady, "True", "", "", time.Hour)}

	w := &world{
		s:  Subject{Bundle: b, Repo: r, Now: now},
		at: Place{Key: keyOf(c), Cluster: c, Written: now.Add(-4 * time.Minute)},
	}
	w.deploy()
	return w
}

// limitOf is a target of a GitRepo as the manager writes it to the restrictions of a Bundle.
func limitOf(t fleet.BundleTarget) fleet.BundleTargetRestriction {
	return fleet.BundleTargetRestriction{
		Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector, ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector,
	}
}

// targeted makes a list the targets of the GitRepo and of the Bundle; the default target
// is what a GitRepo without targets means.
func (w *world) targeted(list ...fleet.BundleTarget) {
	w.overridden(list...)
	w.s.Repo.Spec.Targets = nil
	for i, r := range w.s.Bundle.Spec.TargetRestrictions {
		if !isDefault(list[i]) {
			w.s.Repo.Spec.Targets = append(w.s.Repo.Spec.Targets, fleet.GitTarget(r))
		}
	}
}

// overridden makes a list the overrideTargets of the Bundle.
func (w *world) overridden(list ...fleet.BundleTarget) {
	w.s.Bundle.Spec.Targets, w.s.Bundle.Spec.TargetRestrictions, w.at.Deployment = list, nil, nil
	for _, t := range list {
		w.s.Bundle.Spec.TargetRestrictions = append(w.s.Bundle.Spec.TargetRestrictions, limitOf(t))
	}
}

// deploy makes the deployment as the manager writes it, and the agent's answer.
func (w *world) deploy() {
	b := w.s.Bundle.DeepCopy()
	b.Spec.RolloutStrategy = nil
	b.Namespace = w.at.Cluster.Namespace // a preview knows one workspace
	result, err := preview.Compute(preview.Input{Bundle: b, Clusters: []*fleet.Cluster{w.at.Cluster}, Groups: w.s.Groups})
	if err != nil || len(result.Clusters) != 1 || result.Clusters[0].Object == nil {
		panic(fmt.Sprint(err, result))
	}
	bd := result.Clusters[0].Object
	bd.Generation = 3
	bd.Status.AppliedDeploymentID, bd.Status.Release = bd.Spec.DeploymentID, "web/web:4"
	bd.Status.Ready, bd.Status.NonModified = true, true
	bd.Status.ResourceCounts = fleet.ResourceCounts{Ready: 3, DesiredReady: 3}
	bd.Status.Conditions = []fleet.Condition{
		cond(fleet.ConditionDeployed, "True", "", "", 3*time.Minute), cond(fleet.ConditionInstalled, "True", "", "", 3*time.Minute),
		cond(fleet.ConditionReady, "True", "", "", 3*time.Minute),
	}
	w.at.Deployment = bd
}

// says sets conditions of the deployment that speak of its version.
func (w *world) says(list ...fleet.Condition) {
	for i := range list {
		list[i].ObservedGeneration = w.at.Deployment.Generation
	}
	w.at.Deployment.Status.Conditions = list
}

// incomplete makes the newest commit one that was read but for what a condition says.
func (w *world) incomplete(kind, reason, message string) {
	w.s.Repo.Status.Reading = &fleet.Reading{Commit: commit, Generation: 1}
	w.s.Repo.Status.Conditions = []fleet.Condition{cond(kind, "True", reason, message, time.Minute)}
}

// old makes what runs an older version; the manager has written the new one.
func (w *world) old() { w.at.Deployment.Status.AppliedDeploymentID = "s-old:o" }

// outdated makes the manager hold the new version back.
func (w *world) behind() {
	w.at.Deployment.Spec.DeploymentID, w.at.Deployment.Status.AppliedDeploymentID = "s-old:o", "s-old:o"
}

// windows gives the cluster one Schedule with windows of two hours; an empty expression is
// one that cannot be used.
func (w *world) windows(cron string) {
	w.at.Deployment.Annotations = map[string]string{
		fleet.AnnotationWindows: schedule.Encode([]schedule.Definition{{Name: "nights", Cron: cron, Duration: "2h"}}),
	}
}

// held sets the entry of the cluster in the Bundle's status.
func (w *world) held(state fleet.BundleState, message string) {
	w.s.Bundle.Status.Summary.NonReadyResources = []fleet.NonReadyResource{{Name: "shops/c1", State: state, Message: message}}
}

// holds is a list that waits for a person: of the GitRepo of a name, or of the Bundle.
func (w *world) holds(repo string, lines ...string) {
	text := "5a8c1f0e would replace the release of 1 of 1 bundle\n" + strings.Join(lines, "\n") + "\n"
	held := cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonDeletionHeld, "would replace the release of 1 of 1 bundle; to go on: fleet approve 5a8c1f0e", time.Minute)
	if repo == "" {
		w.s.Bundle.Annotations = map[string]string{fleet.AnnotationDeletionHeld: text}
		w.s.Bundle.Status.Conditions = append(w.s.Bundle.Status.Conditions, held)
		return
	}
	w.s.Repo.Annotations = map[string]string{fleet.AnnotationDeletionHeld: text}
	w.s.Repo.Status.Conditions = append(w.s.Repo.Status.Conditions, held)
}

func (w *world) away() {
	w.at.Cluster.Status.Display.State = fleet.Offline
	w.at.Cluster.Status.Agent.LastSeen = metav1.NewTime(now.Add(-6 * time.Minute))
	w.at.Cluster.Status.Conditions = []fleet.Condition{
		cond(fleet.ConditionConnected, "False", fleet.ReasonOffline, "the agent missed 3 check-ins", 3*time.Minute),
		cond(fleet.ConditionReady, "True", "", "", 3*time.Minute),
	}
}

// text is an explanation as a person reads it, and what programs get of it.
func text(e Explanation) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\nstate %q stoppedAt %q reason %q message %q\n", e.Headline(now), e.State, e.StoppedAt, e.Reason, e.Message)
	if e.Since != nil {
		fmt.Fprintf(&out, "since %s\n", e.Since.Format(time.TimeOnly))
	}
	fmt.Fprintf(&out, "in a survey: %s\n", e.anonymous())
	for _, l := range e.Chain {
		fmt.Fprintf(&out, "  %-7s %-9s %s\n", l.Verdict, l.Name, l.Text)
		if l.Screen != "" {
			fmt.Fprintf(&out, "                    on a screen: %s\n", l.Screen)
		}
		for _, d := range l.Details {
			fmt.Fprintf(&out, "                    %s\n", d)
		}
	}
	for _, h := range e.Hints {
		fmt.Fprintf(&out, "%s: %s\n", h.For, h.Do)
	}
	if e.Paused != "" {
		fmt.Fprintf(&out, "paused: %s\n", e.Paused)
	}
	for _, text := range e.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", text)
	}
	return out.String()
}

// TestOf compares each answer with testdata/TestOf/<link>-<case>.golden. Run with
// -update after a change, and read the diff.
func TestOf(t *testing.T) {
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) {
			w := well()
			c.change(w)
			e := Explain(w.s, w.at)
			got := "# " + c.why + "\n" + text(e)
			if len(e.Chain) != len(Names) {
				t.Errorf("%d links", len(e.Chain))
			}
			if link, _, _ := strings.Cut(name, "-"); link != "well" && string(e.StoppedAt) != link {
				t.Errorf("%s: want it stopped at %s, got %q", c.why, link, e.StoppedAt)
			}
			if e.StoppedAt != "" && len(e.Hints) == 0 {
				t.Errorf("a stop at %s without anything that helps", e.StoppedAt)
			}
			path := filepath.Join("testdata", "TestOf", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Of changes nothing that it is given, and says the same again.
func TestOfIsPure(t *testing.T) {
	for name, c := range cases() {
		w := well()
		c.change(w)
		before := *w.s.Bundle.DeepCopy()
		first := text(Explain(w.s, w.at))
		if second := text(Explain(w.s, w.at)); first != second {
			t.Errorf("%s: another answer the second time:\n%s\n%s", name, first, second)
		}
		if diff := cmp.Diff(before, *w.s.Bundle); diff != "" {
			t.Errorf("%s: changed its input:\n%s", name, diff)
		}
	}
}

// Texts for programs contain no times; those are in fields. Change windows follow from the
// clock, so that their texts change with it.
func TestTextsHaveNoTimes(t *testing.T) {
	for name, c := range cases() {
		if strings.HasPrefix(name, "pause-window") || name == "delivered-override" {
			continue
		}
		w := well()
		c.change(w)
		early, late := w.s, w.s
		late.Now = early.Now.Add(90 * time.Hour)
		a, b := Explain(early, w.at), Explain(late, w.at)
		for i := range a.Chain {
			if a.Chain[i].Text != b.Chain[i].Text {
				t.Errorf("%s: the text of %s changes with time: %q, %q", name, a.Chain[i].Name, a.Chain[i].Text, b.Chain[i].Text)
			}
		}
		if a.Message != b.Message && a.StoppedAt == b.StoppedAt {
			t.Errorf("%s: the message changes with time: %q, %q", name, a.Message, b.Message)
		}
	}
}

// An overview has an answer for each of 5,000 clusters.
func TestOverviewOfMany(t *testing.T) {
	w := well()
	var places []Place
	for i := range 5000 {
		c := w.at.Cluster.DeepCopy()
		c.Name, c.Status.Namespace = fmt.Sprintf("c%04d", i), fmt.Sprintf("cluster-%d", i)
		p := Place{Key: keyOf(c), Cluster: c, Deployment: w.at.Deployment}
		if i%10 == 0 {
			p.Deployment = nil
		}
		places = append(places, p)
	}
	began := time.Now()
	v := Overview(w.s, places)
	t.Logf("%d answers after %s", len(v.Answers), time.Since(began))
	if v.Clusters != 5000 {
		t.Errorf("want 5000 clusters, got %d", v.Clusters)
	}
	counted := 0
	for _, a := range v.Answers {
		counted += a.Clusters
	}
	if counted != 5000 {
		t.Errorf("want an answer for each of 5000 clusters, got %d", counted)
	}
}

// The plan of an overview is the manager's: its reasons are those that the
// Bundle's status repeats.
func TestOverviewPlans(t *testing.T) {
	w := well()
	w.s.Bundle.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{
		{Name: "first", ClusterName: "c1"}, {Name: "second", ClusterName: "c2"},
	}}
	w.old()
	w.says(cond(fleet.ConditionDeployed, "False", "Error", "out of luck", time.Minute))
	c2 := w.at.Cluster.DeepCopy()
	c2.Name = "c2"
	c3 := w.at.Cluster.DeepCopy()
	c3.Name = "c3"
	c4 := w.at.Cluster.DeepCopy()
	c4.Name, c4.Labels = "c4", nil
	held := w.at.Deployment.DeepCopy()
	held.Spec.DeploymentID, held.Spec.StagedDeploymentID, held.Annotations = "s-old:o", "s-old:o", nil
	held.Status.Conditions = nil
	limit := w.s.Bundle.Spec.RolloutStrategy
	limit.Partitions[0].MaxUnavailable = zero()
	v := Overview(w.s, []Place{
		{Key: keyOf(c4), Cluster: c4}, {Key: keyOf(c3), Cluster: c3}, {Key: keyOf(c2), Cluster: c2, Deployment: held}, w.at,
	})
	var got []string
	for _, a := range v.Answers {
		got = append(got, fmt.Sprintf("%d %s: %s", a.Clusters, a.Example.Name, a.Text))
	}
	want := []string{"1 c1: fails: out of luck", `1 c2: waits for partition "first"`, "1 c3: in no partition of the rollout strategy", "1 c4: not meant for it"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if v.Clusters != 3 || v.Ready != 0 || !v.Stopped() {
		t.Errorf("want 0 of 3 Ready, got %d of %d", v.Ready, v.Clusters)
	}
}

// What the Bundle's status counts is not taken for what may not be seen.
func TestOverviewUnseen(t *testing.T) {
	for _, c := range []struct {
		ready, clusters int
		want            string
	}{
		{3, 3, "whether shop-web is Ready on its clusters is not known: they are not yours to see; its status counts 3 of 3 Ready"},
		{0, 0, "whether shop-web is Ready on its clusters is not known: they are not yours to see; its status counts 0 of 0 Ready"},
		{1, 3, "shop-web is Ready on 1 of 3 clusters"},
	} {
		w := well()
		w.s.Hidden = []Hidden{{Clusters, "shops"}, {Deployments, ""}}
		w.s.Bundle.Status.Summary = fleet.BundleSummary{Ready: c.ready, DesiredReady: c.clusters}
		v := Overview(w.s, nil)
		if got := v.Headline(); got != c.want || !v.Stopped() {
			t.Errorf("want %q, not Ready, got %q, stopped %v", c.want, got, v.Stopped())
		}
	}
}

// About all clusters and about one of them the answer is from the same knowledge: where the
// clusters may be seen and the deployments not, the Bundle's status counts all that it is
// meant for as Ready, or it is not known.
func TestOverviewAgreesWithOneCluster(t *testing.T) {
	const unknown = "whether shop-web is Ready on its clusters is not known: they are not yours to see; its status counts 2 of 2 Ready"
	for name, c := range map[string]struct {
		change func(*world)
		want   string
		ready  bool
	}{
		"AllReady":  {func(*world) {}, "shop-web is Ready on all 2 clusters", true},
		"NotWorked": {func(w *world) { w.s.Bundle.Generation++ }, unknown, false},
		"NotMeant":  {func(w *world) { w.targeted(fleet.BundleTarget{ClusterName: "c9"}) }, unknown, false},
		"NoGroups": {func(w *world) {
			w.targeted(fleet.BundleTarget{ClusterGroup: "prod"})
			w.s.Hidden = append(w.s.Hidden, Hidden{Groups, "shops"})
		}, unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := well()
			w.s.Hidden = []Hidden{{Deployments, ""}}
			w.s.Bundle.Status.Summary = fleet.BundleSummary{Ready: 2, DesiredReady: 2}
			c.change(w)
			w.at.Deployment = nil
			c2, c3 := w.at.Cluster.DeepCopy(), w.at.Cluster.DeepCopy()
			c2.Name, c3.Name, c3.Labels = "c2", "c3", map[string]string{"env": "dev"}
			v := Overview(w.s, []Place{w.at, {Key: keyOf(c2), Cluster: c2}, {Key: keyOf(c3), Cluster: c3}})
			if got := v.Headline(); got != c.want || v.Stopped() == c.ready {
				t.Errorf("want %q, Ready %t, got %q, stopped %t", c.want, c.ready, got, v.Stopped())
			}
			if one := Explain(w.s, w.at); one.Ready() != c.ready {
				t.Errorf("of one cluster: want Ready %t, got %q", c.ready, one.Headline(w.s.Now))
			}
		})
	}
}

// What is not there cannot be explained: dependsOn is what is wrong.
func TestMissingDependency(t *testing.T) {
	w := well()
	w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "databse"}}
	w.deploy()
	w.old()
	w.says(cond(fleet.ConditionDeployed, "False", "DependenciesNotReady", `list bundledeployments: no bundles matching labels `+
		`fleet.cattle.io/bundle-name=databse,fleet.cattle.io/bundle-namespace=shops in namespace shops; not on this cluster: bundle "databse"`, time.Minute))
	e := Explain(w.s, w.at)
	want := []Hint{{"to put it right", "correct dependsOn in fleet.yaml of shop-web, or add a target for c1 to the bundle that it names"}}
	if diff := cmp.Diff(want, e.Hints); diff != "" || e.StoppedAt != Depends {
		t.Errorf("stopped at %q: -want +got\n%s", e.StoppedAt, diff)
	}
}

// A CRD in the same bundle is never installed before the cluster knows its kind.
func TestCRDOfTheBundle(t *testing.T) {
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.com}\nspec: {group: example.com, names: {kind: Gadget}}\n"
	cases := map[string]struct{ file, message, want string }{
		"Manifest": {"web/crd.yaml", "Gadget web/x: the cluster does not know kind Gadget of example.com/v1; its CRD must be installed first",
			"move the CRD (web/crd.yaml) into a bundle of its own and name that in dependsOn of fleet.yaml of shop-web, or into crds/ of a chart: Helm installs nothing before c1 knows all kinds"},
		"WordsOfHelm": {"web/crd.yaml", `no matches for kind "Gadget" in version "example.com/v1"`,
			"move the CRD (web/crd.yaml) into a bundle of its own and name that in dependsOn of fleet.yaml of shop-web, or into crds/ of a chart: Helm installs nothing before c1 knows all kinds"},
		"OtherKind":   {"web/crd.yaml", `no matches for kind "Gadgets" in version "example.com/v1"`, "install the CRD on c1 first; dependsOn in fleet.yaml of shop-web keeps the order"},
		"CRDOfAChart": {"web/crds/crd.yaml", `no matches for kind "Gadget" in version "example.com/v1"`, "install the CRD on c1 first; dependsOn in fleet.yaml of shop-web keeps the order"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := well()
			w.s.Bundle.Spec.Resources = append(w.s.Bundle.Spec.Resources, fleet.BundleResource{Name: c.file, Content: crd})
			w.deploy()
			w.old()
			w.says(cond(fleet.ConditionDeployed, "False", release.ReasonUnknownKind, c.message, time.Minute))
			if diff := cmp.Diff([]Hint{{"to go on", c.want}}, Explain(w.s, w.at).Hints); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// The account of a GitRepo stands in no fleet.yaml.
func TestMissingServiceAccount(t *testing.T) {
	w := well()
	w.s.Repo.Spec.ServiceAccount = "nosuch"
	w.deploy()
	w.old()
	w.says(cond(fleet.ConditionDeployed, "False", release.ReasonNoAccount, `service account "nosuch" does not exist`, time.Minute))
	e := Explain(w.s, w.at)
	want := []Hint{{"to go on", "make that service account on c1, or change serviceAccount in GitRepo " + w.s.Repo.Name}}
	if diff := cmp.Diff(want, e.Hints); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Where a Bundle is meant for no cluster, the survey says why of the first one, target
// by target, as the answer about that cluster does.
func TestOverviewUntargeted(t *testing.T) {
	w := well()
	w.targeted(
		fleet.BundleTarget{Name: "eu", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}},
		fleet.BundleTarget{Name: "canary", ClusterName: "c9"},
	)
	first, second := w.at, w.at
	first.Deployment, second.Deployment = nil, nil
	second.Cluster = w.at.Cluster.DeepCopy()
	second.Cluster.Name = "c2"
	second.Key = keyOf(second.Cluster)
	v := Overview(w.s, []Place{second, first})
	got := append([]string{v.Headline(), v.Reason, v.Example.Name + ": " + v.Message}, v.Details...)
	want := []string{
		"shop-web is meant for none of 2 clusters", "NotTargeted",
		`c1: none of its 2 targets matches: target 1 "eu" wants region=eu, c1 has no label region`,
		`1 "eu" wants region=eu, c1 has no label region`, `2 "canary" wants clusterName c9, this is c1`, `there is no cluster "c9" in shops`,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(v.Hints) == 0 {
		t.Errorf("-want +got\n%s\nhints: %v", diff, v.Hints)
	}
}
