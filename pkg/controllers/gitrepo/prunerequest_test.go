package gitrepo

import (
	"slices"
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// markOf is what an object says about the removal of Bundles.
func markOf(o interface{ GetAnnotations() map[string]string }) string {
	return o.GetAnnotations()[fleet.AnnotationPrune]
}

// What a commit removes is asked to be removed, after what is new in it was written. It is
// not deleted: that is the decision of the controllers of Bundles.
func TestCommitRemovesDirectory(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Of: loopName, Given: g.given("a b c", made, g.read),
		When: func(*looptest.World) { g.push("main", "a=other b d") },
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b", "repo-c", "repo-d")
			c := bundleOf(w, "repo-c")
			want := withdrawal.PruneMark([]*fleet.Bundle{c})
			if markOf(c) != want || markOf(repo(w)) != want || c.DeletionTimestamp != nil {
				w.Errorf("want repo-c marked %q, got %v, and %v of the GitRepo", want, c.ObjectMeta, repo(w).Annotations)
			}
			for name, commit := range map[string]bool{"repo-a": true, "repo-b": false, "repo-d": true} {
				if b := bundleOf(w, name); markOf(b) != "" || (b.Labels[fleet.LabelCommit] == g.head()) != commit {
					w.Errorf("want %s with this commit: %v, and no mark; got %v %v", name, commit, b.Labels, b.Annotations)
				}
			}
			wantOrder(w, of("create", "bundles", "repo-d"), of("patch", "bundles", "repo-c"))
		},
	})
}

// A Bundle whose directory comes back stays as it is. The request is withdrawn before the
// Bundle changes: until then the controllers of Bundles may remove it.
func TestReturningDirectoryRetractsRemoval(t *testing.T) {
	g := newGit(t)
	uid := ""
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Of: loopName,
		Given: g.given("a b", made, g.read, func(w *looptest.World) {
			g.push("main", "a")
			g.read(w)
			uid = string(bundleOf(w, "repo-b").UID)
		}),
		When: func(w *looptest.World) {
			if markOf(repo(w)) == "" || markOf(bundleOf(w, "repo-b")) == "" {
				w.Fatal("the removal of repo-b was not asked for")
			}
			g.push("main", "a b=again")
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			b := bundleOf(w, "repo-b")
			if markOf(repo(w)) != "" || markOf(b) != "" || string(b.UID) != uid {
				w.Errorf("want repo-b without a mark, as it was; got %v, and %v of the GitRepo", b.ObjectMeta, repo(w).Annotations)
			}
			wantOrder(w, of("patch", "gitrepos", "repo"), of("patch", "bundles", "repo-b"))
		},
	})
}

// A reading that removes the same Bundles as the one before leaves the request as it is:
// whatever withdrew it for a moment would begin the wait for an approval again.
func TestSameRemovalKeepsRequest(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a b", made, g.read, func(w *looptest.World) { g.push("main", "a"); g.read(w) }),
		When:  func(*looptest.World) { g.push("main", "a=other") },
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			if mark := markOf(repo(w)); mark == "" || mark != markOf(bundleOf(w, "repo-b")) {
				w.Errorf("want repo-b still to be removed, got %v", repo(w).Annotations)
			}
			if sent := process(w); slices.ContainsFunc(sent, of("patch", "gitrepos", "repo")) {
				w.Errorf("want the request untouched, got %v", sent)
			}
		},
	})
}

// A Bundle that the manager removes on request does not come back, and one that a user
// deletes does.
func TestDeletedBundle(t *testing.T) {
	for name, c := range map[string]struct {
		dirs string // of the last commit
		want []string
	}{
		"ByUser":    {dirs: "a b", want: []string{"repo-a", "repo-b"}},
		"ByRequest": {dirs: "a", want: []string{"repo-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}),
				Given: g.given("a b", made, g.read, func(w *looptest.World) { g.push("main", c.dirs); g.read(w) }),
				When: func(w *looptest.World) {
					before := g.fetches()
					removeBundle(w, "repo-b")
					w.Pass(lookAgain)
					if read := g.fetches() > before; read != (name == "ByUser") {
						w.Errorf("the repository was read again: %v", read)
					}
				},
				Then: func(w *looptest.World) {
					wantRead(w, g.head())
					wantBundles(w, c.want...)
				},
			})
		})
	}
}
