package fleetstate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

const workspaceName = "ns"

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newTable() (*State, *clock) {
	c := &clock{now: time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)}
	return New("me", time.Minute, c.Now), c
}

func key(name string) kube.Key { return kube.Key{Namespace: workspaceName, Name: name} }

func bundleOf(name, repo string, version int) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspaceName, Name: name, UID: types.UID(name), Generation: 1,
		ResourceVersion: fmt.Sprint(version)}}
	if repo != "" {
		b.Labels = map[string]string{fleet.LabelRepoName: repo}
	}
	return b
}

func clusterOf(name string, version int) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspaceName, Name: name, UID: types.UID(name),
		ResourceVersion: fmt.Sprint(version), Labels: map[string]string{"name": name},
		Annotations: map[string]string{registration.AnnotationDeploymentNamespace: "c-" + name}}}
	c.Status.Namespace = "c-" + name
	return c
}

func deploymentOf(bundle, cluster, applied string, ready bool, version int) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c-" + cluster, Name: bundle, UID: types.UID(bundle + cluster), ResourceVersion: fmt.Sprint(version),
		Labels: map[string]string{fleet.LabelBundleName: bundle, fleet.LabelBundleNamespace: workspaceName,
			fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: workspaceName}}}
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = "s-1:x", "s-1:x"
	bd.Status.AppliedDeploymentID, bd.Status.Ready, bd.Status.NonModified = applied, ready, true
	return bd
}

func planFor(clusters ...string) Plan {
	p := Plan{Generation: 1, Complete: true, Content: "s-1", Wants: map[kube.Key]Desired{}}
	for _, c := range clusters {
		p.Order = append(p.Order, key(c))
		p.Wants[key(c)] = Desired{ID: "s-1:x"}
	}
	return p
}

// Whatever happens in whatever order, counters say what a recount says.
func TestCountersAreRight(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		tab, _ := newTable()
		version := 0
		for range 120 {
			version++
			b, c := fmt.Sprint("b", rnd.IntN(3)), fmt.Sprint("c", rnd.IntN(4))
			switch rnd.IntN(9) {
			case 0:
				tab.SetBundle(bundleOf(b, []string{"", "r1", "r2"}[rnd.IntN(3)], version))
			case 1:
				if rnd.IntN(4) == 0 {
					tab.RemoveBundle(key(b))
				}
			case 2:
				tab.SetCluster(clusterOf(c, version))
			case 3:
				if rnd.IntN(4) == 0 {
					tab.RemoveCluster(key(c))
				}
			case 4:
				tab.RemoveDeployment(deploymentOf(b, c, "", false, version))
			case 5:
				tab.SetPlan(key(b), planFor([][]string{{"c0", "c1"}, {"c0", "c1", "c2", "c3"}, {}}[rnd.IntN(3)]...))
			default:
				tab.SetDeployment(deploymentOf(b, c, []string{"", "s-1:x"}[rnd.IntN(2)], rnd.IntN(2) == 0, version))
			}
			recount(t, seed, tab)
		}
	}
}

func recount(t *testing.T, seed uint64, tab *State) {
	t.Helper()
	bundles, repos, clusters := map[kube.Key]counts{}, map[kube.Key]counts{}, map[kube.Key]counts{}
	add := func(m map[kube.Key]counts, k kube.Key, s fleet.BundleState) { c := m[k]; c.add(s, 1); m[k] = c }
	for _, row := range tab.bundles {
		for _, c := range row.cells {
			if c.want != nil {
				add(bundles, c.bundle, c.view.State)
				add(repos, row.repo, c.view.State)
				add(clusters, c.cluster, c.view.State)
			}
		}
	}
	for k, row := range tab.bundles {
		if row.counts != bundles[k] {
			t.Fatalf("seed %d: bundle %s counts %v, want %v", seed, k, row.counts, bundles[k])
		}
	}
	for k, r := range tab.repos {
		if r.counts != repos[k] {
			t.Fatalf("seed %d: repo %s counts %v, want %v", seed, k, r.counts, repos[k])
		}
	}
	for k, c := range tab.clusters {
		if c.counts != clusters[k] {
			t.Fatalf("seed %d: cluster %s counts %v, want %v", seed, k, c.counts, clusters[k])
		}
	}
	uses := map[string]int{}
	for _, c := range tab.deployments {
		for _, id := range contentsOf(c.bd) {
			uses[id]++
		}
	}
	if diff := cmp.Diff(uses, tab.uses); diff != "" {
		t.Fatalf("seed %d: contents in use: %s", seed, diff)
	}
}

