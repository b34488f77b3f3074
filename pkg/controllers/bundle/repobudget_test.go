package bundle

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// testControllers are controllers whose loops do not run, with an API server that answers
// reads with objects of the test and writes down what is deleted.
type testControllers struct {
	*eventHandlers
	clock time.Time

	mu      sync.Mutex
	objects map[string]any // by the end of the path
	deleted []string
}

func newTestControllers(t *testing.T) *testControllers {
	t.Helper()
	d := &testControllers{clock: time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC), objects: map[string]any{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, path, _ := strings.Cut(r.URL.Path, "/namespaces/")
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			d.deleted = append(d.deleted, path)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
			return
		}
		o, ok := d.objects[path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		_ = json.NewEncoder(w).Encode(o)
	}))
	t.Cleanup(server.Close)
	c, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}, UserAgent: "test", FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	d.eventHandlers = New(Config{Namespace: fleet.NamespaceSystem, ManagerID: "me", CheckinInterval: time.Minute, Now: func() time.Time { return d.clock }},
		c, logrus.NewEntry(log)).handlers
	return d
}

func (tc *testControllers) after(t time.Duration) { tc.clock = tc.clock.Add(t) }

func (tc *testControllers) repo(commit string, annotations ...string) *fleet.GitRepo {
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "shops", UID: "repo", ResourceVersion: "1", Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		r.Annotations[annotations[i]] = annotations[i+1]
	}
	r.Status.Commit = commit
	tc.table.SetRepo(r)
	return r
}

// read is the repository with what a reading has left: commits of Bundles by name.
func (tc *testControllers) read(commit string, commits map[string]string) {
	r := tc.repo(commit).DeepCopy()
	r.ResourceVersion = "2"
	r.Status.Reading = reading.Next(nil, fleet.Reading{Commit: commit, Complete: true}, commits, nil)
	tc.table.SetRepo(r)
}

func (tc *testControllers) bundle(name, commit string) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "1",
		Labels: map[string]string{fleet.LabelRepoName: "shops", fleet.LabelCommit: commit}}}
	tc.table.SetBundle(b)
	tc.table.SetPlan(kube.KeyOf(b), fleetstate.Plan{Generation: 1, Complete: true})
	return b
}

// deployed gives a Bundle a deployment on c1 with objects of these kinds.
func (tc *testControllers) deployed(name string, kinds ...string) {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "c-c1", Name: name, UID: types.UID(name + "-c1"), ResourceVersion: "1",
		Labels: map[string]string{
			fleet.LabelBundleName: name, fleet.LabelBundleNamespace: "ns", fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "ns",
		}}}
	bd.Spec.DeploymentID, bd.Status.AppliedDeploymentID = "s-1:a", "s-1:a"
	for _, kind := range kinds {
		bd.Status.Resources = append(bd.Status.Resources, fleet.BundleDeploymentResource{Kind: kind, Namespace: "shop", Name: "data"})
	}
	tc.table.SetDeployment(bd)
}

// moves has the planner find that a Bundle replaces its release on c1, where it has
// deployed objects of these kinds.
func (tc *testControllers) moves(name, to string, kinds ...string) {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "c-c1", Name: name, UID: types.UID(name + "-c1"), ResourceVersion: "1",
		Labels: map[string]string{fleet.LabelCommit: "old"}}}
	bd.Spec.DeploymentID, bd.Status.AppliedDeploymentID, bd.Spec.Options.DefaultNamespace = "s-1:a", "s-1:a", "shop"
	for _, kind := range kinds {
		bd.Status.Resources = append(bd.Status.Resources, fleet.BundleDeploymentResource{Kind: kind, Namespace: "shop", Name: "data"})
	}
	target := idOf(to)
	r, _ := withdrawal.Replaces(bd, name, target)
	tc.deletionBudget.setReplaced(kube.Key{Namespace: "ns", Name: name}, []*replaced{{r, kube.Key{Namespace: "ns", Name: "c1"}, bd}},
		tc.table.Repo(kube.Key{Namespace: "ns", Name: "shops"}).Status.Commit, tc.clock)
}

