package gitrepo

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// unpolled makes the GitRepo without polling.
func unpolled(w *looptest.World) {
	makeRepo(w, "repo", func(r *fleet.GitRepo) { r.Spec.DisablePolling = true })
}

// webhook writes to the status what a webhook announces.
func webhook(w *looptest.World, commit string) {
	w.Helper()
	changeRepo(w, func(r *fleet.GitRepo) {
		r.Status.WebhookCommit, r.Status.LastWebhookTime = commit, metav1.Now()
	})
}

// wantEvents checks how many events of a reason the API server has.
func wantEvents(w *looptest.World, reason string, want int) {
	w.Helper()
	if got := looptest.Events(w, ws, reason); got != want {
		w.Errorf("want %d events %s, got %d", want, reason, got)
	}
}

// A webhook makes the manager read a repository that it does not poll. It reads the head,
// whichever commit the webhook announced.
func TestWebhook(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a", unpolled, g.read),
		When: func(w *looptest.World) {
			w.Pass(time.Second)
			webhook(w, g.push("main", "a=other b"))
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b")
			if got := repo(w).Status.WebhookCommit; got != g.head() {
				w.Errorf("want webhookCommit %s, got %s", g.head(), got)
			}
			wantEvents(w, fleet.EventWebhookCommitNotVisible, 0)
		},
	})
}

// A commit that appears some time after its webhook is read then, without a further webhook.
func TestWebhookBeforeCommit(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a", unpolled, g.read),
		When: func(w *looptest.World) {
			w.Pass(time.Second)
			old := g.head()
			later := g.push("main", "a b")
			g.set(func() { g.heads["main"] = git.Commit(old) })
			webhook(w, later)
			w.Pass(25 * time.Second)
			wantBundles(w, "repo-a")
			g.set(func() { g.heads["main"] = git.Commit(later) })
			w.Pass(4 * time.Second)
			wantRead(w, later)
		},
		Then: func(w *looptest.World) {
			wantBundles(w, "repo-a", "repo-b")
			wantEvents(w, fleet.EventWebhookCommitNotVisible, 0)
		},
	})
}

// A webhook that announces an older commit, or one that does not exist, changes nothing:
// the head stays, an event says so once, and webhookCommit is the head again.
func TestWebhookOfNoHead(t *testing.T) {
	g := newGit(t)
	first := ""
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Of: loopName,
		Given: g.given("a", func(*looptest.World) { first = g.head(); g.push("main", "a b") }, unpolled, g.read),
		When: func(w *looptest.World) {
			w.Pass(time.Second)
			webhook(w, first)
			w.Pass(25 * time.Second)
			if got := repo(w).Status.WebhookCommit; got != first {
				w.Errorf("want %s awaited, got %s", first, got)
			}
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b")
			if got := repo(w).Status.WebhookCommit; got != g.head() {
				w.Errorf("want webhookCommit %s, got %s", g.head(), got)
			}
			if n := g.questions(); n > 40 {
				w.Errorf("the repository was asked %d times", n)
			}
		},
	})
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a", unpolled, g.read),
		When: func(w *looptest.World) { w.Pass(time.Second); webhook(w, strings.Repeat("f", 40)) },
		Then: func(w *looptest.World) { wantEvents(w, fleet.EventWebhookCommitNotVisible, 1) },
	})
}

// A repository whose commits are announced by verified webhooks is polled once an hour.
// When polling finds a commit that no webhook has announced, the repository is polled as
// before.
func TestWebhookRelaxesPolling(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a", func(w *looptest.World) {
			looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fleet.SecretWebhook}})
		}, made),
		When: func(w *looptest.World) {
			w.Pass(5 * time.Second)
			webhook(w, g.push("main", "a=one"))
			w.Pass(time.Minute)
			before := g.questions()
			w.Pass(50 * time.Minute)
			if n := g.questions() - before; n > 0 {
				w.Errorf("the repository was asked %d times, although its commits are announced", n)
			}
			g.push("main", "a=two")
			w.Pass(20 * time.Minute)
			wantRead(w, g.head())
			before = g.questions()
			w.Pass(time.Minute)
			if n := g.questions() - before; n < 3 {
				w.Errorf("the repository was asked %d times, although a commit was not announced", n)
			}
			if r := repo(w); r.Spec.PollingInterval != nil || r.Generation != 1 {
				w.Errorf("want the spec unchanged, got %+v", r.Spec)
			}
		},
		Then: func(w *looptest.World) { wantRead(w, g.head()) },
	})
}