// A deployment that lost its labels still belongs to its cluster.
func TestLabelsTaken(t *testing.T) {
	tab, _ := newTable()
	tab.SetBundle(bundleOf("b", "", 1))
	tab.SetCluster(clusterOf("c", 2))
	tab.SetDeployment(deploymentOf("b", "c", "s-1:x", true, 3))
	tab.SetPlan(key("b"), planFor("c"))
	bare := deploymentOf("b", "c", "s-1:x", true, 4)
	delete(bare.Labels, fleet.LabelCluster)
	tab.SetDeployment(bare)
	var got []string
	for _, v := range tab.Views() {
		got = append(got, v.Bundle+" on "+v.Cluster)
	}
	if diff := cmp.Diff([]string{"b on ns/c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOldChangedIsIgnored(t *testing.T) {
	tab, _ := newTable()
	tab.SetBundle(bundleOf("app", "repo", 1))
	tab.SetDeployment(deploymentOf("app", "c1", "s-1:x", true, 9))
	if n := tab.SetDeployment(deploymentOf("app", "c1", "", false, 8)); len(n.Status) != 0 {
		t.Errorf("a version from before our own write came as news: %v", n)
	}
	bd, _ := tab.Deployment(kube.Key{Namespace: "c-c1", Name: "app"})
	if bd.ResourceVersion != "9" {
		t.Errorf("have version %s", bd.ResourceVersion)
	}
}

// At the start nothing is reported before every Bundle was looked at: half a
// truth would be written over a whole one.
func TestNothingIsReportedTooEarly(t *testing.T) {
	tab, _ := newTable()
	tab.SetRepo(&fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: workspaceName, Name: "repo", ResourceVersion: "1"}})
	tab.SetCluster(clusterOf("c1", 1))
	tab.SetBundle(bundleOf("a", "repo", 2))
	tab.SetBundle(bundleOf("b", "repo", 3))
	tab.SetPlan(key("a"), planFor("c1"))
	if _, _, _, ok := tab.RepoFacts(key("repo")); ok {
		t.Error("bundle b was not planned")
	}
	if _, _, ok := tab.ClusterFacts(key("c1")); ok {
		t.Error("bundle b may be on c1")
	}
	changed := tab.SetPlan(key("b"), planFor())
	for _, s := range []Subject{{KindBundle, key("a")}, {KindGitRepo, key("repo")}, {KindCluster, key("c1")}} {
		if _, ok := changed.Status[s]; !ok {
			t.Errorf("%v is not woken up when the last Bundle was planned", s)
		}
	}
	if _, s, fresh, ok := tab.RepoFacts(key("repo")); !ok || !fresh || len(s.Bundles) != 2 {
		t.Error("now all is known")
	}
}

// A Bundle that is removed before it was planned does not hold up the status of
// others. A removal while the caches are being filled does not count as the last
// plan.
func TestBundleGoesBeforeItIsPlanned(t *testing.T) {
	tab, _ := newTable()
	tab.SetBundle(bundleOf("gone", "", 1))
	tab.RemoveBundle(key("gone"))
	if tab.Settled() {
		t.Fatal("settled before the caches were filled")
	}
	tab.SetBundle(bundleOf("first", "", 2))
	tab.SetBundle(bundleOf("second", "", 3))
	tab.SetCluster(clusterOf("c1", 4))
	tab.Settle()
	tab.SetPlan(key("first"), planFor("c1"))
	if tab.Settled() {
		t.Fatal("settled with a Bundle that is not planned")
	}
	changed := tab.RemoveBundle(key("second"))
	if !tab.Settled() {
		t.Error("a Bundle that is gone is waited for")
	}
	if _, ok := changed.Status[Subject{KindCluster, key("c1")}]; !ok {
		t.Error("what waited for it is not woken up")
	}
}