// judged describes the verdict on the Bundles of the repository: those that may
// go on, the held removal, or the time to wait.
func (tc *testControllers) judged(marked ...*fleet.Bundle) string {
	repo, own := tc.table.RepoAndBundles(kube.Key{Namespace: "ns", Name: "shops"})
	l := tc.budgets.repoLossOf(repo, own, marked)
	rest, v, after := tc.budgets.judgeRepoLoss(l)
	if after > 0 {
		return "waits"
	}
	tc.budgets.permitReplacements(l, rest, v)
	var may []string
	for _, b := range own {
		if len(tc.deletionBudget.permittedReleases(kube.KeyOf(b))) > 0 {
			may = append(may, b.Name)
		}
	}
	slices.Sort(may)
	out := "may " + strings.Join(may, " ")
	if v.Held {
		out += "; " + v.Summary
	}
	if len(marked) > 0 {
		out += fmt.Sprintf("; prune %t", l.mayPrune(rest, v))
	}
	return out
}

// What a commit replaces is judged as a whole, as soon as all of it was written,
// together with what it removes.
func TestLoss(t *testing.T) {
	move := func(n int, kinds ...string) func(*testControllers) {
		return func(d *testControllers) {
			for i := range n {
				name := fmt.Sprintf("b%d", i)
				d.bundle(name, "new")
				d.moves(name, "default/"+name, kinds...)
			}
		}
	}
	marks := func(d *testControllers, names ...string) (out []*fleet.Bundle) {
		for _, name := range names {
			out = append(out, d.bundle(name, "old"))
		}
		return out
	}
	cases := map[string]struct {
		why  string
		play func(*testControllers) string
		want string
	}{
		"Few": {"three of few move on", func(d *testControllers) string {
			d.repo("new")
			move(3)(d)
			d.after(collectTime)
			return d.judged()
		}, "may b0 b1 b2"},
		"All": {"a commit that moves everything is held", func(d *testControllers) string {
			d.repo("new")
			move(4)(d)
			d.after(collectTime)
			return d.judged()
		}, "may ; would replace the release of 4 of 4 bundles (budget 3)"},
		"TooEarly": {"others of the same commit may not have been looked at yet", func(d *testControllers) string {
			d.repo("new")
			move(1)(d)
			return d.judged()
		}, "waits"},
		"NotWritten": {"nor be written", func(d *testControllers) string {
			d.repo("old")
			move(1)(d)
			d.after(claimGrace - time.Second)
			return d.judged()
		}, "waits"},
		"NotHeardOf": {"nor have come to us: the watch of repositories is not that of their Bundles", func(d *testControllers) string {
			d.read("new", map[string]string{"b0": "new", "b1": "new", "b2": "new", "late": "new"})
			move(3)(d)
			late := d.bundle("late", "old").DeepCopy()
			d.after(collectTime)
			waits := d.judged()
			late.Labels[fleet.LabelCommit], late.ResourceVersion = "new", "2"
			d.table.SetBundle(late)
			d.moves("late", "default/late")
			d.after(collectTime)
			return waits + " | " + d.judged()
		}, "waits | may ; would replace the release of 4 of 4 bundles (budget 3)"},
		"NotLookedAt": {"nor have been looked at in a second", func(d *testControllers) string {
			d.repo("new")
			move(3)(d)
			late := d.bundle("late", "new").DeepCopy()
			late.Generation, late.ResourceVersion = 2, "2"
			d.table.SetBundle(late)
			d.after(collectTime)
			waits := d.judged()
			d.moves("late", "default/late")
			d.table.SetPlan(kube.KeyOf(late), fleetstate.Plan{Generation: 2, Complete: true})
			d.after(collectTime)
			return waits + " | " + d.judged()
		}, "waits | may ; would replace the release of 4 of 4 bundles (budget 3)"},
		"NeverLookedAt": {"that is waited for a minute", func(d *testControllers) string {
			d.repo("new")
			move(3)(d)
			late := d.bundle("late", "new").DeepCopy()
			late.Generation, late.ResourceVersion = 2, "2"
			d.table.SetBundle(late)
			d.after(claimGrace)
			return d.judged()
		}, "may b0 b1 b2"},
		"WrittenSince": {"another commit was read since, so this one was written", func(d *testControllers) string {
			r := d.repo("old")
			move(1)(d)
			next := r.DeepCopy()
			next.Status.Commit, next.ResourceVersion = "newer", "2"
			d.table.SetRepo(next)
			d.after(collectTime)
			return d.judged()
		}, "may b0"},
		"NeverWritten": {"a commit that cannot be written as a whole waits a minute", func(d *testControllers) string {
			d.repo("old")
			move(1)(d)
			d.after(claimGrace)
			return d.judged()
		}, "may b0"},
		"OneAfterTheOther": {"what moved on a moment ago is a part of the same change", func(d *testControllers) string {
			d.repo("new")
			move(3)(d)
			d.after(collectTime)
			first := d.judged()
			d.bundle("more", "new")
			d.moves("more", "default/more")
			d.after(collectTime)
			return first + " | " + d.judged()
		}, "may b0 b1 b2 | may b0 b1 b2; would replace the release of 1 bundle, with others 4 of 4 (budget 3)"},
		"AnotherChange": {"what moved on long ago is not", func(d *testControllers) string {
			d.repo("new")
			move(3)(d)
			d.after(collectTime)
			d.judged()
			d.after(2 * oneChange)
			d.bundle("more", "new")
			d.moves("more", "default/more")
			d.after(collectTime)
			return d.judged()
		}, "may b0 b1 b2 more"},
		"Volume": {"one with a volume is held, others go on", func(d *testControllers) string {
			d.repo("new")
			move(1)(d)
			d.bundle("db", "new")
			d.moves("db", "default/db", "PersistentVolumeClaim")
			d.after(collectTime)
			return d.judged()
		}, "may b0; would replace the release of 1 of 2 bundles with 1 PersistentVolumeClaim"},
		"HeirNotLookedAt": {"a Bundle that was not looked at yet may take over the volume of one that is removed", func(d *testControllers) string {
			d.repo("new", fleet.AnnotationPrune, "1-x")
			list := marks(d, "x")
			d.deployed("x", "PersistentVolumeClaim")
			heir := d.bundle("heir", "new").DeepCopy()
			heir.Generation, heir.ResourceVersion = 2, "2"
			d.table.SetBundle(heir)
			waits := d.judged(list...)
			d.after(claimGrace)
			return waits + " | " + d.judged(list...)
		}, "waits | may ; would remove 1 of 2 bundles with 1 PersistentVolumeClaim; prune false"},
		"RemovedToo": {"what the commit removes counts as well", func(d *testControllers) string {
			d.repo("new", fleet.AnnotationPrune, "2-x")
			move(2)(d)
			list := marks(d, "x", "y")
			d.after(collectTime)
			return d.judged(list...)
		}, "may ; would remove 2 and replace the release of 2 of 4 bundles (budget 3); prune false"},
		"RemovedBesideVolume": {"a Bundle that may be removed does not wait for a volume of another", func(d *testControllers) string {
			d.repo("new", fleet.AnnotationPrune, "1-x")
			move(1, "PersistentVolumeClaim")(d)
			list := marks(d, "x")
			d.after(collectTime)
			return d.judged(list...)
		}, "may ; would replace the release of 1 of 2 bundles with 1 PersistentVolumeClaim; prune true"},
		"Approved": {"the person who has seen this list lets it go on", func(d *testControllers) string {
			r := d.repo("new")
			move(4, "PersistentVolumeClaim")(d)
			d.after(collectTime)
			repo, own := d.table.RepoAndBundles(kube.KeyOf(r))
			_, v, _ := d.budgets.judgeRepoLoss(d.budgets.repoLossOf(repo, own, nil))
			approved := r.DeepCopy()
			approved.Annotations[fleet.AnnotationApproveDeletion], approved.ResourceVersion = v.Hash, "2"
			d.table.SetRepo(approved)
			return d.judged()
		}, "may b0 b1 b2 b3"},
		"ApprovedOther": {"another release in its place is another list", func(d *testControllers) string {
			r := d.repo("new")
			move(4)(d)
			d.after(collectTime)
			repo, own := d.table.RepoAndBundles(kube.KeyOf(r))
			_, v, _ := d.budgets.judgeRepoLoss(d.budgets.repoLossOf(repo, own, nil))
			approved := r.DeepCopy()
			approved.Annotations[fleet.AnnotationApproveDeletion], approved.ResourceVersion = v.Hash, "2"
			d.table.SetRepo(approved)
			d.moves("b0", "elsewhere/b0")
			d.after(collectTime)
			return d.judged()
		}, "may ; would replace the release of 4 of 4 bundles (budget 3)"},
		"TakenBack": {"a commit that is taken back replaces nothing", func(d *testControllers) string {
			d.repo("new")
			move(4)(d)
			d.after(collectTime)
			held := d.judged()
			for i := range 4 {
				d.deletionBudget.setReplaced(kube.Key{Namespace: "ns", Name: fmt.Sprintf("b%d", i)}, nil, "", d.clock)
			}
			return held + " | " + d.judged()
		}, "may ; would replace the release of 4 of 4 bundles (budget 3) | may "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newTestControllers(t)
			d.table.Settle()
			if diff := cmp.Diff(c.want, c.play(d)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// A request that was taken back after it was judged removes nothing.
func TestPruneTakenBack(t *testing.T) {
	cases := map[string]struct {
		why  string
		live string // mark on the GitRepo at the API server
		want []string
	}{
		"Asked":     {"it is still asked for", "1-x", []string{"ns/bundles/gone"}},
		"TakenBack": {"the directory is back", "", nil},
		"Another":   {"another list is asked for, which was not judged", "2-y", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newTestControllers(t)
			repo := d.repo("new", fleet.AnnotationPrune, "1-x")
			live := repo.DeepCopy()
			live.Annotations[fleet.AnnotationPrune] = c.live
			d.objects["ns/gitrepos/shops"] = live
			next, err := d.prune.prune(t.Context(), repo, []*fleet.Bundle{d.bundle("gone", "old")})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, d.deleted); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if (next == kube.Done) != (c.want != nil) {
				t.Errorf("what changed meanwhile is looked at again, got %+v", next)
			}
		})
	}
}

// Before every Bundle was planned it is not known all that a change removes, so
// nothing leaves, however long it takes.
func TestWithinBudgetWaitsForCaches(t *testing.T) {
	d := newTestControllers(t)
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app", UID: "app", ResourceVersion: "1"}}
	d.table.SetBundle(b)
	d.table.Settle()
	d.objects["ns"] = metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns"},
	}
	s := &snapshot{key: kube.KeyOf(b), bundle: b}
	leave := leavers(0, 2)
	for i, l := range leave {
		l.cluster = kube.Key{Namespace: "ns", Name: fmt.Sprint("c", i)}
	}
	for range 3 {
		free, approved, again, err := d.budgets.withinBudget(t.Context(), s, leave)
		if err != nil || len(free)+len(approved) > 0 || again == 0 {
			t.Fatalf("not all caches are filled: %d may leave, %d are approved, looked at again after %s, %v", len(free), len(approved), again, err)
		}
		d.after(claimGrace)
	}
	d.table.SetPlan(s.key, fleetstate.Plan{})
	if free, _, _, err := d.budgets.withinBudget(t.Context(), s, leave); err != nil || len(free) != 2 {
		t.Errorf("now they are, and two are within the budget: %d may leave, %v", len(free), err)
	}
}

// A GitRepo is not Ready with a commit while the manager has not heard of the Bundles
// of that commit: they come by another watch.
func TestRepoReadyWithItsBundles(t *testing.T) {
	d := newTestControllers(t)
	d.table.Settle()
	web := d.bundle("web", "old").DeepCopy()
	d.read("new", map[string]string{"web": "new"})
	repo := d.table.Repo(kube.Key{Namespace: "ns", Name: "shops"}).DeepCopy()
	repo.Status.GitJobStatus, repo.ResourceVersion = "Current", "3"
	d.table.SetRepo(repo)
	d.objects["ns/gitrepos/shops/status"] = repo
	if n, err := d.reports.reportRepo(t.Context(), kube.KeyOf(repo)); n != 0 || err != nil {
		t.Errorf("it is reported as Ready with the Bundle of the commit before: %d, %v", n, err)
	}
	web.Labels[fleet.LabelCommit], web.ResourceVersion = "new", "2"
	d.table.SetBundle(web)
	if n, err := d.reports.reportRepo(t.Context(), kube.KeyOf(repo)); n == 0 || err != nil {
		t.Errorf("it is not reported as Ready with its Bundle: %d, %v", n, err)
	}
}
