package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// read is a repository at the new commit.
func read(r *fleet.GitRepo) { r.Status.Commit, r.Status.PollingCommit = newSHA, newSHA }

// ofShard is a repository of shard blue.
func ofShard(r *fleet.GitRepo) { r.Labels = map[string]string{fleet.LabelShardRef: "blue"} }

// changedBundle is a bundle that the new commit changed, and that was worked on.
func changedBundle(b *fleet.Bundle) {
	b.Labels[fleet.LabelCommit] = newSHA
	b.Generation, b.Status.ObservedGeneration = 2, 2
}

// pausedBundle is a bundle that a user has paused.
func pausedBundle(b *fleet.Bundle) { b.Spec.Paused = true }

// untargeted is a bundle that matches no cluster.
func untargeted(b *fleet.Bundle) {
	b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonNoTargets, "no cluster matches", 0)}
}

func stalled(reason, message string) func(*fleet.GitRepo) {
	return func(r *fleet.GitRepo) {
		r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionStalled, corev1.ConditionTrue, reason, message, 0))
	}
}

// neverRead is a repository that could not be read yet, and is tried again.
func neverRead(reason, message string) func(*fleet.GitRepo) {
	return func(r *fleet.GitRepo) {
		r.Status.Commit, r.Status.PollingCommit, r.Status.ObservedGeneration = "", "", 0
		r.Status.Conditions = append(r.Status.Conditions,
			cond(fleet.ConditionGitPolling, corev1.ConditionFalse, reason, message, 0),
			cond(fleet.ConditionReconciling, corev1.ConditionTrue, reason, message, 0))
		for i := range r.Status.Conditions {
			r.Status.Conditions[i].ObservedGeneration = r.Generation
		}
	}
}

// finished is a fleet whose manager says of each repository, unless it says something
// else already, that the bundles are those of the last reading.
func finished(f Fleet) Fleet {
	for _, r := range f.Repositories {
		if r.Status.Reading == nil {
			r.Status.Reading = left(r, true, f.Bundles...)
		}
	}
	return f
}

// left returns the status.reading of a reading that left these bundles.
func left(r *fleet.GitRepo, complete bool, bundles ...*fleet.Bundle) *fleet.Reading {
	return reading.Next(nil, fleet.Reading{
		Commit: r.Status.Commit, Generation: r.Status.ObservedGeneration, Complete: complete,
	}, reading.Commits(r, bundles), nil)
}

func text(v Verdict) string {
	lines := []string{string(v.End)}
	for _, p := range v.Pairs {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s on %s: %s %s %s", p.Bundle.Name, p.Cluster.Name, p.Progress, p.State, p.Message)))
	}
	return strings.Join(append(lines, v.Problems()...), "\n")
}

