package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// row returns the part of a row that tests compare.
func row(a Attention) string {
	return fmt.Sprintf("%s %s %s [%s] %s on %s", a.State, a.Kind, a.Name, a.Reason, a.Message, a.Clusters.Text())
}

func moved(m Moving) string {
	return fmt.Sprintf("%s %s %d/%d %s", m.Kind, m.Name, m.Ready, m.Desired, m.Reason)
}

func TestSummarize(t *testing.T) {
	unready := func(reason, message string) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) {
			b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, reason, message, time.Hour)}
		}
	}
	says := func(kind string, status corev1.ConditionStatus, reason, message string) func(*fleet.GitRepo) {
		return func(r *fleet.GitRepo) {
			r.Status.Conditions = append(r.Status.Conditions, cond(kind, status, reason, message, time.Hour))
		}
	}
	cases := map[string]struct {
		why       string
		fleet     Fleet
		attention []string
		moving    []string
		offline   int
	}{
		"Quiet": {
			why: "a fleet where all is well says nothing",
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo()}, Bundles: []*fleet.Bundle{bundle("web", on(2))},
				Clusters: []*fleet.Cluster{cluster("a"), cluster("b")},
			},
		},
		"RemovalApproved": {
			why: "who has approved a removal has nothing left to do",
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(says(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonDeletionHeld, "would remove 5 of 8 bundles: a1b2"),
					func(r *fleet.GitRepo) { r.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "a1b2"} })},
				Bundles: []*fleet.Bundle{bundle("web", func(b *fleet.Bundle) {
					b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonDeletionHeld, "would remove 3 deployments: c3d4", time.Hour)}
					b.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "c3d4"}
				})},
			},
			moving: []string{"GitRepo shops/app 0/0 removal a1b2 is approved and has not begun", "Bundle shops/web 0/0 removal c3d4 is approved and has not begun"},
		},
		"ClusterApproved": {
			why: "the deletion of a protected cluster, too, is approved before it begins",
			fleet: Fleet{Clusters: []*fleet.Cluster{cluster("a", func(c *fleet.Cluster) {
				c.Status.Conditions = append(c.Status.Conditions, cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonProtected, "would remove 3 deployments: e5f6", time.Hour))
				c.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "e5f6"}
			})}},
			moving: []string{"Cluster shops/a 0/0 removal e5f6 is approved and has not begun"},
		},
		"RemovalApprovedBefore": {
			why: "an approval of another list counts for nothing",
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(says(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonDeletionHeld, "would remove 5 of 8 bundles: a1b2"),
				func(r *fleet.GitRepo) { r.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "c3d4"} })}},
			attention: []string{"Held GitRepo shops/app [DeletionHeld] would remove 5 of 8 bundles: a1b2 on "},
		},
		"ChartUnreachable": {
			why:       "the host of a chart may be wrong, as that of a repository",
			fleet:     Fleet{Repositories: []*fleet.GitRepo{repo(says(fleet.ConditionReconciling, corev1.ConditionTrue, "Chart", "web/fleet.yaml:2: no answer"))}},
			attention: []string{"Unreadable GitRepo shops/app [Chart] web/fleet.yaml:2: no answer on "},
		},
		"FrozenByMaxUnavailable": {
			why:       "no cluster that runs is ever updated where none may be unavailable",
			fleet:     Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.OutOfSync, "waits for room: 0 may be unavailable"), bad("b", fleet.OutOfSync, "waits for room: 0 may be unavailable")))}},
			attention: []string{"OutOfSync Bundle shops/web [OutOfSync] waits for room: 0 may be unavailable; maxUnavailable is 0 on a, b"},
		},
		"FrozenByMaxNew": {
			why:       "no cluster that is new ever gets it",
			fleet:     Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.Pending, "new deployments are not created: maxNew is 0")))}},
			attention: []string{"Pending Bundle shops/web [Pending] new deployments are not created: maxNew is 0 on a"},
		},
		"FrozenBehindAPartition": {
			why: "what waits for a partition that is never updated does not move",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(4, bad("a", fleet.OutOfSync, `waits for partition "canary"`), bad("b", fleet.OutOfSync, `waits for partition "canary"`)),
				canary(bad("z", fleet.OutOfSync, `waits for room in partition "canary": 0 may be unavailable`)))}},
			attention: []string{`OutOfSync Bundle shops/web [OutOfSync] waits for partition "canary", whose clusters are not updated: maxUnavailable is 0 on a, b`},
		},
		"FrozenWithThoseBehind": {
			why: "of many clusters the summary names ten: all others wait for the same",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(40, bad("z", fleet.OutOfSync, "waits for room: 0 may be unavailable"), bad("a", fleet.OutOfSync, `waits for partition "canary"`)),
				canary(bad("z", fleet.OutOfSync, "waits for room: 0 may be unavailable")), func(b *fleet.Bundle) { b.Status.Summary.OutOfSync = 40 })}},
			attention: []string{
				"OutOfSync Bundle shops/web [OutOfSync] waits for room: 0 may be unavailable; maxUnavailable is 0 on z",
				`OutOfSync Bundle shops/web [OutOfSync] waits for partition "canary", whose clusters are not updated: maxUnavailable is 0 on a and 38 more`,
			},
		},
		"QueuesForAPartition": {
			why:    "a partition that has room is done at some time",
			fleet:  Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.OutOfSync, `waits for partition "canary"`)), canary(bad("z", fleet.WaitApplied, "")))}},
			moving: []string{`Bundle shops/web 1/2 waits for partition "canary"`},
		},
		"HasRoomLater": {
			why:    "a limit above 0 has room again when another cluster is done",
			fleet:  Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.OutOfSync, "waits for room: 10 may be unavailable")))}},
			moving: []string{"Bundle shops/web 1/2 waits for room: 10 may be unavailable"},
		},
		"WaitsForAWindow": {
			why: "what waits for a change window needs no person, and says when the window opens",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2,
				bad("a", fleet.WaitApplied, "outside of the change windows of this cluster: the next one opens at 2027-01-01T22:00:00Z")))}},
			moving: []string{"Bundle shops/web 1/2 outside of the change windows of this cluster: the next one opens at 2027-01-01T22:00:00Z"},
		},
		"OneRowForEachState": {
			why: "two troubles of one bundle have two causes",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(4,
				bad("a", fleet.ErrApplied, "field is immutable"), bad("b", fleet.ErrApplied, "other"),
				bad("c", fleet.Modified, "changed")))}},
			attention: []string{
				"ErrApplied Bundle shops/web [ErrApplied] field is immutable on a",
				"ErrApplied Bundle shops/web [ErrApplied] other on b",
				"Modified Bundle shops/web [Modified] changed on c",
			},
		},
		"OneRowForEachError": {
			why: "clusters that the summary does not name have most likely what most have",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(5,
				bad("a", fleet.ErrApplied, "boom one"), bad("b", fleet.ErrApplied, "boom two"), bad("c", fleet.ErrApplied, "boom two")),
				func(b *fleet.Bundle) { b.Status.Summary.ErrApplied = 5 })}},
			attention: []string{
				"ErrApplied Bundle shops/web [ErrApplied] boom one on a",
				"ErrApplied Bundle shops/web [ErrApplied] boom two on b and 3 more",
			},
		},
		"NoRowForEachOfManyErrors": {
			why: "a bundle that fails in another way on every cluster does not fill the screen",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(5, many(5, func(i int) fleet.NonReadyResource {
				return bad(fmt.Sprintf("c%d", i), fleet.ErrApplied, fmt.Sprintf("boom %d", i))
			})...))}},
			attention: []string{
				"ErrApplied Bundle shops/web [ErrApplied] boom 0 on c0",
				"ErrApplied Bundle shops/web [ErrApplied] boom 1 on c1",
				"ErrApplied Bundle shops/web [ErrApplied] 3 other errors, the first: boom 2 on c2 and 2 more",
			},
		},
		"FreshNotReadyMoves": {
			why: "objects that start are not worth an alarm",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, starting("a")), func(b *fleet.Bundle) {
				b.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
			})}},
			moving: []string{"Bundle shops/web 1/2 deployment x/y [progressing] 0/1 available"},
		},
		"NotInstalledNeedsAttention": {
			why: "what is not ready, and not because of its objects, does not start",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.NotReady, "not installed: invalid")), func(b *fleet.Bundle) {
				b.Status.Conditions[0].LastTransitionTime = ago(time.Second)
			})}},
			attention: []string{"NotReady Bundle shops/web [NotReady] not installed: invalid on a"},
		},
		"OldNotReadyNeedsAttention": {
			why:       "what has not become ready for minutes will not by itself",
			fleet:     Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, starting("a")))}},
			attention: []string{"NotReady Bundle shops/web [NotReady] deployment x/y [progressing] 0/1 available on a"},
		},
		"FreshFailureNeedsAttention": {
			why: "an object that says it failed is not given time",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(1, fleet.NonReadyResource{
				Name: "shops/a", State: fleet.NotReady,
				NonReadyStatus: []fleet.NonReadyStatus{{Kind: "Job", Namespace: "x", Name: "y", Summary: fleet.Summary{State: "error", Error: true, Message: []string{"failed"}}}},
			}), func(b *fleet.Bundle) { b.Status.Conditions[0].LastTransitionTime = ago(time.Second) })}},
			attention: []string{"NotReady Bundle shops/web [NotReady] job x/y [error] failed on a"},
		},
		"OfflineIsNotMoving": {
			why: "a deployment that waits for a cluster that is away does not move",
			fleet: Fleet{
				Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
				Bundles:  []*fleet.Bundle{bundle("web", on(2, bad("b", fleet.WaitApplied, "")))},
			},
			offline: 1,
		},
		"OfflineBeyondTheList": {
			why: "a summary names ten at most; where all of them are away, so are the others",
			fleet: Fleet{
				Clusters: many(12, func(i int) *fleet.Cluster { return cluster(fmt.Sprintf("c%02d", i), away(time.Hour)) }),
				Bundles: []*fleet.Bundle{bundle("web", on(12, bad("c00", fleet.WaitApplied, ""), bad("c01", fleet.WaitApplied, "")), func(b *fleet.Bundle) {
					b.Status.Summary.WaitApplied = 12
				})},
			},
			offline: 12,
		},
		"WaitsForOthersToo": {
			why: "one cluster that is away does not hide those that are not",
			fleet: Fleet{
				Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
				Bundles:  []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.OutOfSync, "has no room"), bad("b", fleet.WaitApplied, "")))},
			},
			moving:  []string{"Bundle shops/web 0/2 has no room"},
			offline: 1,
		},
		"OutsideOfThePartitions": {
			why: "a cluster that no partition selects never gets the bundle; the others go on",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(3,
				bad("a", fleet.Pending, rollout.ReasonOutside), bad("b", fleet.OutOfSync, "has no room")))}},
			attention: []string{"Pending Bundle shops/web [Pending] in no partition of the rollout strategy on a"},
			moving:    []string{"Bundle shops/web 1/3 has no room"},
		},
		"OnlyOutside": {
			why:       "without others nothing moves",
			fleet:     Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.OutOfSync, rollout.ReasonOutside)))}},
			attention: []string{"OutOfSync Bundle shops/web [OutOfSync] in no partition of the rollout strategy on a"},
		},
		"DependsOnNothing": {
			why: "a bundle that is not there does not become Ready",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2,
				bad("a", fleet.ErrApplied, missing("databse")),
				bad("b", fleet.ErrApplied, missing("databse"))))}},
			attention: []string{"ErrApplied Bundle shops/web [ErrApplied] " + absent("databse") + " on a, b"},
		},
		"DependsOnWhatComes": {
			why: "a bundle that was not written there yet has some time",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(3,
				bad("a", fleet.ErrApplied, missing("db")), bad("b", fleet.ErrApplied, "no room")), func(b *fleet.Bundle) {
				b.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
			})}},
			attention: []string{"ErrApplied Bundle shops/web [ErrApplied] no room on b"},
			moving:    []string{"Bundle shops/web 1/3 " + absent("db")},
		},
		"DependsOnWhatIsNotReady": {
			why: "the row is that of what it waits for, however long it takes, and whichever agent says so",
			fleet: Fleet{Bundles: []*fleet.Bundle{
				bundle("web", on(2, bad("a", fleet.ErrApplied, "dependent bundle(s) are not ready: [db]; depends on db, which is NotReady"))),
				bundle("shop", on(2, bad("a", fleet.ErrApplied, "dependent bundle(s) are not ready: [db]"))),
			}},
			moving: []string{"Bundle shops/shop 1/2 dependent bundle(s) are not ready: [db]", "Bundle shops/web 1/2 depends on db, which is NotReady"},
		},
		"LacksASecret": {
			why: "a Secret that no controller makes does not come by itself",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2,
				bad("a", fleet.WaitApplied, release.MissingValues("Secret", "web", "creds", "does not exist"))))}},
			attention: []string{`WaitApplied Bundle shops/web [WaitApplied] helm.valuesFrom: Secret "creds" in namespace "web" does not exist on a`},
		},
		"LacksANamespace": {
			why: "nor does a namespace that the bundle must not create; other clusters go on",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(3,
				bad("a", fleet.ErrApplied, release.MissingNamespace("web")), bad("b", fleet.WaitApplied, "later")))}},
			attention: []string{`ErrApplied Bundle shops/web [ErrApplied] ` + release.MissingNamespace("web") + " on a"},
			moving:    []string{"Bundle shops/web 1/3 later"},
		},
		"LacksWhatComes": {
			why: "a user may be about to make it",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2,
				bad("a", fleet.ErrApplied, release.MissingNamespace("web"))), func(b *fleet.Bundle) {
				b.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
			})}},
			moving: []string{"Bundle shops/web 1/2 " + release.MissingNamespace("web")},
		},
		"UpgradeFailed": {
			why: "an upgrade that failed for good is not a start, whatever the objects of the version before do",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(3, starting("b"), func() fleet.NonReadyResource {
				r := starting("a")
				r.Message = "upgrade failed, the version before still runs: field is immutable"
				return r
			}()), func(b *fleet.Bundle) {
				b.Status.Conditions[0].LastTransitionTime = ago(time.Second)
			})}},
			attention: []string{"NotReady Bundle shops/web [NotReady] upgrade failed, the version before still runs: field is immutable on b, a"},
		},
		"BeingRemoved": {
			why: "a failure before the deletion is not one of the removal",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.NotReady, "not installed: invalid")), func(b *fleet.Bundle) {
				b.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
			})}},
			moving: []string{"Bundle shops/web 1/2 being removed"},
		},
		"BeingRemovedFromAClusterThatIsAway": {
			why: "a removal that waits for a cluster that is away does not move",
			fleet: Fleet{
				Clusters: []*fleet.Cluster{cluster("b", away(time.Hour))},
				Bundles: []*fleet.Bundle{bundle("web", on(1, bad("b", fleet.WaitApplied, "")), func(b *fleet.Bundle) {
					b.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
				})},
			},
			offline: 1,
		},
		"RemovalFails": {
			why: "what fails during the removal needs a person, and no longer than the removal lasts",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.ErrApplied, "uninstall: forbidden")), func(b *fleet.Bundle) {
				b.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
			})}},
			attention: []string{"ErrApplied Bundle shops/web [ErrApplied] uninstall: forbidden on a"},
			moving:    []string{"Bundle shops/web 1/2 being removed"},
		},
		"Paused": {
			why: "what is paused does not move by itself: it has a list of its own",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(1, bad("a", fleet.OutOfSync, "")), func(b *fleet.Bundle) {
				b.Spec.Paused = true
			})}},
		},
		"PausedFromTheFirst": {
			why: "a bundle that was never deployed because it is paused is NotReady, and its row would have no reason",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(12, bad("a", fleet.NotReady, ""), bad("b", fleet.NotReady, "")), func(b *fleet.Bundle) {
				b.Spec.Paused = true
				b.Status.Summary.NotReady = 12 // the summary names some
			})}},
		},
		"PausedAndNotReady": {
			why: "what runs and is not ready needs a person, paused or not",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", on(2, bad("a", fleet.NotReady, ""), starting("b")), func(b *fleet.Bundle) {
				b.Spec.Paused = true
			})}},
			attention: []string{"NotReady Bundle shops/web [NotReady] deployment x/y [progressing] 0/1 available on b"},
		},
		"NewOnPausedCluster": {
			why: "of a bundle that waits for a paused cluster the other clusters have a row",
			fleet: Fleet{
				Clusters: []*fleet.Cluster{cluster("a", func(c *fleet.Cluster) { c.Spec.Paused = true }), cluster("b")},
				Bundles: []*fleet.Bundle{
					bundle("web", on(2, bad("a", fleet.NotReady, ""), bad("b", fleet.NotReady, "crashes"))),
					bundle("db", on(1, bad("a", fleet.NotReady, ""))),
				},
			},
			attention: []string{"NotReady Bundle shops/web [NotReady] crashes on b"},
		},
		"PausedNewRepository": {
			why: "the repository says of its paused bundles what they say, and has no row for that either",
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
					r.Spec.Paused = true
					r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, "NotReady", "NotReady(1) [Cluster shops/a]", time.Hour)}
				})},
				Bundles: []*fleet.Bundle{bundle("web", on(1, bad("a", fleet.NotReady, "")), func(b *fleet.Bundle) { b.Spec.Paused = true })},
			},
		},
		"NewBundle": {
			why: "a new bundle will be worked on",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", func(b *fleet.Bundle) {
				b.Status = fleet.BundleStatus{}
			})}},
			moving: []string{"Bundle shops/web 0/0 "},
		},
		"NoTargetsOfOneOfMany": {
			why: "the repository is Ready where others of its bundles match one, so that only the bundle says why it is NotReady",
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo()},
				Bundles:      []*fleet.Bundle{bundle("web", on(2)), bundle("db", unready(fleet.ReasonNoTargets, "no cluster matches"))},
			},
			attention: []string{"NotReady Bundle shops/db [NoTargets] no cluster matches on "},
		},
		"NoTargetsAtAll": {
			why: "the repository shows it once, not once for each bundle",
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
					r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonNoTargets, "bundle db: no cluster matches", time.Hour)}
				})},
				Bundles: []*fleet.Bundle{bundle("db", unready(fleet.ReasonNoTargets, "no cluster matches"))},
			},
			attention: []string{"NotReady GitRepo shops/app [NoTargets] bundle db: no cluster matches on "},
		},
		"HeldOnce": {
			why: "what holds a repository is not shown again for each of its bundles",
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(says(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.EventPolicyViolation, "Policy shops/limits"))},
				Bundles:      []*fleet.Bundle{bundle("web", unready(fleet.EventPolicyViolation, "Policy shops/limits"))},
			},
			attention: []string{"Held GitRepo shops/app [PolicyViolation] Policy shops/limits on "},
		},
		"HeldBundle": {
			why: "a bundle made by hand has no repository to show it",
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", unready(fleet.EventPolicyViolation, "Policy shops/limits"), func(b *fleet.Bundle) {
				delete(b.Labels, fleet.LabelRepoName)
			})}},
			attention: []string{"Held Bundle shops/web [PolicyViolation] Policy shops/limits on "},
		},
		"Unreadable": {
			why:       "a repository that cannot be reached needs a person",
			fleet:     Fleet{Repositories: []*fleet.GitRepo{repo(says(fleet.ConditionGitPolling, corev1.ConditionFalse, "Denied", "authentication refused"))}},
			attention: []string{"Unreadable GitRepo shops/app [Denied] authentication refused on "},
		},
		"BeingRead": {
			why:    "a commit that is being read moves",
			fleet:  Fleet{Repositories: []*fleet.GitRepo{repo(says(fleet.ConditionReconciling, corev1.ConditionTrue, "", ""))}},
			moving: []string{"GitRepo shops/app 0/0 being read"},
		},
		"RollingOut": {
			why: "of a commit that was read just now the manager has not said yet how its bundles are",
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
				r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonProgressing, "commit bbbbbbb is being rolled out", time.Second)}
			})}},
			moving: []string{"GitRepo shops/app 0/0 commit bbbbbbb is being rolled out"},
		},
		"RollingOutForLong": {
			why: "a manager that says nothing for minutes needs a person",
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
				r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonProgressing, "commit bbbbbbb is being rolled out", 3*time.Minute)}
			})}},
			attention: []string{"NotReady GitRepo shops/app [Progressing] commit bbbbbbb is being rolled out on "},
		},
		"NeverSeenAfterAWhile": {
			why: "new clusters get five minutes; the same trouble of many is one row",
			fleet: Fleet{Clusters: []*fleet.Cluster{
				cluster("new", func(c *fleet.Cluster) {
					c.Status.Display.State = fleet.WaitCheckIn
					c.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
				}),
				cluster("old1", func(c *fleet.Cluster) { c.Status.Display.State = fleet.WaitCheckIn }),
				cluster("old2", func(c *fleet.Cluster) { c.Status.Display.State = fleet.WaitCheckIn }),
				cluster("old3", func(c *fleet.Cluster) { c.Status.Display.State = fleet.WaitCheckIn }),
			}},
			attention: []string{"WaitCheckIn Cluster shops/old1 [NeverSeen] the agent has not checked in yet on old1 and 2 more"},
		},
		"LocalWithoutAgent": {
			why: "the manager's own cluster says so like every other",
			fleet: Fleet{Clusters: []*fleet.Cluster{cluster("local", func(c *fleet.Cluster) {
				c.Namespace, c.Status.Display.State = fleet.NamespaceLocal, fleet.WaitCheckIn
			})}},
			attention: []string{"WaitCheckIn Cluster fleet-local/local [NeverSeen] the agent has not checked in yet on local"},
		},
		"ClusterTrouble": {
			why: "a cluster without its namespace, with two agents or with orphans is not shown by its bundles",
			fleet: Fleet{Clusters: []*fleet.Cluster{
				cluster("a", func(c *fleet.Cluster) {
					c.Status.Conditions = append(c.Status.Conditions, cond(fleet.ConditionProcessed, corev1.ConditionFalse, "Terminating", "its namespace is being deleted", time.Hour))
				}),
				cluster("b", func(c *fleet.Cluster) {
					c.Status.Conditions = append(c.Status.Conditions, cond(fleet.ConditionDuplicateIdentity, corev1.ConditionTrue, "", "two agents", time.Hour))
				}),
				cluster("c", func(c *fleet.Cluster) {
					c.Status.Agent.Orphans = &fleet.AgentOrphans{Count: 4, Names: []string{"d", "e", "f", "g"}}
				}),
				cluster("d", func(c *fleet.Cluster) {
					c.Status.Conditions = condition.Set(c.Status.Conditions, cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonAgentTrouble, "no rights", time.Hour), now)
				}),
			}},
			attention: []string{
				"NotReady Cluster shops/a [Terminating] its namespace is being deleted on a",
				"NotReady Cluster shops/b [DuplicateIdentity] two agents on b",
				"NotReady Cluster shops/d [AgentTrouble] no rights on d",
				"Orphaned Cluster shops/c [Orphaned] kept at its last check-in, and nobody ordered to uninstall it: d, e, f and 1 more on c",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Summarize(c.fleet, Manager{}, now)
			var attention, moving []string
			for _, a := range got.Attention {
				attention = append(attention, row(a))
			}
			for _, m := range got.Moving {
				moving = append(moving, moved(m))
			}
			if diff := cmp.Diff(c.attention, attention); diff != "" {
				t.Errorf("%s: attention: -want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.moving, moving); diff != "" {
				t.Errorf("%s: moving: -want +got\n%s", c.why, diff)
			}
			if got.Offline.Count != c.offline {
				t.Errorf("%s: want %d offline, got %d", c.why, c.offline, got.Offline.Count)
			}
			if quiet := len(c.attention)+len(c.moving)+len(got.Paused)+c.offline == 0; got.Quiet() != quiet {
				t.Errorf("%s: want quiet %v", c.why, quiet)
			}
		})
	}
}

