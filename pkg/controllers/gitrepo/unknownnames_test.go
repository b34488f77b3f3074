package gitrepo

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Names of a fleet.yaml that do not exist have a warning with their line; those of
// the GitRepo have none, since they stand in no file.
func TestUnknownNames(t *testing.T) {
	tree := fstest.MapFS{
		"a/cm.yaml":    {Data: []byte(object)},
		"a/fleet.yaml": {Data: []byte("targetCustomizations:\n- clusterName: shop1\n- clusterName: shop2\n- clusterGroup: eu\nrolloutStrategy: {partitions: [{clusterName: c9}]}\n")},
		"b/cm.yaml":    {Data: []byte(object)},
		"b/fleet.yaml": {Data: []byte("dependsOn:\n- name: r-a\n- name: r-aa\n- selector: {}\n- name: elsewhere\n- name: a\n")},
	}
	repo := &fleet.GitRepo{}
	repo.Name, repo.Namespace = "r", "fleet-default"
	repo.Spec.Targets = []fleet.GitTarget{{ClusterName: "own"}}
	set := bundle.Read(tree, []string{"*"}, nil, gitrepo.Options(repo, "c1"))
	mentioned := namesInBundles(set, repo)
	want := names{clusters: []string{"c9", "shop1", "shop2"}, groups: []string{"eu"}, bundles: []string{"a", "elsewhere", "r-aa"}}
	if diff := cmp.Diff(want, mentioned, cmp.AllowUnexported(names{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	addNameWarnings(tree, set, mentioned, names{clusters: []string{"shop2"}, groups: []string{"eu"}, bundles: []string{"a", "r-aa"}}, repo.Namespace)
	var got []string
	for _, f := range set.AllFindings() {
		got = append(got, f.String()+" "+f.Hint)
	}
	if diff := cmp.Diff([]string{
		`a/fleet.yaml:3:16: warning: there is no cluster "shop2" in fleet-default [unknown-cluster] did you mean "shop1"?`,
		`a/fleet.yaml:4:17: warning: there is no cluster group "eu" in fleet-default [unknown-cluster] `,
		`b/fleet.yaml:3:9: warning: dependsOn[1]: there is no bundle "r-aa" in fleet-default (did you mean "r-a"?); until there is, no change of this bundle is deployed [dependency] `,
		`b/fleet.yaml:6:9: warning: dependsOn[4]: there is no bundle "a" in fleet-default (did you mean "r-a"?); until there is, no change of this bundle is deployed [dependency] `,
	}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Targets of the GitRepo that name what does not exist have a warning with their place
// in the spec.
func TestUntargeted(t *testing.T) {
	repo := &fleet.GitRepo{}
	repo.Namespace = "fleet-default"
	repo.Spec.Targets = []fleet.GitTarget{{ClusterGroup: "prod"}, {ClusterName: "c1"}, {ClusterName: "c9"}, {ClusterGroup: fleet.ClusterGroupDefault}}
	want := names{clusters: []string{"c1", "c9"}, groups: []string{"default", "prod"}}
	if diff := cmp.Diff(want, targetsOf(repo).sortedDistinct(), cmp.AllowUnexported(names{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var got []string
	for _, f := range unknownTargets(repo, names{clusters: []string{"c9"}, groups: []string{"prod"}}) {
		got = append(got, f.Short())
	}
	if diff := cmp.Diff([]string{
		`spec.targets[0]: there is no cluster group "prod" in fleet-default`,
		`spec.targets[2]: there is no cluster "c9" in fleet-default`,
	}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// strayNames is a fleet.yaml that names a cluster and a group that do not exist.
const strayNames = "targetCustomizations: [{clusterName: site, helm: {atomic: true}}, {clusterGroup: eu, helm: {atomic: true}}]\n"

// A name that does not exist is a warning until it does. Of clusters and groups that is
// not known where mappings lead to other workspaces.
func TestMissingNames(t *testing.T) {
	site := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "site"}}
	shown := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "c-abcde", Labels: map[string]string{fleet.LabelDisplayName: "site"}}}
	group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "eu"}}
	other := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "other"}}
	cases := map[string]struct {
		file   string // fleet.yaml
		target fleet.GitTarget
		text   string // of the warning
		comes  func(w *looptest.World)
		after  time.Duration // until that is seen
	}{
		"Cluster": {
			"targetCustomizations: [{clusterName: site, helm: {atomic: true}}]\n", fleet.GitTarget{}, `a/fleet.yaml:1: there is no cluster "site"`,
			func(w *looptest.World) { looptest.Make(w, site.DeepCopy()) }, namesAgain,
		},
		"ClusterByDisplayName": {
			"targetCustomizations: [{clusterName: site, helm: {atomic: true}}]\n", fleet.GitTarget{}, `there is no cluster "site"`,
			func(w *looptest.World) { looptest.Make(w, shown.DeepCopy()) }, namesAgain,
		},
		"ClusterGroup": {
			"targetCustomizations: [{clusterGroup: eu, helm: {atomic: true}}]\n", fleet.GitTarget{}, `there is no cluster group "eu"`,
			func(w *looptest.World) { looptest.Make(w, group.DeepCopy()) }, namesAgain,
		},
		"Target": {
			"", fleet.GitTarget{ClusterName: "site"}, `spec.targets[0]: there is no cluster "site"`,
			func(w *looptest.World) { looptest.Make(w, site.DeepCopy()) }, namesAgain,
		},
		"Bundle": {
			"dependsOn: [{name: other}]\n", fleet.GitTarget{}, `there is no bundle "other"`,
			func(w *looptest.World) { looptest.Make(w, other.DeepCopy()) }, bundlesAgain,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}),
				Given: g.given("", func(*looptest.World) {
					g.pushFiles("main", map[string]string{"a/fleet.yaml": c.file + "namespace: a\n", "a/cm.yaml": object})
				}),
				When: func(w *looptest.World) {
					makeRepo(w, "repo", func(r *fleet.GitRepo) {
						if c.target != (fleet.GitTarget{}) {
							r.Spec.Targets = []fleet.GitTarget{c.target}
						}
					})
					w.Pass(10 * time.Minute)
					stalled := condition.Find(repo(w).Status.Conditions, fleet.ConditionStalled)
					if stalled == nil || !strings.Contains(stalled.Message, c.text) || g.fetches() != 1 {
						w.Errorf("want it read once, with %q, got %d: %+v", c.text, g.fetches(), stalled)
					}
					c.comes(w)
					w.Pass(c.after + 2*time.Second)
				},
				Then: func(w *looptest.World) { wantRead(w, g.head()) },
			})
		})
	}
}