func TestJudge(t *testing.T) {
	key := Key{Namespace: space, Name: "app"}
	commit := Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb"}
	all := Goal{Kind: "GitRepo", Key: key}
	web := Goal{Kind: "Bundle", Key: Key{Namespace: space, Name: "web"}}
	two := []*fleet.Cluster{cluster("a"), cluster("b")}
	other := bundle("db", on(1))
	cases := map[string]struct {
		why   string
		goal  Goal
		fleet Fleet
		want  []string
	}{
		"NotRead": {
			why: "nothing counts before the commit was read", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo()}, Bundles: []*fleet.Bundle{other}},
			want:  []string{"waiting", "repo app is at aaaaaaa"},
		},
		"ChangedNothing": {
			why: "a commit that changes no bundle has nothing to wait for, whatever else is broken", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)},
				Bundles:      []*fleet.Bundle{bundle("db", on(1, bad("a", fleet.ErrApplied, "no")))},
			},
			want: []string{"ready"},
		},
		"FrozenPartition": {
			why: "a partition whose limit is 0 lets no cluster through without a change", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.OutOfSync, `waits for room in partition "canary": 0 may be unavailable`)))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit] = newSHA
				})},
			},
			want: []string{"failed", "web on a: ready Ready", `web on b: failed OutOfSync waits for room in partition "canary": 0 may be unavailable; maxUnavailable is 0`},
		},
		"FrozenBehindAPartition": {
			why: "nor does one that waits for such a partition, also where the summary does not name its clusters", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.OutOfSync, `waits for partition "canary"`)),
					canary(bad("a", fleet.OutOfSync, `waits for room in partition "canary": 0 may be unavailable`)))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b"), deployment("web", "a", func(bd *fleet.BundleDeployment) {
					bd.Spec.StagedDeploymentID = "s-new:o"
				})},
			},
			want: []string{
				"failed", `web on a: failed OutOfSync waits for room in partition "canary": 0 may be unavailable; maxUnavailable is 0`,
				`web on b: failed OutOfSync waits for partition "canary", whose clusters are not updated: maxUnavailable is 0`,
			},
		},
		"FrozenNew": {
			why: "nor does a strategy that makes no new deployment", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1, bad("b", fleet.Pending, "new deployments are not created: maxNew is 0")))},
			},
			want: []string{"failed", "web on b: failed Pending new deployments are not created: maxNew is 0"},
		},
		"FrozenBefore": {
			why: "what the manager has not judged yet may have room", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1, bad("b", fleet.Pending, rollout.ReasonOutside)), func(b *fleet.Bundle) { b.Generation++ })},
			},
			want: []string{"waiting", "web on b: waiting Pending in no partition of the rollout strategy", "bundle web was not worked on yet"},
		},
		"HeldByAPartition": {
			why: "a deployment that a partition holds back looks as if it were Ready: the Bundle knows better", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.OutOfSync, `waits for partition "first"`)))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit] = newSHA
				})},
			},
			want: []string{"waiting", "web on a: ready Ready", `web on b: waiting OutOfSync waits for partition "first"`},
		},
		"HeldUnnamed": {
			why: "the summary names ten and counts all", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.OutOfSync, "no")), func(b *fleet.Bundle) {
					b.Status.Summary.NonReadyResources = nil
				})},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", applied)},
			},
			want: []string{"waiting", "web on a: ready Ready", "web on b: ready Ready", "bundle web is held back on 1 of 2 clusters"},
		},
		"NotWorkedOn": {
			why: "the old deployments of a changed bundle say nothing about the commit", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{other, bundle("web", changedBundle, on(1), func(b *fleet.Bundle) { b.Status.ObservedGeneration = 1 })},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a")},
			},
			want: []string{"waiting", "web on a: waiting Ready the manager has not worked on it yet", "bundle web was not worked on yet"},
		},
		"WaitsForSource": {
			why: "the Bundle says what the manager waits for before it works on it", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{other, bundle("web", changedBundle, on(1), func(b *fleet.Bundle) {
					b.Status.ObservedGeneration = 1
					b.Status.Conditions = []fleet.Condition{{Type: "Ready", Status: "False", Reason: "DownstreamResourceMissing", Message: `waits for Secret "nosuch"`}}
				})},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a")},
			},
			want: []string{"waiting", `web on a: waiting Ready waits for Secret "nosuch"`, `bundle web: waits for Secret "nosuch"`},
		},
		"HalfWritten": {
			why: "a cluster without a deployment yet is waited for, by number if the summary does not name it", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(3, bad("b", fleet.Pending, "waits for room")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied)},
			},
			want: []string{
				"waiting", "web on a: ready Ready", "web on b: waiting Pending waits for room", "bundle web is not written to 1 of 3 clusters yet",
			},
		},
		"Reached": {
			why: "all clusters of all changed bundles are Ready with the commit", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{other, bundle("web", changedBundle, on(2))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", applied), deployment("db", "a")},
			},
			want: []string{"ready", "web on a: ready Ready", "web on b: ready Ready"},
		},
		"FailedForGood": {
			why: "it ends at once when one cannot become Ready without a change", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(2))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", written), deployment("web", "b", failed("NotOwned", "not ours"))},
			},
			want: []string{"failed", "web on a: waiting WaitApplied the agent has not applied it yet", "web on b: failed ErrApplied not ours"},
		},
		"OldFailure": {
			why: "a failure of the deployment before may pass with this one", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", failed("NotOwned", "not ours"), func(bd *fleet.BundleDeployment) {
					bd.Generation = 3
				})},
			},
			want: []string{"waiting", "web on b: waiting ErrApplied not ours"},
		},
		"Retried": {
			why: "an error that is tried again may pass", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", written, func(bd *fleet.BundleDeployment) {
					bd.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeployed, corev1.ConditionFalse, "Error", "timeout", 0)}
				})},
			},
			want: []string{"waiting", "web on b: waiting ErrApplied timeout"},
		},
		"RecordedByTheReference": {
			why: "the reference's agents give up by calling the deployment applied and not installed", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", applied, func(bd *fleet.BundleDeployment) {
					bd.Status.Ready = false
					bd.Status.Conditions = []fleet.Condition{cond(fleet.ConditionInstalled, corev1.ConditionFalse, "Error", "not installed: YAML", 0)}
				})},
			},
			want: []string{"failed", "web on b: failed NotReady not installed: YAML"},
		},
		"Offline": {
			why: "a cluster that is away is deferred once it was written to", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.WaitApplied, "")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", written)},
			},
			want: []string{"deferred", "web on a: ready Ready", "web on b: deferred WaitApplied the cluster is Offline"},
		},
		"OfflineAndAll": {
			why: "--all waits for those that are away", goal: Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb", All: true},
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.WaitApplied, "")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", written)},
			},
			want: []string{"waiting", "web on a: ready Ready", "web on b: waiting WaitApplied the agent has not applied it yet"},
		},
		"OfflineAndReady": {
			why: "a cluster that took the commit before it went away is Ready", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: []*fleet.Cluster{cluster("b", away(time.Hour))},
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", applied)},
			},
			want: []string{"ready", "web on b: ready Ready"},
		},
		"OlderVersionFailed": {
			why: "a failure of the version before says nothing about the one that waits for its partition", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.ErrApplied, "boom")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", failed("TemplateFailed", "boom"), func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit] = oldSHA
					bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = "s-mid:o", "s-new:o"
				})},
			},
			want: []string{"waiting", "web on a: ready Ready", "web on b: waiting ErrApplied boom"},
		},
		"OlderVersionFailedAndNewerStaged": {
			why: "nor where the new version is staged already: then the labels name the new commit", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.ErrApplied, "boom")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", failed("TemplateFailed", "boom"), func(bd *fleet.BundleDeployment) {
					bd.Spec.DeploymentID = "s-mid:o"
				})},
			},
			want: []string{"waiting", "web on a: ready Ready", "web on b: waiting ErrApplied boom"},
		},
		"NewerVersionFailsToo": {
			why: "what the manager says of the new version counts although the agent has failed with the one before", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.ErrApplied, "helm.values.x: no function foo")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", failed("TemplateFailed", "boom"), func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit] = oldSHA
					bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = "s-mid:o", "s-mid:o"
				})},
			},
			want: []string{"failed", "web on a: ready Ready", "web on b: failed ErrApplied helm.values.x: no function foo"},
		},
		"OfflineAndReadyNow": {
			why: "without a commit the present counts, which is not known of a cluster that is away", goal: all,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(2))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", applied)},
			},
			want: []string{"deferred", "web on a: ready Ready", "web on b: deferred Ready the cluster is Offline: Ready is what its agent reported last"},
		},
		"OfflineClusterAndAll": {
			why: "with --include-offline the wait ends when the cluster is back", goal: Goal{Kind: "Cluster", Key: Key{Namespace: space, Name: "b"}, All: true},
			fleet: Fleet{
				Clusters:    []*fleet.Cluster{cluster("b", away(time.Hour))},
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", applied)},
			},
			want: []string{"waiting", "web on b: waiting Ready the cluster is Offline: Ready is what its agent reported last", "cluster b is Offline"},
		},
		"OfflineClusterWithoutBundles": {
			why: "a cluster without any deployment is not Ready while it is away, either", goal: Goal{Kind: "Cluster", Key: Key{Namespace: space, Name: "b"}},
			fleet: Fleet{Clusters: []*fleet.Cluster{cluster("b", away(time.Hour))}},
			want:  []string{"deferred"},
		},
		"Paused": {
			why: "what is paused waits for a person", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1), pausedBundle)},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", written, func(bd *fleet.BundleDeployment) {
					bd.Spec.DeploymentID = "s-old:o"
				})},
			},
			want: []string{"failed", "web on a: failed OutOfSync bundle web is paused"},
		},
		"PausedNotWorkedOn": {
			why: "whether something is held back is known when the manager has worked on the bundle", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.Pending, "")), pausedBundle, func(b *fleet.Bundle) { b.Generation++ })},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit], bd.Spec.Paused = newSHA, true
				})},
			},
			want: []string{
				"waiting", "web on a: waiting Ready the manager has not worked on it yet",
				"web on b: waiting Pending the manager has not worked on it yet", "bundle web was not worked on yet",
			},
		},
		"TargetedNoMore": {
			why: "the targets of the commit match nothing, and the deployment is about to go", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, untargeted)},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a")},
			},
			want: []string{
				"failed", "web on a: waiting Ready no target matches the cluster any more, and the deployment is removed from it",
				"bundle web: no cluster matches",
			},
		},
		"PausedNothingToDeploy": {
			why: "a commit that changes nothing of a deployment is written to one that is paused, too", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2), pausedBundle)},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a"), deployment("web", "b", func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit] = newSHA
				})},
			},
			want: []string{"waiting", "web on a: waiting Ready the rollout has not come to it yet", "web on b: ready Ready"},
		},
		"PausedHeldBack": {
			why: "one that keeps the commit of what it holds waits for a person, if the bundle says that it is held back", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(1, bad("a", fleet.OutOfSync, "no")), pausedBundle)},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a")},
			},
			want: []string{"failed", "web on a: failed Ready bundle web is paused"},
		},
		"TemplateError": {
			why: "a cluster for which nothing could be worked out keeps its old deployment, and fails", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.ErrApplied, "template: no value")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b")},
			},
			want: []string{"failed", "web on a: ready Ready", "web on b: failed ErrApplied template: no value"},
		},
		"Withdrawn": {
			why: "a deployment that is being taken back is not waited for", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", func(bd *fleet.BundleDeployment) {
					bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "1"}
				})},
			},
			want: []string{"ready", "web on a: ready Ready"},
		},
		"BundleRemoved": {
			why: "a commit that removes a directory is done when its bundle is gone", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(read)}, Bundles: []*fleet.Bundle{bundle("web", func(b *fleet.Bundle) {
				b.DeletionTimestamp = &metav1.Time{Time: now}
			})}},
			want: []string{"waiting", "bundle web is being removed"},
		},
		"RemovalHeld": {
			why: "what waits to be approved is not being removed", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read, func(r *fleet.GitRepo) {
					r.Annotations = map[string]string{fleet.AnnotationPrune: "1-x", fleet.AnnotationDeletionHeld: "77 would remove 1 of 2 bundles\nbundle web\n"}
					r.Status.Conditions = append(r.Status.Conditions,
						cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, "DeletionHeld", "would remove 1 of 2 bundles; to go on: fleet approve repo/app 77", 0))
				})},
				Bundles: []*fleet.Bundle{other, bundle("web", func(b *fleet.Bundle) {
					b.Annotations = map[string]string{fleet.AnnotationPrune: "1-x"}
				}), bundle("gone", func(b *fleet.Bundle) { b.DeletionTimestamp = &metav1.Time{Time: now} })},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a")},
			},
			want: []string{"failed", "repo app: would remove 1 of 2 bundles; to go on: fleet approve repo/app 77", "bundle gone is being removed"},
		},
		"ProtectedRepo": {
			why: "it waits for a person, and reads nothing meanwhile", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(read, func(r *fleet.GitRepo) {
				r.DeletionTimestamp = &metav1.Time{Time: now}
				r.Generation++
				r.Status.Conditions = append(r.Status.Conditions,
					cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonProtected, "would remove 2 of 2 bundles", 0))
			})}},
			want: []string{"failed", "repo app: would remove 2 of 2 bundles"},
		},
		"NoTargetsOfOneOfMany": {
			why: "without a commit, a bundle for no cluster does not matter where others of the repository have some", goal: all,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two, Bundles: []*fleet.Bundle{other, bundle("web", changedBundle, untargeted)},
				Deployments: []*fleet.BundleDeployment{deployment("db", "a")},
			},
			want: []string{"ready", "db on a: ready Ready"},
		},
		"NoTargetsOfTheCommit": {
			why: "a bundle that the commit changed and that goes to no cluster is no commit that changed nothing", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(read)}, Bundles: []*fleet.Bundle{other, bundle("web", changedBundle, untargeted)}},
			want:  []string{"failed", "bundle web: no cluster matches"},
		},
		"NoTargetsOfAnotherCommit": {
			why: "one that an older commit changed is not waited for", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(read)}, Bundles: []*fleet.Bundle{other, bundle("web", untargeted)}},
			want:  []string{"ready"},
		},
		"NoTargetsAlone": {
			why: "asked for itself, such a bundle can never become Ready", goal: web,
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", untargeted)}},
			want:  []string{"failed", "bundle web: no cluster matches"},
		},
		"BrokenCommit": {
			why: "a mistake in this commit ends the wait", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(read, stalled("Invalid", "web/fleet.yaml:3: no"))}, Bundles: []*fleet.Bundle{other}},
			want:  []string{"failed", "repo app: web/fleet.yaml:3: no"},
		},
		"BrokenCommitBefore": {
			why: "a mistake in the commit before may be put right by this one", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(stalled("Invalid", "web/fleet.yaml:3: no"))}, Bundles: []*fleet.Bundle{other}},
			want:  []string{"waiting", "repo app is at aaaaaaa"},
		},
		"NoSuchBranch": {
			why: "a repository that cannot be read for good will not bring the commit", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(stalled("NoSuchBranch", "no branch x"), func(r *fleet.GitRepo) {
				r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionGitPolling, corev1.ConditionFalse, "NoSuchBranch", "no branch x", 0))
			})}},
			want: []string{"failed", "repo app: no branch x"},
		},
		"Unreachable": {
			why: "a host that does not answer may answer later", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
				r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionGitPolling, corev1.ConditionFalse, "Unreachable", "no route", 0))
			})}},
			want: []string{"waiting", "repo app cannot be read: no route"},
		},
		"RefusedBeforeTheFirstReading": {
			why: "a host that refuses the connection is asked again, also where it has never answered", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(neverRead("Unreachable", `git host "x" cannot be reached: connection refused`))}},
			want:  []string{"waiting", `repo app cannot be read: git host "x" cannot be reached: connection refused`},
		},
		"SilentBeforeTheFirstReading": {
			why: "so is one that does not answer, whatever commit is waited for", goal: commit,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(neverRead("Unreachable", `git host "x" cannot be reached: no answer in time`))}},
			want:  []string{"waiting", `repo app cannot be read: git host "x" cannot be reached: no answer in time`},
		},
		"NameWithoutAddress": {
			why: "a name that is not known is a mistake as long as nothing was read", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(neverRead("Unreachable", `git host "x" cannot be reached: no address is known for this name`))}},
			want:  []string{"failed", `repo app cannot be read: git host "x" cannot be reached: no address is known for this name`},
		},
		"PortWithoutTLS": {
			why: "so is a port that does not speak TLS", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(neverRead("Unreachable", `git host "x" cannot be reached: it does not speak TLS on this port`))}},
			want:  []string{"failed", `repo app cannot be read: git host "x" cannot be reached: it does not speak TLS on this port`},
		},
		"FailingBeforeTheFirstReading": {
			why: "a server that answers and cannot serve the repository may be the wrong one", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(neverRead("RemoteFailing", "the server answers 500"))}},
			want:  []string{"failed", "repo app cannot be read: the server answers 500"},
		},
		"AllOfARepo": {
			why: "without a commit all bundles count, at what is written", goal: all,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo()}, Clusters: two,
				Bundles:     []*fleet.Bundle{bundle("web", on(1)), other},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a"), deployment("db", "b")},
			},
			want: []string{"ready", "db on b: ready Ready", "web on a: ready Ready"},
		},
		"NewSpec": {
			why: "a specification that was not read yet is waited for", goal: all,
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) { r.Generation = 2 })}, Bundles: []*fleet.Bundle{other}},
			want:  []string{"waiting", "repo app was not read yet"},
		},
		"NoManagerOfTheShard": {
			why: "of a shard without a manager the commit never comes", goal: Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb"},
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(ofShard)}, Bundles: []*fleet.Bundle{bundle("web", on(2))},
				Shards: map[string]Manager{"blue": {Shard: "blue"}},
			},
			want: []string{
				"waiting", `no manager works on shard "blue" (start a manager with --shard-id=blue, or correct the label fleet.cattle.io/shard-ref)`,
				"repo app is at aaaaaaa",
			},
		},
		"ManagerOfTheShardUnseen": {
			why: "without the right to see leases the text does not say that no manager works", goal: Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb"},
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(ofShard)}, Bundles: []*fleet.Bundle{bundle("web", on(2))},
				Shards: map[string]Manager{"blue": {Shard: "blue", Hidden: true}},
			},
			want: []string{"waiting", "repo app is at aaaaaaa"},
		},
		"ReadyOfAShard": {
			why: "what is Ready needs no manager", goal: all,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(ofShard)}, Clusters: two, Bundles: []*fleet.Bundle{bundle("web", on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a")}, Shards: map[string]Manager{"blue": {Shard: "blue"}},
			},
			want: []string{"ready", "web on a: ready Ready"},
		},
		"OneBundle": {
			why: "a bundle is waited for on all its clusters", goal: web,
			fleet: Fleet{
				Clusters: two, Bundles: []*fleet.Bundle{bundle("web", on(2))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a"), deployment("web", "b", func(bd *fleet.BundleDeployment) { bd.Status.Ready = false })},
			},
			want: []string{"waiting", "web on a: ready Ready", "web on b: waiting NotReady"},
		},
		"OneBundleNotChanged": {
			why: "a commit that did not change the bundle has nothing to wait for", goal: Goal{Kind: "Bundle", Key: web.Key, Commit: newSHA},
			fleet: Fleet{Repositories: []*fleet.GitRepo{repo(read)}, Bundles: []*fleet.Bundle{bundle("web", on(2))}},
			want:  []string{"ready"},
		},
		"Gone": {
			why: "what is deleted meanwhile cannot become Ready", goal: web,
			want: []string{"failed", "bundle web is gone"},
		},
		"OneCluster": {
			why: "a cluster is waited for with all that it has", goal: Goal{Kind: "Cluster", Key: Key{Namespace: space, Name: "a"}},
			fleet: Fleet{
				Clusters: two, Bundles: []*fleet.Bundle{bundle("web", on(2)), other},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a"), deployment("web", "b", failed("x", "y")), deployment("db", "a", func(bd *fleet.BundleDeployment) {
					bd.Status.Ready = false
				})},
			},
			want: []string{"waiting", "db on a: waiting NotReady", "web on a: ready Ready"},
		},
		"KeepWaiting": {
			why: "--keep-waiting waits for a change by a user", goal: Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb", KeepWaiting: true},
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two, Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", failed("NotOwned", "not ours"))},
			},
			want: []string{"waiting", "web on b: failed ErrApplied not ours"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := text(Evaluate(c.goal, finished(c.fleet)))
			if diff := cmp.Diff(strings.Join(c.want, "\n"), got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// What was there before the first look is printed in one block, and nothing
// twice.
func TestEventLines(t *testing.T) {
	goal := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: "bbbbbbb"}
	clusters := []*fleet.Cluster{cluster("a"), cluster("b"), cluster("c", away(time.Hour))}
	at := func(changes ...func(*fleet.BundleDeployment)) Fleet {
		f := Fleet{Repositories: []*fleet.GitRepo{repo(read)}, Clusters: clusters, Bundles: []*fleet.Bundle{bundle("app-web", changedBundle, on(3)), bundle("app-db")}}
		for i, name := range []string{"a", "b", "c"} {
			f.Deployments = append(f.Deployments, deployment("app-web", name, changes[i]))
		}
		return f
	}
	steps := []Fleet{
		{Repositories: []*fleet.GitRepo{repo()}},
		at(written, written, written),
		at(applied, failed("NotOwned", "not ours"), written),
		at(applied, failed("NotOwned", "not ours"), written),
	}
	want := [][]EventLine{
		nil,
		{
			{"seen", `bbbbbbb "better" by Ana: 1 of 2 bundles changed (web)`},
			{"write", "app-web to a, b, c"},
			{"defer", "c: Offline, last seen 13:10:44 (1h ago); takes the newest when it is back"},
		},
		{{"ready", "a"}, {"fail", "b: not ours"}},
		nil,
	}
	var before Verdict
	for i, f := range steps {
		after := Evaluate(goal, finished(f))
		if diff := cmp.Diff(want[i], EventLines(goal, before, after, `"better" by Ana`, now)); diff != "" {
			t.Errorf("step %d: -want +got\n%s", i, diff)
		}
		before = after
	}
	if got, want := Answer(goal, before), "1 of 2 reachable clusters are at bbbbbbb, 1 deferred; app-web on b: not ours"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got := before.StuckText(); got != "b" {
		t.Errorf("want b stuck, got %q", got)
	}
}

// A bundle that is marked to be removed, and then held, is not gone.
func TestEventLinesOfHeldRemoval(t *testing.T) {
	goal := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: "bbbbbbb"}
	marked := func(r *fleet.GitRepo) { r.Annotations = map[string]string{fleet.AnnotationPrune: "1-x"} }
	leaving := bundle("app-web", func(b *fleet.Bundle) { b.Annotations = map[string]string{fleet.AnnotationPrune: "1-x"} })
	at := func(bundles []*fleet.Bundle, changes ...func(*fleet.GitRepo)) Verdict {
		return Evaluate(goal, finished(Fleet{Repositories: []*fleet.GitRepo{repo(append(changes, read)...)}, Bundles: bundles, Deployments: []*fleet.BundleDeployment{deployment("app-web", "a")}}))
	}
	before := at([]*fleet.Bundle{leaving}, marked)
	held := at([]*fleet.Bundle{leaving}, marked, func(r *fleet.GitRepo) {
		r.Annotations[fleet.AnnotationDeletionHeld] = "77 would remove 1 of 1 bundles\nbundle app-web\n"
		r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, "DeletionHeld", "would remove 1 of 1 bundles", 0))
	})
	gone := Evaluate(goal, finished(Fleet{Repositories: []*fleet.GitRepo{repo(marked, read)}}))
	words := func(before, after Verdict) (out []string) {
		for _, l := range EventLines(goal, before, after, "", now) {
			out = append(out, l.Word)
		}
		return out
	}
	if got := words(Verdict{}, before); !slices.Contains(got, "remove") {
		t.Fatalf("it is not being removed: %v", got)
	}
	if got := words(before, held); !slices.Contains(got, "fail") || slices.Contains(got, "gone") {
		t.Errorf("held: %v", got)
	}
	if got := words(before, gone); !slices.Contains(got, "gone") {
		t.Errorf("gone: %v", got)
	}
}

