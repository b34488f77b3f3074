package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// read is a repository at the new commit.
func read(r *fleet.GitRepo) { r.Status.Commit, r.Status.PollingCommit = newSHA, newSHA }

// changed is a bundle that the new commit changed, and that was worked on.
func changedBundle(b *fleet.Bundle) {
	b.Labels[fleet.LabelCommit] = newSHA
	b.Generation, b.Status.ObservedGeneration = 2, 2
}

func stalled(reason, message string) func(*fleet.GitRepo) {
	return func(r *fleet.GitRepo) {
		r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionStalled, corev1.ConditionTrue, reason, message, 0))
	}
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
		"HeldByAPartition": {
			why: "a deployment that a partition holds back looks as if it were Ready: the Bundle knows better", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.OutOfSync, `waits for partition "first"`)))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", func(bd *fleet.BundleDeployment) {
					bd.Labels[fleet.LabelCommit] = newSHA
				})},
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
			want: []string{"waiting", "web on a: waiting Ready", "bundle web was not worked on yet"},
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
			want: []string{"failed", "web on a: waiting WaitApplied", "web on b: failed ErrApplied not ours"},
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
			want: []string{"deferred", "web on a: ready Ready", "web on b: deferred WaitApplied"},
		},
		"OfflineAndAll": {
			why: "--all waits for those that are away", goal: Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb", All: true},
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: []*fleet.Cluster{cluster("a"), cluster("b", away(time.Hour))},
				Bundles:     []*fleet.Bundle{bundle("web", changedBundle, on(2, bad("b", fleet.WaitApplied, "")))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", applied), deployment("web", "b", written)},
			},
			want: []string{"waiting", "web on a: ready Ready", "web on b: waiting WaitApplied"},
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
		"Paused": {
			why: "what is paused waits for a person", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two,
				Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1), func(b *fleet.Bundle) { b.Spec.Paused = true })},
				Deployments: []*fleet.BundleDeployment{deployment("web", "a", written, func(bd *fleet.BundleDeployment) {
					bd.Spec.DeploymentID = "s-old:o"
				})},
			},
			want: []string{"failed", "web on a: failed OutOfSync paused"},
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
		"NoTargetsOfOneOfMany": {
			why: "a bundle for no cluster does not matter where others of the repository have some", goal: commit,
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)},
				Bundles: []*fleet.Bundle{other, bundle("web", changedBundle, func(b *fleet.Bundle) {
					b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonNoTargets, "no cluster matches", 0)}
				})},
			},
			want: []string{"ready"},
		},
		"NoTargetsAlone": {
			why: "asked for itself, such a bundle can never become Ready", goal: web,
			fleet: Fleet{Bundles: []*fleet.Bundle{bundle("web", func(b *fleet.Bundle) {
				b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonNoTargets, "no cluster matches", 0)}
			})}},
			want: []string{"failed", "bundle web: no cluster matches"},
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
			why: "--keep-waiting hopes for somebody's change", goal: Goal{Kind: "GitRepo", Key: key, Commit: "bbbbbbb", KeepWaiting: true},
			fleet: Fleet{
				Repositories: []*fleet.GitRepo{repo(read)}, Clusters: two, Bundles: []*fleet.Bundle{bundle("web", changedBundle, on(1))},
				Deployments: []*fleet.BundleDeployment{deployment("web", "b", failed("NotOwned", "not ours"))},
			},
			want: []string{"waiting", "web on b: failed ErrApplied not ours"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := text(Judge(c.goal, c.fleet))
			if diff := cmp.Diff(strings.Join(c.want, "\n"), got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// What was there before the first look is told in one go, and nothing twice.
func TestStory(t *testing.T) {
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
	want := [][]Line{
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
		after := Judge(goal, f)
		if diff := cmp.Diff(want[i], Story(goal, before, after, `"better" by Ana`, now)); diff != "" {
			t.Errorf("step %d: -want +got\n%s", i, diff)
		}
		before = after
	}
	if got, want := Answer(goal, before), "1 of 2 reachable clusters are at bbbbbbb, 1 deferred"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got := before.Stuck(); got != "b" {
		t.Errorf("want b stuck, got %q", got)
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
		if got := Together(vs); got != want {
			t.Errorf("%v together: want %s, got %s", list, want, got)
		}
	}
}