func TestChangedNamesEverybodyConcerned(t *testing.T) {
	tab, _ := newTable()
	tab.SetRepo(&fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: workspaceName, Name: "repo", ResourceVersion: "1"}})
	tab.SetGroup(&fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspaceName, Name: "all", ResourceVersion: "1"},
		Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{}}})
	tab.SetCluster(clusterOf("c1", 1))
	tab.SetBundle(bundleOf("a", "repo", 2))
	tab.SetPlan(key("a"), planFor("c1"))
	changed := tab.SetDeployment(deploymentOf("a", "c1", "s-1:x", true, 5))
	want := map[Subject]bool{
		{KindBundle, key("a")}: true, {KindGitRepo, key("repo")}: true,
		{KindCluster, key("c1")}: true, {KindGroup, key("all")}: true,
	}
	if diff := cmp.Diff(want, changed.Status); diff != "" {
		t.Errorf("Ready is final everywhere\n%s", diff)
	}
	if changed := tab.SetDeployment(deploymentOf("a", "c1", "s-1:x", true, 6)); len(changed.Status) != 0 {
		t.Errorf("the same report again is no news: %v", changed.Status)
	}
}

func TestBlocker(t *testing.T) {
	tab, _ := newTable()
	tab.SetCluster(clusterOf("c1", 1))
	tab.SetBundle(bundleOf("old", "repo", 1))
	tab.SetPlan(key("old"), planFor("c1"))
	if got := tab.Blocker(key("old"), key("c1")); got != "" {
		t.Errorf("alone, but blocked: %s", got)
	}
	tab.SetBundle(bundleOf("new", "repo", 2))
	if tab.Blocker(key("old"), key("c1")) == "" {
		t.Error("what is new was not looked at yet")
	}
	p := planFor("c1")
	p.Wants[key("c1")] = Desired{ID: "s-1:x", Coming: true}
	tab.SetPlan(key("new"), p)
	if tab.Blocker(key("old"), key("c1")) == "" {
		t.Error("what is new is not there yet")
	}
	tab.SetDeployment(deploymentOf("new", "c1", "", false, 9))
	if got := tab.Blocker(key("old"), key("c1")); got != "" {
		t.Errorf("it is there: %s", got)
	}
	tab.SetBundle(bundleOf("stranger", "other", 3))
	if got := tab.Blocker(key("old"), key("c1")); got != "" {
		t.Errorf("another repository's Bundle blocks: %s", got)
	}
}

// A report that arrives while a plan is made must not be lost: the plan may
// wait for just that.
func TestChangedDuringPlanning(t *testing.T) {
	tab, _ := newTable()
	tab.SetBundle(bundleOf("a", "", 1))
	tab.SetDeployment(deploymentOf("a", "c1", "", false, 2))
	_, seen := tab.Deployments(key("a"))
	tab.SetDeployment(deploymentOf("a", "c1", "s-1:x", true, 3))
	p := planFor("c1")
	p.Waiting, p.Seen = true, seen
	if changed := tab.SetPlan(key("a"), p); len(changed.Plan) != 1 {
		t.Error("the plan waits for what has happened")
	}
	_, p.Seen = tab.Deployments(key("a"))
	if changed := tab.SetPlan(key("a"), p); len(changed.Plan) != 0 {
		t.Error("nothing has happened, but it is planned again")
	}
}

// signed is a Cluster with an agent's sign of life, as the API server has it.
func signed(version int, at time.Time) *fleet.Cluster {
	c := clusterOf("c1", version)
	stamp := metav1.NewTime(at)
	c.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "somebody", Time: &metav1.Time{Time: at.Add(time.Hour)}},
		{Manager: fleet.FieldManagerAgent, Subresource: "status", Time: &stamp},
	}
	ExtractHeartbeat(c)
	c.ManagedFields = nil
	ExtractHeartbeat(c) // caches call it twice
	return c
}

