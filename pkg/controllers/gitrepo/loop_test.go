package gitrepo

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A new GitRepo is read: each of its directories becomes a Bundle, and the status shows
// the commit.
func TestGitRepo(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a b"),
		When: func(w *looptest.World) { makeRepo(w, "repo", nil) },
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b")
			if got := bundleOf(w, "repo-a").Labels[fleet.LabelCommit]; got != g.head() {
				w.Errorf("want the label of the commit, got %q", got)
			}
		},
	})
}
