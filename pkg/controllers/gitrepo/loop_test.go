package gitrepo

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A new GitRepo is read: each of its directories becomes a Bundle, and the status shows
// the commit.
func TestGitRepo(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a b"), When: made,
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b")
			if got := bundleOf(w, "repo-a").Labels[fleet.LabelCommit]; got != g.head() {
				w.Errorf("want the label of the commit, got %q", got)
			}
		},
	})
}

// The status is written again where other writers were faster, and keeps what they wrote.
func TestStatusAfterConflict(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a", made, g.read),
		When: func(w *looptest.World) {
			w.Server.Conflict(2, kubetest.Match{Verb: "patch", Resource: "gitrepos", Subresource: "status", Agent: processAgent})
			g.during(func() {
				late(w, gitRepos, time.Second, func() {
					changeRepo(w, func(r *fleet.GitRepo) {
						r.Status.Conditions = condition.Set(r.Status.Conditions, fleet.Condition{Type: "Other", Status: corev1.ConditionTrue}, time.Now())
						r.Status.Summary.DesiredReady = 7
					})
				})
			})
			g.push("main", "a=other")
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantCondition(w, "Other", "True", "", "")
			if got := repo(w).Status.Summary.DesiredReady; got != 7 {
				w.Errorf("want the summary of another writer kept, got %d", got)
			}
		},
	})
}

// A GitRepo that is passed on while it is read belongs to another manager from then on:
// this one writes no Bundle with its old labels, and no status.
func TestPassedOnWhileRead(t *testing.T) {
	for _, on := range []string{"Fetch", "Write"} {
		t.Run(on, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}), Given: g.given("a"),
				When: func(w *looptest.World) {
					pass := func() {
						changeRepo(w, func(r *fleet.GitRepo) { r.Labels = map[string]string{fleet.LabelShardRef: "other"} })
					}
					if on == "Fetch" {
						g.during(pass)
					} else { // 429 for three seconds
						busy := w.Server.Busy(kubetest.Always, kubetest.Match{Verb: "create", Resource: "bundles", Agent: processAgent}, time.Second)
						defer busy.Lift()
						defer w.Pass(2 * time.Second)
						defer pass()
					}
					made(w)
					w.Pass(2 * time.Second)
				},
				Then: func(w *looptest.World) {
					if on == "Fetch" {
						wantBundles(w)
					}
					if s := repo(w).Status; s.Commit != "" || s.GitJobStatus == "Current" {
						w.Errorf("want no status of a reading, got %+v", s)
					}
				},
			})
		})
	}
}

// A manager leaves alone what is not in its scope.
func TestForeignGitRepoIgnored(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{Workspaces: []string{"other"}}), Given: g.given("a"), When: made,
		Then: func(w *looptest.World) {
			if sent := process(w); len(sent) > 0 || g.fetches() > 0 {
				w.Errorf("want nothing read and nothing written, got %v", sent)
			}
		},
	})
}

// A user forces a reading with another forceSyncGeneration, which the Bundles pass on.
func TestForceSyncGeneration(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a", made, g.read),
		When: func(w *looptest.World) {
			changeRepo(w, func(r *fleet.GitRepo) { r.Spec.ForceSyncGeneration = 3 })
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			b := bundleOf(w, "repo-a")
			if got := repo(w).Status.UpdateGeneration; got != 3 || b.Spec.ForceSyncGeneration != 3 {
				w.Errorf("want 3 in the status and in the Bundle, got %d and %d", got, b.Spec.ForceSyncGeneration)
			}
		},
	})
}

// A paused GitRepo pauses its Bundles, which keep the commit that made them.
func TestPausedGitRepo(t *testing.T) {
	g := newGit(t)
	first := ""
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a b", made, g.read),
		When: func(w *looptest.World) {
			first = g.head()
			changeRepo(w, func(r *fleet.GitRepo) { r.Spec.Paused = true })
			w.Pass(time.Minute)
			g.push("main", "a b=other")
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			a, b := bundleOf(w, "repo-a"), bundleOf(w, "repo-b")
			if !a.Spec.Paused || !b.Spec.Paused {
				w.Error("want both Bundles paused")
			}
			if a.Labels[fleet.LabelCommit] != first || b.Labels[fleet.LabelCommit] != g.head() {
				w.Errorf("want the commits that changed them, got %v and %v", a.Labels, b.Labels)
			}
		},
	})
}