func TestLife(t *testing.T) {
	tab, clock := newTable()
	life := func() summary.AgentLiveness { a, _ := tab.AgentOf(key("c1")); return a.Life }
	tab.SetCluster(clusterOf("c1", 1))
	if life() != summary.NeverSeen {
		t.Error("no sign yet")
	}
	// The agent's API server is an hour behind our clock: a sign that moves
	// while we watch counts all the same.
	if _, change := tab.SetCluster(signed(2, clock.now.Add(-time.Hour))); !change.Life || life() != summary.Online {
		t.Error("a first sign is life")
	}
	if a, _ := tab.AgentOf(key("c1")); a.Protocol != fleet.ProtocolVersion {
		t.Errorf("protocol %d", a.Protocol)
	}
	clock.now = clock.now.Add(2 * time.Minute)
	if silent, after := tab.MissedDeadline(key("c1")); silent || after != time.Minute {
		t.Errorf("two of three minutes: %v, %s", silent, after)
	}
	clock.now = clock.now.Add(time.Minute)
	if silent, _ := tab.MissedDeadline(key("c1")); !silent {
		t.Error("three minutes of silence")
	}
	tab.SetOffline(key("c1"))
	if life() != summary.Offline {
		t.Error("confirmed")
	}
	if _, change := tab.SetCluster(signed(3, clock.now.Add(-59*time.Minute))); !change.Life || life() != summary.Online {
		t.Error("it reports again")
	}
}

// An agent that is replaced by one of another version leaves an entry behind.
// The one that reported last counts, whatever the other's number.
func TestProtocol(t *testing.T) {
	const holds, old = `{"f:status":{"f:agent":{"f:lastSeen":{},"f:version":{}}}}`, `{"f:status":{"f:agent":{"f:namespace":{}}}}`
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	type entry struct {
		manager string
		after   time.Duration
		fields  string
	}
	cases := map[string]struct {
		why     string
		entries []entry
		want    Heartbeat
	}{
		"Upgrade":         {"the newer agent reports", []entry{{"fleet-agent-p1", 0, old}, {"fleet-agent-p2", time.Minute, holds}}, Heartbeat{at.Add(time.Minute), 2}},
		"UpgradeAtOnce":   {"within one second the API server's clock says nothing", []entry{{"fleet-agent-p1", 0, old}, {"fleet-agent-p2", 0, holds}}, Heartbeat{at, 2}},
		"Downgrade":       {"the older agent reports", []entry{{"fleet-agent-p1", time.Minute, holds}, {"fleet-agent-p2", 0, old}}, Heartbeat{at.Add(time.Minute), 1}},
		"DowngradeAtOnce": {"within one second", []entry{{"fleet-agent-p1", 0, holds}, {"fleet-agent-p2", 0, old}}, Heartbeat{at, 1}},
		"LaterEntry":      {"another field of the old agent is no sign", []entry{{"fleet-agent-p1", time.Hour, old}, {"fleet-agent-p2", 0, holds}}, Heartbeat{at, 2}},
		"ToTheReference":  {"its agent has one name for everything", []entry{{"fleet-agent-p2", 0, old}, {"fleetagent", time.Minute, holds}}, Heartbeat{at.Add(time.Minute), 0}},
		"FromReference":   {"and leaves it behind", []entry{{"fleet-agent-p2", time.Minute, holds}, {"fleetagent", 0, old}}, Heartbeat{at.Add(time.Minute), 2}},
		"Deployed":        {"a Cluster that was deployed by an agent has none yet", []entry{{"fleetagent", 0, `{"f:spec":{}}`}}, Heartbeat{}},
		"Future":          {"a number of a later version", []entry{{"fleet-agent-p3", 0, holds}}, Heartbeat{at, 3}},
		"NoNumber":        {"a name without a number", []entry{{"fleet-agent-px", 0, holds}, {"fleet-agent-p-1", 0, holds}}, Heartbeat{}},
		"NoFields":        {"the newest, and of two the lower", []entry{{"fleet-agent-p2", 0, ""}, {"fleet-agent-p1", 0, ""}}, Heartbeat{at, 1}},
		"ForeignWriter":   {"who writes the field for fun is no agent", []entry{{"kubectl-edit", time.Hour, holds}, {"fleet-agent-p2", 0, old}}, Heartbeat{at, 2}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the order of entries means nothing
				cluster := clusterOf("c1", 1)
				for _, e := range c.entries {
					stamp := metav1.NewTime(at.Add(e.after))
					m := metav1.ManagedFieldsEntry{Manager: e.manager, Subresource: "status", Time: &stamp}
					if e.fields != "" {
						m.FieldsV1 = metav1.NewFieldsV1(e.fields)
					}
					cluster.ManagedFields = append(cluster.ManagedFields, m)
				}
				if got := ReadHeartbeat(cluster); !got.Time.Equal(c.want.Time) || got.Protocol != c.want.Protocol {
					t.Errorf("%s: got %+v", c.why, got)
				}
				slices.Reverse(c.entries)
			}
		})
	}
}

