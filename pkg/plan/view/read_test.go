package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// older is a repository of a manager of this project that does not say what a
// reading left; reference one of rancher/fleet.
func older(r *fleet.GitRepo) {
	read(r)
	c := cond(fleet.ConditionGitPolling, corev1.ConditionTrue, "", "", 0)
	c.ObservedGeneration = 1
	r.Status.Conditions = append(r.Status.Conditions, c)
}

func reference(r *fleet.GitRepo) {
	read(r)
	r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionGitPolling, corev1.ConditionTrue, "", "", 0))
}

// saying adds a condition that is fresh.
func saying(kind string, status corev1.ConditionStatus, reason, message string) func(*fleet.GitRepo) {
	return func(r *fleet.GitRepo) {
		c := cond(kind, status, reason, message, 0)
		c.ObservedGeneration = r.Generation
		r.Status.Conditions = append(r.Status.Conditions, c)
	}
}

func marked(b *fleet.Bundle)  { b.Annotations = map[string]string{fleet.AnnotationPrune: "1-x"} }
func asking(r *fleet.GitRepo) { r.Annotations = map[string]string{fleet.AnnotationPrune: "1-x"} }
func deleted(b *fleet.Bundle) { b.DeletionTimestamp = &metav1.Time{Time: now} }
func edited(r *fleet.GitRepo) { r.Generation = 2 }
func withdrawn(bd *fleet.BundleDeployment) {
	bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "1"}
}

