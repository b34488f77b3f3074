package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The screen and the table read repositories before their bundles, so that the bundles
// are not behind.
func TestRepositoriesAreReadBeforeBundles(t *testing.T) {
	for _, args := range []string{"status", "get repos"} {
		st := stage{fake: newFake(t, "testdata/fleets/examples.yaml")}
		st.run(t, strings.Fields(args))
		asked := slices.Compact(st.fake.asked)
		if slices.Index(asked, "list gitrepos") > slices.Index(asked, "list bundles") {
			t.Errorf("%s: %v", args, asked)
		}
	}
}

// A table does not call a repository Ready while its bundles are those of another
// reading.
func TestRepoOfAnotherReading(t *testing.T) {
	st := stage{fake: newFake(t, "testdata/fleets/remove.yaml")}
	repo := st.fake.held["GitRepo fleet-default/examples"]
	if err := unstructured.SetNestedField(repo.Object, "0", "status", "reading", "digest"); err != nil {
		t.Fatal(err)
	}
	if out := st.run(t, []string{"get", "repos"}); !strings.Contains(out, string(fleet.GitUpdating)) {
		t.Errorf("want GitUpdating:\n%s", out)
	}
}

// The screen names the workspace of a repository whose namesake in another workspace is
// well and has no row.
func TestStatusNamesTheWorkspaceOfNamesakes(t *testing.T) {
	st := stage{fake: newFake(t, "testdata/fleets/examples.yaml")}
	well := st.fake.held["GitRepo fleet-default/examples"]
	broken := well.DeepCopy()
	broken.SetNamespace("shops")
	conditions := []any{map[string]any{"type": "GitPolling", "status": "False", "reason": "RepositoryNotFound", "message": "there is no repository"}}
	if err := unstructured.SetNestedSlice(broken.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	st.fake.held["GitRepo shops/examples"] = broken
	if out := st.run(t, []string{"status"}); !strings.Contains(out, "repo examples in shops ") {
		t.Errorf("want the workspace:\n%s", out)
	}
}

// Whether a removal has to be approved is not known before the manager has decided.
func TestApproveUndecided(t *testing.T) {
	st := stage{fake: newFake(t, "testdata/fleets/remove.yaml")}
	for i, want := range []string{"nothing of repo", "has not decided yet", "nothing of repo"} {
		if i > 0 {
			st.fake.take(st.fake.steps[i])
		}
		if out := st.run(t, strings.Fields("approve -n fleet-default repo/examples")); !strings.Contains(out, want) {
			t.Errorf("step %d: want %q:\n%s", i, want, out)
		}
		list, silent := st.run(t, []string{"approve"}), want == "nothing of repo"
		if silent != (list == "nothing waits to be approved\n") || !silent && !strings.HasSuffix(list, want+"; try again\n3\n") {
			t.Errorf("step %d: without arguments, want the same answer:\n%s", i, list)
		}
	}
}