// The brake holds back everything new, and no time is lost when it is off.
func TestBrake(t *testing.T) {
	g := newGit(t)
	first := ""
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a", made, g.read, func(w *looptest.World) {
			looptest.Make(w, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fleet.ConfigMapBrake},
				Data:       map[string]string{"suspended": "true", "reason": "incident", "by": "ana"},
			})
		}),
		When: func(w *looptest.World) {
			first = g.head()
			second := g.push("main", "a b")
			w.Pass(5 * time.Minute)
			if s := repo(w).Status; s.Commit != first || s.PollingCommit != second {
				w.Errorf("want the commit seen and not read, got %+v", s)
			}
			wantCondition(w, fleet.ConditionReconciling, "True", fleet.ReasonSuspended, "suspended by ana: incident")
			wantBundles(w, "repo-a")
			looptest.Remove[*corev1.ConfigMap](w, system, fleet.ConfigMapBrake)
			w.Pass(time.Second)
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a", "repo-b")
		},
	})
}

// A GitRepo that violates a limit is not read, and is read when the limit allows it.
func TestViolation(t *testing.T) {
	g := newGit(t)
	limit := &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "limit"}, AllowedServiceAccounts: []string{"deployer"}}
	limit.GitRepo = &fleet.GitRepoPolicySpec{DefaultServiceAccount: "other"}
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a", func(w *looptest.World) { looptest.Make(w, limit.DeepCopy()) }),
		When: func(w *looptest.World) {
			made(w)
			w.Pass(5 * time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "False", fleet.EventPolicyViolation, "disallowed serviceAccount other: other not in allowed set [deployer]")
			wantCondition(w, fleet.ConditionStalled, "True", fleet.EventPolicyViolation, "disallowed serviceAccount other")
			wantBundles(w)
			if g.resolved > 0 {
				w.Errorf("the repository was asked %d times", g.resolved)
			}
			looptest.Change(w, ws, "limit", func(p *fleet.Policy) { p.AllowedServiceAccounts = append(p.AllowedServiceAccounts, "other") })
			w.Pass(time.Second)
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantCondition(w, fleet.ConditionAccepted, "True", "", "")
			if got := repo(w).Spec.ServiceAccount; got != "other" {
				w.Errorf("want the default in the spec, got %q", got)
			}
		},
	})
}

// A limit that comes later keeps what is deployed, and a GitRepo that violates it can be
// deleted.
func TestViolationLater(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a"),
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			wantBundles(w, "repo-a")
			looptest.Make(w, &fleet.GitRepoRestriction{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "limit"}, AllowedTargetNamespaces: []string{"a"}})
			w.Pass(time.Second)
			wantCondition(w, fleet.ConditionAccepted, "False", fleet.EventPolicyViolation, "empty targetNamespace denied, because allowedTargetNamespaces restriction is present")
			g.push("main", "a b")
			w.Pass(5 * time.Minute)
			wantBundles(w, "repo-a")
			looptest.Remove[*fleet.GitRepo](w, ws, "repo")
			w.Pass(time.Second)
			if b := bundleOf(w, "repo-a"); b == nil || b.DeletionTimestamp == nil {
				w.Errorf("want the Bundle deleted, got %+v", b)
			}
			looptest.Change(w, ws, "repo-a", func(b *fleet.Bundle) { b.Finalizers = nil }) // it is withdrawn
		},
		Then: func(w *looptest.World) {
			wantBundles(w)
			if r := repo(w); r != nil {
				w.Errorf("want the GitRepo gone, got %+v", r.ObjectMeta)
			}
		},
	})
}

// A repository that cannot be had is tried again where that may help. What was deployed
// stays.
func TestRepositoryFails(t *testing.T) {
	passing := reconcile.RequeueError(git.ReasonRemoteFailing, 0, errors.New("the host is busy"))
	terminal := reconcile.TerminalError(git.ReasonTooLarge, errors.New("the commit is too large"))
	cases := map[string]struct {
		fail      func(g *memoryGit)
		condition string // that shows it
		text      string
		most      int // attempts to fetch in an hour
	}{
		"CannotBeAsked":   {func(g *memoryGit) { g.asked = passing }, fleet.ConditionReconciling, "the host is busy", 0},
		"CannotBeFetched": {func(g *memoryGit) { g.broken = passing }, fleet.ConditionReconciling, "the host is busy", 250},
		"TooLarge":        {func(g *memoryGit) { g.broken = terminal }, fleet.ConditionStalled, "the commit is too large", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}), Given: g.given("a", made, g.read),
				When: func(w *looptest.World) {
					first, before := g.head(), g.fetches()
					g.push("main", "b")
					g.set(func() { c.fail(g) })
					w.Pass(time.Hour)
					wantCondition(w, c.condition, "True", reconcile.ReasonOf(g.fault()), c.text)
					if got := g.fetches() - before; got > c.most || got == 0 && c.most > 0 {
						w.Errorf("want at most %d attempts, got %d", c.most, got)
					}
					if s := repo(w).Status; s.Commit != first || markOf(bundleOf(w, "repo-a")) != "" {
						w.Errorf("want the first commit to stay, got %+v", s)
					}
					g.set(func() { g.asked, g.broken = nil, nil })
					g.push("main", "a b")
				},
				Then: func(w *looptest.World) {
					wantRead(w, g.head())
					wantBundles(w, "repo-a", "repo-b")
				},
			})
		})
	}
}

