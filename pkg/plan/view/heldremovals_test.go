package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	heldHash    = "5a8c1f0e9d2b7c44"
	heldMessage = "would remove 5 of 8 bundles (budget 3); to go on: fleet approve -n shops repo/app " + heldHash
)

func heldCondition() fleet.Condition {
	return cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonDeletionHeld, heldMessage, 0)
}

// holding is a GitRepo that holds a list with these lines.
func holding(lines string) func(*fleet.GitRepo) {
	return func(r *fleet.GitRepo) {
		asking(r)
		r.Annotations[fleet.AnnotationDeletionHeld] = heldHash + " would remove 5 of 8 bundles (budget 3)\n" + lines
		r.Status.Conditions = append(r.Status.Conditions, heldCondition())
	}
}

// approving is a GitRepo on which a person has approved a list.
func approving(hash string) func(*fleet.GitRepo) {
	return func(r *fleet.GitRepo) { r.Annotations[fleet.AnnotationApproveDeletion] = hash }
}

// A held removal ends a wait only if it is one of the reading that is waited for, and
// waits for a person.
func TestJudgeHold(t *testing.T) {
	commit := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: "bbbbbbb"}
	all, web := Goal{Kind: "GitRepo", Key: commit.Key}, Goal{Kind: "Bundle", Key: Key{Namespace: space, Name: "web"}}
	db, gone := bundle("db", on(1)), bundle("web", marked)
	retracted := func(r *fleet.GitRepo) { delete(r.Annotations, fleet.AnnotationPrune) }
	unlisted := func(r *fleet.GitRepo) { delete(r.Annotations, fleet.AnnotationDeletionHeld) }
	late := func(b *fleet.Bundle) { b.Status.ObservedGeneration = 1 }
	protectedDeletion := func(r *fleet.GitRepo) {
		r.DeletionTimestamp = &metav1.Time{Time: now}
		r.Status.Conditions[len(r.Status.Conditions)-1].Reason = fleet.ReasonProtected
	}
	deletion := func(b *fleet.Bundle) {
		deleted(b)
		b.Annotations = map[string]string{fleet.AnnotationDeletionHeld: heldHash + " would remove 5 deployments\n"}
		b.Status.Conditions = append(b.Status.Conditions, heldCondition())
	}
	replacing, reverted := on(1, bad("c1", fleet.OutOfSync, "kept")), on(1)
	confirmed := func(b *fleet.Bundle) { b.Annotations[fleet.AnnotationApproveDeletion] = heldHash }
	const again = "waiting\nrepo app: the manager has not judged again what it holds"
	cases := map[string]struct {
		why  string
		goal Goal
		repo *fleet.GitRepo
		own  []*fleet.Bundle
		want string
	}{
		"OfThisCommit": {
			why: "it waits for a person", goal: commit, repo: repo(read, holding("bundle web\n")), own: []*fleet.Bundle{db, gone},
			want: "failed\nrepo app: " + heldMessage,
		},
		"OfTheCommitBefore": {
			why: "the commit that is waited for may take the removal back", goal: commit, repo: repo(holding("bundle web\n")), own: []*fleet.Bundle{db, gone},
			want: "waiting\nrepo app is at aaaaaaa",
		},
		"BeingRead": {
			why: "the manager has seen the commit and has not read it", goal: commit,
			repo: repo(holding("bundle web\n"), func(r *fleet.GitRepo) { r.Status.PollingCommit = newSHA }), own: []*fleet.Bundle{db, gone},
			want: "waiting\nrepo app is at aaaaaaa",
		},
		"OfTheSpecBefore": {
			why: "the paths that are waited for may bring the bundles back", goal: commit,
			repo: repo(read, holding("bundle web\n"), edited), own: []*fleet.Bundle{db, gone},
			want: "waiting\nrepo app is at bbbbbbb, but was not read yet as its spec asks for",
		},
		"TakenBack": {
			why: "the commit was read and removes nothing; the condition is about the commit before", goal: commit,
			repo: repo(read, holding("bundle web\n"), retracted), own: []*fleet.Bundle{db, gone}, want: again,
		},
		"PartlyTakenBack": {
			why: "the commit brings one of the bundles back: what is left is another list", goal: commit,
			repo: repo(read, holding("bundle db\nbundle web\n")), own: []*fleet.Bundle{db, gone}, want: again,
		},
		"NotListedAnyMore": {
			why: "the list is taken off before the condition is", goal: commit,
			repo: repo(read, holding("bundle web\n"), unlisted), own: []*fleet.Bundle{db}, want: again,
		},
		"ReplacementTakenBack": {
			why: "whether the changed bundle still replaces a release is not known before the manager worked on it", goal: commit,
			repo: repo(read, holding("bundle web: release web on c1\n")), own: []*fleet.Bundle{db, bundle("web", changedBundle, late)},
			want: again + "\nbundle web was not worked on yet",
		},
		"Replacement": {
			why: "it was worked on, and waits for a person", goal: commit,
			repo: repo(read, holding("bundle web: release web on c1\n")),
			own:  []*fleet.Bundle{db, bundle("web", changedBundle, replacing)}, want: "failed\nweb on c1: waiting OutOfSync kept\nrepo app: " + heldMessage,
		},
		"ReplacementReverted": {
			why: "the changed bundle was worked on and keeps no release; its repository is judged a second later", goal: commit,
			repo: repo(read, holding("PersistentVolumeClaim web/data on c1\nbundle web: release web on c1\n")), own: []*fleet.Bundle{db, bundle("web", changedBundle, reverted)},
			want: again + "\nbundle web is not written to 1 of 1 clusters yet",
		},
		"Approved": {
			why: "a person has approved this list", goal: commit, repo: repo(read, holding("bundle web\n"), approving(heldHash)), own: []*fleet.Bundle{db, gone},
			want: "waiting\nrepo app: removal " + heldHash + " is approved and has not begun",
		},
		"ApprovedWithoutCommit": {
			why: "whatever is waited for", goal: all, repo: repo(holding("bundle web\n"), approving(heldHash)), own: []*fleet.Bundle{gone},
			want: "waiting\nrepo app: removal " + heldHash + " is approved and has not begun",
		},
		"AnotherApproved": {
			why: "the list has changed since", goal: commit, repo: repo(read, holding("bundle web\n"), approving("00c0ffee00c0ffee")), own: []*fleet.Bundle{db, gone},
			want: "failed\nrepo app: " + heldMessage,
		},
		"RepoDeleted": {
			why: "a protected repository that is deleted reads no other commit", goal: Goal{Kind: "Bundle", Key: web.Key, Commit: newSHA},
			repo: repo(holding("bundle web\n"), protectedDeletion), own: []*fleet.Bundle{bundle("web")},
			want: "failed\nrepo app: " + heldMessage,
		},
		"Bundle": {
			why: "a deleted bundle waits for a person", goal: web, own: []*fleet.Bundle{bundle("web", deletion)},
			want: "failed\nbundle web: " + heldMessage,
		},
		"BundleApproved": {
			why: "until its list is approved: then it goes", goal: web, own: []*fleet.Bundle{bundle("web", deletion, confirmed)},
			want: "failed\nbundle web is being removed",
		},
		"BundleOfARepoApproved": {
			why: "and its repository waits until it is gone", goal: commit, repo: repo(read), own: []*fleet.Bundle{db, bundle("web", deletion, confirmed)},
			want: "waiting\nbundle web is being removed",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := Fleet{Bundles: c.own}
			if c.repo != nil {
				f.Repositories = []*fleet.GitRepo{c.repo}
			}
			got := Evaluate(c.goal, finished(f))
			if diff := cmp.Diff(c.want, text(got)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// A removal of deployments that targeting takes back belongs to one Bundle. It ends a wait
// for that Bundle and for its repository, though the deployments look as if they were wanted.
func TestJudgeHoldOfTargeting(t *testing.T) {
	app, web := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}}, Goal{Kind: "Bundle", Key: Key{Namespace: space, Name: "web"}}
	commit := app
	commit.Commit = "bbbbbbb"
	leaves := func(b *fleet.Bundle) {
		b.Status.Conditions = append(b.Status.Conditions, cond(fleet.ConditionWithdrawing, corev1.ConditionTrue, fleet.ReasonProgressing, "1 to uninstall: no target matches", 0))
	}
	held := func(b *fleet.Bundle) {
		b.Annotations = map[string]string{fleet.AnnotationDeletionHeld: heldHash + " would remove 5 deployments\ndeployment shops/a\n"}
		b.Status.Conditions = append(b.Status.Conditions, heldCondition())
	}
	confirmed := func(b *fleet.Bundle) { b.Annotations[fleet.AnnotationApproveDeletion] = heldHash }
	retargeted := func(b *fleet.Bundle) { b.Generation++ }
	unlisted := func(b *fleet.Bundle) { delete(b.Annotations, fleet.AnnotationDeletionHeld) }
	const ready, fault = "\ndb on a: ready Ready\nweb on a: ready Ready", "\nbundle web: " + heldMessage
	const again = "\nbundle web: the manager has not judged again what it holds"
	cases := map[string]struct {
		why  string
		goal Goal
		web  *fleet.Bundle
		want string
	}{
		"NoTargets": {
			why: "no cluster matches, and what is deployed waits for a person", goal: app,
			web: bundle("web", untargeted, leaves, held), want: "failed" + ready + fault,
		},
		"NoTargetsOfTheBundle": {
			why: "the removal is the cause, also where the bundle is asked for itself", goal: web,
			web: bundle("web", untargeted, leaves, held), want: "failed\nweb on a: ready Ready" + fault,
		},
		"SomeTargets": {
			why: "other clusters that match do not matter", goal: app, web: bundle("web", on(1), leaves, held), want: "failed" + ready + fault,
		},
		"AnotherCommit": {
			why: "with a commit, only the bundles that it changed count", goal: commit, web: bundle("web", on(1), leaves, held), want: "ready",
		},
		"ThisCommit": {
			why: "this one has", goal: commit, web: bundle("web", changedBundle, on(1), leaves, held),
			want: "failed\nweb on a: waiting Ready the rollout has not come to it yet" + fault,
		},
		"Approved": {
			why: "a person has approved this list", goal: app, web: bundle("web", on(1), leaves, held, confirmed),
			want: "waiting" + ready + "\nbundle web: removal " + heldHash + " is approved and has not begun",
		},
		"TargetsPutBack": {
			why: "the bundle was changed since, and the manager has not worked on it", goal: app, web: bundle("web", on(1), leaves, held, retargeted),
			want: "waiting\ndb on a: ready Ready\nweb on a: waiting Ready the manager has not worked on it yet\nbundle web was not worked on yet",
		},
		"NothingLeavesAnyMore": {
			why: "the bundle was worked on, and no deployment leaves: the list is about the targets before", goal: app, web: bundle("web", on(1), held),
			want: "waiting" + ready + again,
		},
		"NotListedAnyMore": {
			why: "the list is taken off before the condition is", goal: app, web: bundle("web", on(1), leaves, held, unlisted),
			want: "waiting" + ready + again,
		},
		"NotJudged": {
			why: "a deployment that is not wanted any more is judged a second later", goal: app, web: bundle("web", untargeted, leaves),
			want: "waiting" + ready + "\nbundle web: 1 to uninstall: no target matches",
		},
		"Replacement": {
			why: "a bundle that keeps a release holds the list without anything that leaves", goal: app, web: bundle("web", on(1, bad("a", fleet.OutOfSync, "kept")), held),
			want: "failed\ndb on a: ready Ready\nweb on a: waiting OutOfSync kept" + fault,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := Fleet{
				Repositories: []*fleet.GitRepo{repo()}, Clusters: []*fleet.Cluster{cluster("a")}, Bundles: []*fleet.Bundle{bundle("db", on(1)), c.web},
				Deployments: []*fleet.BundleDeployment{deployment("db", "a"), deployment("web", "a")},
			}
			if c.goal.Commit != "" {
				read(f.Repositories[0])
			}
			got := Evaluate(c.goal, finished(f))
			if diff := cmp.Diff(c.want, text(got)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
