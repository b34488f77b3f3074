package gitrepo

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// Names of a fleet.yaml that do not exist have a warning with their line; those of
// the GitRepo have none, since they stand in no file.
func TestUnknownNames(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
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
	mentioned := mentionedBy(set, repo)
	want := names{clusters: []string{"c9", "shop1", "shop2"}, groups: []string{"eu"}, bundles: []string{"a", "elsewhere", "r-aa"}}
	if diff := cmp.Diff(want, mentioned, cmp.AllowUnexported(names{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	unknownNames(tree, set, mentioned, names{clusters: []string{"shop2"}, groups: []string{"eu"}, bundles: []string{"a", "r-aa"}}, repo.Namespace)
	var got []string
	for _, f := range set.All() {
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
	if diff := cmp.Diff(want, targetsOf(repo).distinct(), cmp.AllowUnexported(names{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var got []string
	for _, f := range untargeted(repo, names{clusters: []string{"c9"}, groups: []string{"prod"}}) {
		got = append(got, f.Short())
	}
	if diff := cmp.Diff([]string{
		`spec.targets[0]: there is no cluster group "prod" in fleet-default`,
		`spec.targets[2]: there is no cluster "c9" in fleet-default`,
	}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