func many[T any](n int, f func(int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func TestRepositories(t *testing.T) {
	stale := repo(func(r *fleet.GitRepo) { r.Status.PollingCommit = newSHA })
	held := repo(func(r *fleet.GitRepo) {
		r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.EventPolicyViolation, "x", 0)}
	})
	unused := repo(func(r *fleet.GitRepo) {
		r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.ReasonNotImplemented, "imageScanCommit", 0))
	})
	denied := repo(func(r *fleet.GitRepo) {
		r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionAccepted, corev1.ConditionFalse, "SecretNotFound", "x", 0)}
	})
	got := Summarize(Fleet{Repositories: []*fleet.GitRepo{repo(), stale, held, unused, denied, {}}}, Manager{}, now).Repositories
	want := Repositories{Total: 6, Current: 2, Held: 1, Unreadable: 1, Warnings: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestOfflineLongest(t *testing.T) {
	var list []*fleet.Cluster
	for i := range 5 {
		list = append(list, cluster(fmt.Sprintf("c%d", i), away(time.Duration(i)*time.Hour)))
	}
	got := Summarize(Fleet{Clusters: list}, Manager{}, now).Offline
	var names []string
	for _, a := range got.Longest {
		names = append(names, a.Name)
	}
	if diff := cmp.Diff([]string{"shops/c4", "shops/c3", "shops/c2"}, names); diff != "" {
		t.Errorf("those away longest come first: -want +got\n%s", diff)
	}
}

// missing returns an agent's message about a bundle that is not on its cluster.
func missing(bundle string) string {
	return "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=" + bundle +
		",fleet.cattle.io/bundle-namespace=shops in namespace shops; not on this cluster: bundle \"" + bundle + "\""
}

// absent returns the text of that message for people.
func absent(bundle string) string {
	return "waits for what is not on this cluster: bundle \"" + bundle + "\""
}