// The content that a Bundle names is held by the Bundle alone, planned or not. A
// cluster whose agent was replaced is targeted again.
func TestNamedContent(t *testing.T) {
	tab, clock := newTable()
	named := func(version int, id string) *fleet.Bundle {
		b := bundleOf("a", "", version)
		b.Annotations = map[string]string{fleet.AnnotationContent: id}
		return b
	}
	tab.SetBundle(named(1, "s-1"))
	if !tab.InUse("s-1") || len(tab.BundlesWithContent("s-1")) != 1 {
		t.Error("a Bundle names it")
	}
	p := planFor("c1")
	p.Named, p.Content = "s-1", ""
	tab.SetPlan(key("a"), p)
	if changed := tab.SetBundle(named(2, "s-2")); len(changed.Unused) != 1 || tab.InUse("s-1") || !tab.InUse("s-2") {
		t.Errorf("another commit: %v", changed.Unused)
	}
	if tab.bundles[key("a")].planned() {
		t.Error("its generation is the same, but it was not planned with this content")
	}
	if changed := tab.RemoveBundle(key("a")); len(changed.Unused) != 1 || tab.InUse("s-2") {
		t.Errorf("gone: %v", changed.Unused)
	}

	// A deployment that is held back holds what its Bundle has left behind.
	held := deploymentOf("a", "c1", "s-1:x", true, 1)
	held.Spec.StagedDeploymentID = "s-2:x"
	tab.SetDeployment(held)
	for id, want := range map[string]bool{"s-1": true, "s-2": true, "s-3": false} {
		if tab.Workspaces(id)[workspaceName] != want || tab.Holders(id)[held.Namespace] != want {
			t.Errorf("%s is held for %v in %v", id, tab.Workspaces(id), tab.Holders(id))
		}
	}
	tab.SetCluster(clusterOf("c1", 1))
	_, change := tab.SetCluster(signed(2, clock.now))
	if !change.Targeting || !change.Was.Unseen || change.Is.Unseen || change.Is.Protocol != fleet.ProtocolVersion {
		t.Errorf("a first sign: %+v", change)
	}
}

// A manager that was away itself does not declare its clusters offline.
func TestLifeAfterARestart(t *testing.T) {
	tab, clock := newTable()
	tab.SetCluster(signed(2, clock.now.Add(-time.Hour)))
	if a, _ := tab.AgentOf(key("c1")); a.Life != summary.Online {
		t.Error("it was online when we went")
	}
	if silent, after := tab.MissedDeadline(key("c1")); silent || after != 3*time.Minute {
		t.Errorf("it has our time to report: %v, %s", silent, after)
	}
	tab, _ = newTable()
	c := signed(2, clock.now.Add(-time.Hour))
	c.Status.Display.State = fleet.Offline
	tab.SetCluster(c)
	if a, _ := tab.AgentOf(key("c1")); a.Life != summary.Offline {
		t.Error("it was offline when we went, and is")
	}
}

// An annotation that another field manager wrote is no heartbeat.
func TestForgedHeartbeat(t *testing.T) {
	c := clusterOf("c1", 1)
	c.Annotations[annotationHeartbeat] = "2026-08-24T14:00:00Z 1"
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	ExtractHeartbeat(c)
	if s := ReadHeartbeat(c); !s.Time.IsZero() {
		t.Errorf("believed: %+v", s)
	}
}

func TestCandidates(t *testing.T) {
	tab, _ := newTable()
	c := clusterOf("c1", 1)
	c.Annotations[fleet.AnnotationManager] = "other-manager/1/1"
	tab.SetCluster(c)
	c = clusterOf("c0", 2)
	c.Status.Namespace = "c-c1" // an agent points at another's namespace
	tab.SetCluster(c)
	got := tab.Candidates(workspaceName)
	if len(got) != 2 || got[0].Key.Name != "c0" || got[0].Place.Namespace != "" {
		t.Errorf("a namespace that the manager did not choose is not used: %+v", got[0])
	}
}