// An answer about a commit comes only from bundles that are known to be those that
// its reading left.
func TestJudgeReading(t *testing.T) {
	commit := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: "bbbbbbb"}
	other := Goal{Kind: "Bundle", Key: Key{Namespace: space, Name: "db"}, Commit: "bbbbbbb"}
	all := Goal{Kind: "GitRepo", Key: commit.Key}
	db, web := bundle("db", on(1)), bundle("web", changedBundle, on(1))
	overtaken := func(b *fleet.Bundle) { b.Labels[fleet.LabelCommit] = strings.Repeat("c", 40) }
	says := func(r *fleet.GitRepo, complete bool, list ...*fleet.Bundle) []*fleet.GitRepo {
		r.Status.Reading = left(r, complete, list...)
		return []*fleet.GitRepo{r}
	}
	cases := map[string]struct {
		why   string
		goal  Goal
		fleet Fleet
		want  string
	}{
		"BundlesBehind": {
			why: "the status has come and the bundle that the commit changed has not: that is not a commit that changed nothing", goal: commit,
			fleet: Fleet{Repositories: says(repo(read), true, db, web), Bundles: []*fleet.Bundle{db, bundle("web", on(1))}},
			want:  "waiting\nthe bundles of repo app are not those of bbbbbbb: they are being written",
		},
		"BundleMissing": {
			why: "a new bundle that has not come yet is missed by its name", goal: commit,
			fleet: Fleet{Repositories: says(repo(read), true, db, web), Bundles: []*fleet.Bundle{db}},
			want:  "waiting\nthe bundles of repo app are not those of bbbbbbb: they are being written",
		},
		"BundlesAhead": {
			why: "a manager that was killed after it wrote the next commit's bundle has overwritten what this commit changed", goal: commit,
			fleet: Fleet{Repositories: says(repo(read), true, db, web), Bundles: []*fleet.Bundle{db, bundle("web", overtaken, on(1))}},
			want:  "waiting\nthe bundles of repo app are not those of bbbbbbb: they are being written",
		},
		"OfAnotherBundle": {
			why: "the answer about one bundle needs all of them: it may be the one that is behind", goal: other,
			fleet: Fleet{Repositories: says(repo(read), true, bundle("db", changedBundle)), Bundles: []*fleet.Bundle{db}},
			want:  "waiting\nthe bundles of repo app are not those of bbbbbbb: they are being written",
		},
		"WithoutCommit": {
			why: "Ready bundles of an earlier reading say nothing either", goal: all,
			fleet: Fleet{Repositories: says(repo(read), true, db, web), Bundles: []*fleet.Bundle{db, bundle("web", on(1))}},
			want:  "waiting\nthe bundles of repo app are not those of bbbbbbb: they are being written",
		},
		"NotComplete": {
			why: "a repository that could not be had completely is tried again: its bundle may still change", goal: commit,
			fleet: Fleet{
				Repositories: says(repo(read, saying(fleet.ConditionReconciling, corev1.ConditionTrue, "Unreachable", "git.example: no answer")), false, db),
				Bundles:      []*fleet.Bundle{db},
			},
			want: "waiting\nrepo app was not read completely yet: git.example: no answer",
		},
		"ChartUnreachable": {
			why: "the host of a chart may be wrong", goal: commit,
			fleet: Fleet{
				Repositories: says(repo(read, saying(fleet.ConditionReconciling, corev1.ConditionTrue, "Chart", "web/fleet.yaml:2: no answer")), false, db),
				Bundles:      []*fleet.Bundle{db},
			},
			want: "failed\nrepo app: web/fleet.yaml:2: no answer",
		},
		"ChartUnreachableWithoutCommit": {
			why: "also where no commit is named", goal: all,
			fleet: Fleet{
				Repositories: says(repo(read, saying(fleet.ConditionReconciling, corev1.ConditionTrue, "Chart", "web/fleet.yaml:2: no answer")), false, db),
				Bundles:      []*fleet.Bundle{db},
			},
			want: "failed\nrepo app: web/fleet.yaml:2: no answer",
		},
		"ChartOfAnOlderCommit": {
			why: "the next commit may name another host", goal: commit,
			fleet: Fleet{
				Repositories: says(repo(saying(fleet.ConditionReconciling, corev1.ConditionTrue, "Chart", "web/fleet.yaml:2: no answer")), false, db),
				Bundles:      []*fleet.Bundle{db},
			},
			want: "waiting\nrepo app is at aaaaaaa: web/fleet.yaml:2: no answer",
		},
		"SpecChanged": {
			why: "the commit was read, but not as the spec asks for now", goal: commit,
			fleet: Fleet{Repositories: says(repo(read, edited), true, db), Bundles: []*fleet.Bundle{db}},
			want:  "waiting\nrepo app is at bbbbbbb, but was not read yet as its spec asks for",
		},
		"OlderManager": {
			why: "lists of different moments prove nothing where the manager does not say what it wrote", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(older)}, Bundles: []*fleet.Bundle{db}},
			want:  "waiting\nthe bundles of repo app at bbbbbbb are being read",
		},
		"OlderManagerInOrder": {
			why: "what is read after a status that is written last shows all that it speaks of", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(older)}, Bundles: []*fleet.Bundle{db}, Ordered: true},
			want:  "ready",
		},
		"ReferenceInOrder": {
			why: "the reference writes the commit before the bundles", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(reference)}, Bundles: []*fleet.Bundle{db}, Ordered: true},
			want:  "waiting\nthe manager of repo app does not say whether all of bbbbbbb was written",
		},
		"ReferenceReading": {
			why: "its job may bring one more bundle", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(reference, func(r *fleet.GitRepo) { r.Status.GitJobStatus = "InProgress" })}, Bundles: []*fleet.Bundle{web}, Ordered: true},
			want:  "waiting\nthe manager of repo app does not say whether all of bbbbbbb was written",
		},
		"ReferenceDone": {
			why: "all its bundles carry the commit when its job has ended", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(reference)}, Clusters: []*fleet.Cluster{cluster("a")}, Bundles: []*fleet.Bundle{web},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied)}, Ordered: true,
			},
			want: "ready\nweb on a: ready Ready",
		},
		"AskedToRemove": {
			why: "a bundle that the manager was asked to remove is waited for before it is deleted", goal: commit,
			fleet: Fleet{
				Repositories: says(repo(read, asking), true, db), Clusters: []*fleet.Cluster{cluster("a")},
				Bundles: []*fleet.Bundle{db, bundle("web", marked)}, Deployments: []*fleet.BundleDeployment{deployment("web", "a")},
			},
			want: "waiting\nbundle web is being removed from a",
		},
		"DeploymentsLeft": {
			why: "a bundle that is gone while its deployments are not is waited for", goal: commit,
			fleet: Fleet{
				Repositories: says(repo(read), true, db), Clusters: []*fleet.Cluster{cluster("a")}, Bundles: []*fleet.Bundle{db},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", withdrawn)},
			},
			want: "waiting\nbundle web is being removed from a",
		},
		"RemovedButAway": {
			why: "a cluster that is away removes it when it is back", goal: commit,
			fleet: Fleet{
				Repositories: says(repo(read), true, db), Clusters: []*fleet.Cluster{cluster("a", away(0))},
				Bundles: []*fleet.Bundle{db, bundle("web", deleted)}, Deployments: []*fleet.BundleDeployment{deployment("web", "a", withdrawn)},
			},
			want: "deferred",
		},
		"CauseKnown": {
			why: "a wrong branch in a new spec is no reason to wait for its reading", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(edited, saying(fleet.ConditionStalled, corev1.ConditionTrue, "BranchNotFound", "no branch x"))}},
			want:  "failed\nrepo app: no branch x",
		},
		"CauseMayPass": {
			why: "a host that has answered may answer again, and is named meanwhile", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(saying(fleet.ConditionGitPolling, corev1.ConditionFalse, "Unreachable", "no answer"),
				saying(fleet.ConditionReconciling, corev1.ConditionTrue, "Unreachable", "no answer"))}},
			want: "waiting\nrepo app cannot be read: no answer",
		},
		"NeverRead": {
			why: "a host without an address that has never answered for this spec may be a wrong one", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(edited, saying(fleet.ConditionGitPolling, corev1.ConditionFalse, "Unreachable", "x: no address is known for this name"),
				saying(fleet.ConditionReconciling, corev1.ConditionTrue, "Unreachable", "x: no address is known for this name"))}},
			want: "failed\nrepo app cannot be read: x: no address is known for this name",
		},
		"CauseDoesNotMatter": {
			why: "the commit is there: whether newer ones can be had is another question", goal: commit,
			fleet: Fleet{Repositories: says(repo(read, saying(fleet.ConditionGitPolling, corev1.ConditionFalse, "Unreachable", "no answer")), true, db), Bundles: []*fleet.Bundle{db}},
			want:  "ready",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, text(Evaluate(c.goal, c.fleet))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// A screen does not call Ready what is known to belong to another moment.
func TestSummarizeReading(t *testing.T) {
	db, web := bundle("db", on(1)), bundle("web", changedBundle, on(1))
	r := repo(read)
	r.Status.Reading = left(r, true, db, web)
	for name, c := range map[string]struct {
		why     string
		bundles []*fleet.Bundle
		moving  string
	}{
		"Same":   {bundles: []*fleet.Bundle{db, web}},
		"Behind": {why: "the commit has changed web, which is not seen yet", bundles: []*fleet.Bundle{db, bundle("web", on(1))}, moving: "GitRepo shops/app being read"},
		"NotWorkedOn": {
			why:     "that the bundle was Ready is about what it was before",
			bundles: []*fleet.Bundle{db, bundle("web", changedBundle, on(1), func(b *fleet.Bundle) { b.Status.ObservedGeneration = 1 })},
			moving:  "Bundle shops/web the manager has not worked on it yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summarize(Fleet{Repositories: []*fleet.GitRepo{r}, Bundles: c.bundles}, Manager{}, now)
			got := ""
			for _, m := range s.Moving {
				got = m.Kind + " " + m.Name + " " + m.Reason
			}
			if got != c.moving || s.Settled() != (c.moving == "") {
				t.Errorf("%s: want %q, got %q, settled %t", c.why, c.moving, got, s.Settled())
			}
		})
	}
	if state := BundleState(bundle("web", changedBundle, func(b *fleet.Bundle) { b.Status.ObservedGeneration = 1 })); state != fleet.OutOfSync {
		t.Errorf("want a bundle that was not worked on OutOfSync, got %s", state)
	}
}