func TestTogether(t *testing.T) {
	for want, list := range map[Progress][]Progress{
		Reached:  {Reached, Reached},
		Deferred: {Reached, Deferred},
		Waiting:  {Deferred, Waiting, Reached},
		Failed:   {Waiting, Failed},
	} {
		var vs []Verdict
		for _, p := range list {
			vs = append(vs, Verdict{End: p})
		}
		if got := Combine(vs); got != want {
			t.Errorf("%v together: want %s, got %s", list, want, got)
		}
	}
}

// Without a manager no commit is read: that it may not be pushed is no cause.
func TestJudgeWithoutManager(t *testing.T) {
	goal := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: newSHA}
	f := Fleet{Repositories: []*fleet.GitRepo{repo()}, Ordered: true}
	if got := Answer(goal, Evaluate(goal, f)); !strings.Contains(got, "either a newer commit is there, or this one is not pushed") {
		t.Fatalf("a manager that runs has read its branch: %s", got)
	}
	f.Shards = map[string]Manager{"": {LastSign: utcPointer(now.Add(-time.Hour))}}
	v := Evaluate(goal, f)
	if got := Answer(goal, v); strings.Contains(got, "pushed") || !strings.Contains(got, stopped) || v.End != Waiting {
		t.Errorf("%s: %s", v.End, got)
	}
}