// A workspace whose Bundles are mapped to clusters of other workspaces has clusters and
// groups that are unknown here.
func TestNamesOfMappedWorkspace(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("", func(w *looptest.World) {
			g.pushFiles("main", map[string]string{"a/fleet.yaml": strayNames, "a/cm.yaml": object})
			looptest.Make(w, &fleet.BundleNamespaceMapping{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "map"}})
		}),
		When: made,
		Then: func(w *looptest.World) { wantRead(w, g.head()) },
	})
}

// If clusters, groups or mappings cannot be looked up, nothing is said about clusters and
// groups.
func TestNamesNotLookedUp(t *testing.T) {
	for _, m := range []kubetest.Match{{Verb: "get", Resource: "clusters"}, {Verb: "get", Resource: "clustergroups"}, {Verb: "list", Resource: "bundlenamespacemappings"}} {
		t.Run(m.Resource, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}),
				Given: g.given("", func(w *looptest.World) {
					g.pushFiles("main", map[string]string{"a/fleet.yaml": strayNames, "a/cm.yaml": object})
					w.Server.Forbid(kubetest.Always, m)
				}),
				When: made,
				Then: func(w *looptest.World) { wantRead(w, g.head()) },
			})
		})
	}
}

// However often a GitRepo is looked at, names that do not exist are looked for every five
// minutes.
func TestNamesLookedUpRarely(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("", func(*looptest.World) {
			g.pushFiles("main", map[string]string{"a/fleet.yaml": strayNames, "a/cm.yaml": object})
		}),
		When: func(w *looptest.World) {
			made(w)
			for i := range 20 {
				w.Pass(10 * time.Second)
				changeRepo(w, func(r *fleet.GitRepo) { r.Labels = map[string]string{"n": strconv.Itoa(i)} })
			}
			asked := slices.DeleteFunc(w.Server.Requests(), func(r kubetest.Request) bool { return r.Verb != "get" || r.Resource != "clusters" })
			if len(asked) != 1 {
				w.Errorf("want the cluster looked for once in %s, got %v", namesAgain, asked)
			}
			g.pushFiles("main", map[string]string{"a/cm.yaml": object})
		},
		Then: func(w *looptest.World) { wantRead(w, g.head()) },
	})
}