// A warning about a commit stays when the process ends: the next one reads the repository
// again, and writes nothing.
func TestWarningAfterRestart(t *testing.T) {
	g := newGit(t)
	warned := func(w *looptest.World) {
		wantCondition(w, fleet.ConditionStalled, "False", "UnknownKey", "a/fleet.yaml:1: ")
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("", func(*looptest.World) {
			g.pushFiles("main", map[string]string{"a/fleet.yaml": "nmespace: x\n", "a/cm.yaml": object})
		}, made, g.read, warned),
		Then: func(w *looptest.World) {
			warned(w)
			if sent := process(w); len(sent) > 0 {
				w.Errorf("want nothing written, got %v", sent)
			}
		},
	})
}

// Of two GitRepos that yield one Bundle the first keeps it. The other one says so, and
// takes the name when it is free.
func TestTwoGitReposOneBundle(t *testing.T) {
	g := newGit(t)
	owner := func(w *looptest.World) string {
		b := bundleOf(w, "repo-a-b")
		if b == nil {
			return ""
		}
		return b.Labels[fleet.LabelRepoName]
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a-b b", func(w *looptest.World) {
			makeRepo(w, "repo-a", func(r *fleet.GitRepo) { r.Spec.Paths = []string{"b"} })
		}, g.read, made, g.read, func(w *looptest.World) {
			wantCondition(w, fleet.ConditionStalled, "True", "Conflict", `belongs to GitRepo "repo-a"`)
			wantBundles(w, "repo-a-b", "repo-b")
			if got := owner(w); got != "repo-a" {
				w.Errorf("want the first owner, got %q", got)
			}
			looptest.Change(w, ws, "repo-a-b", func(b *fleet.Bundle) { b.Finalizers = nil })
		}),
		When: func(w *looptest.World) { looptest.Remove[*fleet.GitRepo](w, ws, "repo-a") },
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			wantBundles(w, "repo-a-b", "repo-b")
			if got := owner(w); got != "repo" {
				w.Errorf("want the other owner, got %q", got)
			}
		},
	})
}

// A large Bundle is kept apart, in a Content of this installation, which must have an id.
func TestLargeBundleWaitsForInstallation(t *testing.T) {
	g := newGit(t)
	noise := make([]byte, 790_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // compresses badly
	large := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbinaryData: {x: " + base64.StdEncoding.EncodeToString(noise) + "}\n"
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a", func(*looptest.World) { g.pushFiles("main", map[string]string{"a/cm.yaml": large}) }),
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			wantCondition(w, fleet.ConditionReconciling, "True", fleet.ReasonProgressing, "has not started yet")
			wantBundles(w)
			looptest.Make(w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: system, Name: fleet.ConfigMapInstallation, Labels: map[string]string{fleet.LabelManagerID: "id"},
			}})
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			content := bundleOf(w, "repo-a").Annotations[fleet.AnnotationContent]
			if got := looptest.Names[*fleet.Content](w, ""); !slices.Contains(got, content) {
				w.Errorf("want content %q, got %v", content, got)
			}
		},
	})
}

// Older versions of Rancher wrote the name of a person into a label; it is removed, and the
// id of the user stays, also at the Bundles.
func TestDisplayNameRemoved(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a"),
		When: func(w *looptest.World) {
			makeRepo(w, "repo", func(r *fleet.GitRepo) {
				r.Labels = map[string]string{"fleet.cattle.io/created-by-display-name": "Ana", "fleet.cattle.io/created-by-user-id": "u-4711"}
			})
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			if got := repo(w).Labels; len(got) != 1 || got["fleet.cattle.io/created-by-user-id"] != "u-4711" {
				w.Errorf("want the id only, got %v", got)
			}
			got := bundleOf(w, "repo-a").Labels
			if _, named := got["fleet.cattle.io/created-by-display-name"]; named || got["fleet.cattle.io/created-by-user-id"] != "u-4711" {
				w.Errorf("want the id only at the Bundle, got %v", got)
			}
		},
	})
}