// What fails explains a wait, and not what waits for it.
func TestCulprit(t *testing.T) {
	key := func(name string) Key { return Key{Namespace: space, Name: name} }
	at := func(name string, progress Progress, state fleet.BundleState, message string) Pair {
		return Pair{Bundle: key(name), Cluster: key("a"), Progress: progress, Written: true, State: state, Message: message}
	}
	waits := at("app", Waiting, fleet.ErrApplied, "depends on db")
	stale := at("bad", Waiting, fleet.ErrApplied, "an older version failed")
	stale.Written = false
	cases := map[string]struct {
		why    string
		pairs  []Pair
		want   string
		answer string
	}{
		"Failed":  {"what cannot pass comes first", []Pair{waits, at("db", Waiting, fleet.ErrApplied, "no"), at("ui", Failed, fleet.ErrApplied, "never")}, "ui", "; ui on a: never"},
		"Attempt": {"then what was tried", []Pair{waits, stale, at("db", Waiting, fleet.ErrApplied, "no")}, "db", "; db on a: no"},
		"Objects": {"then what is not as it should be; it may be starting", []Pair{waits, at("db", Waiting, fleet.NotReady, "0/1")}, "db", ""},
		"Waits":   {"what waits is all that there is", []Pair{at("web", Reached, fleet.Ready, ""), waits}, "app", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := Verdict{End: Waiting, Seen: true, Pairs: c.pairs}
			if p, found := v.WorstPair(); !found || p.Bundle.Name != c.want {
				t.Errorf("%s: want %s, got %v", c.why, c.want, p)
			}
			if _, got, _ := strings.Cut(Answer(Goal{Kind: "GitRepo"}, v), "Ready"); got != c.answer {
				t.Errorf("%s: want %q, got %q", c.why, c.answer, got)
			}
		})
	}
	both := Verdict{End: Failed, Seen: true, Pairs: []Pair{at("ui", Failed, fleet.ErrApplied, "never")}, Faults: []string{"bundle db: no cluster matches"}}
	if _, got, _ := strings.Cut(Answer(Goal{Kind: "GitRepo"}, both), "Ready"); got != "; ui on a: never; bundle db: no cluster matches" {
		t.Errorf("of two failures the one that is explained comes first, got %q", got)
	}
	if p, found := (Verdict{Pairs: []Pair{at("web", Reached, fleet.Ready, "")}}).WorstPair(); found {
		t.Errorf("got %v where nothing is waited for", p)
	}
}