func full(b *testing.B, n int) *State {
	b.Helper()
	tab, _ := newTable()
	tab.SetRepo(&fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: workspaceName, Name: "repo", ResourceVersion: "1"}})
	tab.SetBundle(bundleOf("a", "repo", 2))
	var names []string
	for i := range n {
		name := fmt.Sprintf("c%04d", i)
		names = append(names, name)
		tab.SetCluster(clusterOf(name, 3))
		tab.SetDeployment(deploymentOf("a", name, "s-1:x", true, 4))
	}
	tab.SetPlan(key("a"), planFor(names...))
	return tab
}

// One status event costs the same in a small and in a large fleet.
func BenchmarkStatusEvent(b *testing.B) {
	for _, n := range []int{50, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tab := full(b, n)
			version := 10
			for b.Loop() {
				version++
				tab.SetDeployment(deploymentOf("a", "c0007", "s-1:x", version%2 == 0, version))
			}
		})
	}
}

func BenchmarkBundleFacts5000(b *testing.B) {
	tab := full(b, 5000)
	for b.Loop() {
		if _, _, _, ok := tab.BundleFacts(key("a")); !ok {
			b.Fatal("no facts")
		}
	}
}

// The answer to a request that arrives after the watch has reported the deletion
// of the object does not bring the object back; the watch does.
func TestAnswersOfThePast(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	tab := New("x", time.Minute, func() time.Time { return now })
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "1", ResourceVersion: "5"}}
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "c-ns", Name: "b", UID: "2", ResourceVersion: "6", Labels: map[string]string{
		fleet.LabelBundleNamespace: "ns", fleet.LabelBundleName: "b", fleet.LabelClusterNamespace: "ns", fleet.LabelCluster: "c"}}}
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "3", ResourceVersion: "7"}}
	g := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "4", ResourceVersion: "8"}}
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "5", ResourceVersion: "9"}}
	set := func() { tab.SetBundle(b); tab.SetDeployment(bd); tab.SetCluster(c); tab.SetGroup(g); tab.SetRepo(repo) }
	known := func() string {
		_, isB := tab.Bundle(kube.KeyOf(b))
		_, isBD := tab.Deployment(kube.KeyOf(bd))
		_, isC := tab.Cluster(kube.KeyOf(c))
		isG := tab.groups["ns"] != nil && tab.groups["ns"].groups["g"] != nil
		isR := tab.repos[kube.KeyOf(repo)] != nil
		return fmt.Sprint(isB, isBD, isC, isG, isR)
	}
	set()
	if got := known(); got != "true true true true true" {
		t.Fatal(got)
	}
	tab.RemoveDeployment(bd)
	tab.RemoveBundle(kube.KeyOf(b))
	tab.RemoveCluster(kube.KeyOf(c))
	tab.RemoveGroup(kube.KeyOf(g))
	tab.RemoveRepo(kube.KeyOf(repo))
	set()
	if got := known(); got != "false false false false false" {
		t.Errorf("answers bring objects back: %s", got)
	}
	for _, o := range []kube.Object{b, bd, c, g, repo} {
		tab.OnReappeared(o.GetUID())
	}
	set()
	if got := known(); got != "true true true true true" {
		t.Errorf("the watch cannot bring objects back: %s", got)
	}

	var d deletedUIDs
	for n := range 3 * maxDeletedUIDs {
		d.add(types.UID(fmt.Sprint(n)))
	}
	if len(d.known) != maxDeletedUIDs || d.known["0"] || !d.known[types.UID(fmt.Sprint(3*maxDeletedUIDs-1))] {
		t.Errorf("the last %d are remembered, got %d", maxDeletedUIDs, len(d.known))
	}
}

// The late event of a deployment that is gone does not remove the one that was made again
// under its name.
func TestRemovalOfFormerDeployment(t *testing.T) {
	tab, _ := newTable()
	former := deploymentOf("b", "c1", "s-1:x", true, 8)
	again := deploymentOf("b", "c1", "", false, 9)
	again.UID = "again"
	tab.SetDeployment(former)
	tab.SetDeployment(again)
	if changed := tab.RemoveDeployment(former); len(changed.Plan) > 0 {
		t.Errorf("want no Bundle looked at, got %v", changed.Plan)
	}
	if got, ok := tab.Deployment(kube.KeyOf(again)); !ok || got.UID != again.UID {
		t.Errorf("want the new deployment kept, got %v", got)
	}
	tab.RemoveDeployment(again)
	if _, ok := tab.Deployment(kube.KeyOf(again)); ok {
		t.Error("want the new deployment removed with its own event")
	}
}
