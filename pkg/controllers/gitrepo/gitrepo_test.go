package gitrepo

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A GitRepo that was made again under its name is read, also if the process did not hear
// of the deletion: what is remembered is about another object.
func TestGitRepoMadeAgain(t *testing.T) {
	g := newGit(t)
	only := func(dir string) func(*looptest.World) {
		return func(w *looptest.World) {
			makeRepo(w, "repo", func(r *fleet.GitRepo) { r.Spec.Paths = []string{dir} })
		}
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a b"),
		When: func(w *looptest.World) {
			only("a")(w)
			w.Pass(10 * time.Second)
			release := w.Server.HoldWatches(gitRepos)
			looptest.Remove[*fleet.GitRepo](w, ws, "repo")
			changeRepo(w, func(r *fleet.GitRepo) { r.Finalizers = nil })
			only("b")(w)
			w.Server.CutWatches(gitRepos)
			w.Server.ForgetHistory()
			synctest.Wait() // the watch has ended, and the next one lists
			release()
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b")
			if markOf(repo(w)) == "" || markOf(bundleOf(w, "repo-a")) == "" {
				w.Error("want what the new GitRepo does not yield to be removed")
			}
		},
	})
}

// What is remembered is that of one object, and is given up with it.
func TestMemories(t *testing.T) {
	g := newGit(t)
	m := &memories{reader: g.reader, memory: map[kube.Key]*memory{}}
	name := kube.Key{Namespace: ws, Name: "repo"}
	m.update(name, "old", func(m *memory) { m.fetches = 3 })
	for uid, want := range map[types.UID]int{"old": 3, "new": 0} {
		if got := m.get(name, uid).fetches; got != want {
			t.Errorf("of %s: want %d, got %d", uid, want, got)
		}
	}
	m.update(name, "new", func(m *memory) { m.lost = true })
	if got := m.get(name, "new"); got.fetches != 0 || !got.lost {
		t.Errorf("want what is remembered of the new object alone, got %+v", got)
	}
	m.forget(name)
	if got := m.get(name, "new"); got.lost {
		t.Error("want nothing remembered")
	}
}
