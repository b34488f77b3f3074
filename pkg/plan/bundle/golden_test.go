package bundle

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden writes what our own examples are read as, for reviews: once with
// the directories that are found, once with a list of bundles. The files
// include the content IDs: if one changes, every cluster deploys again.
func TestGolden(t *testing.T) {
	entries := []fleet.BundlePath{{Base: "env", Options: "dev.yaml"}, {Base: "env", Options: "prod.v1.yaml"}, {Base: "yml"}, {Base: "parent"}}
	for name, list := range map[string][]fleet.BundlePath{"bundles": nil, "listed": entries} {
		t.Run(name, func(t *testing.T) {
			set := Read(os.DirFS("testdata/TestGolden/input"), nil, list, Options{
				Repo: "repo", Namespace: "fleet-default", Labels: map[string]string{fleet.LabelCommit: strings.Repeat("0", 40)},
			})
			var out strings.Builder
			for _, r := range set.Results {
				if r.Bundle == nil {
					continue
				}
				printed, err := Export(r.Bundle)
				if err != nil {
					t.Fatal(err)
				}
				raw, err := sigyaml.Marshal(printed)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "---\n# %s\n%s", content.ID(content.Manifest{Resources: r.Bundle.Spec.Resources}), raw)
			}
			for _, f := range set.AllFindings() {
				fmt.Fprintf(&out, "# %s\n", f)
			}
			golden := "testdata/TestGolden/" + name + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// rancher/fleet's own command line made these Bundles; ours must be equal. The
// examples are not part of this repository.
func TestEqualToReference(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "shared", "data")
	expected, err := filepath.Glob(filepath.Join(data, "fleet-examples-bundles", "*.yaml"))
	if err != nil || len(expected) == 0 {
		t.Skip("no examples of the reference beside this repository")
	}
	root := os.DirFS(filepath.Join(data, "fleet-examples"))
	dirs := exampleDirs(filepath.Join(data, "fleet-examples"))
	for _, file := range expected {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			set := Read(root, []string{dirs[name]}, nil, Options{
				Repo: "case", Namespace: "fleet-default", Labels: map[string]string{fleet.LabelCommit: strings.Repeat("0", 40)},
			})
			if len(set.Results) != 1 || set.Results[0].Bundle == nil {
				t.Fatal(set)
			}
			got, err := Export(set.Results[0].Bundle)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, raw), normal(t, jsonOf(t, got))); diff != "" {
				t.Errorf("-reference +ours\n%s", diff)
			}
		})
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func normal(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := sigyaml.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// exampleDirs are the directories of the examples, by what their Bundles' files
// are called.
func exampleDirs(root string) map[string]string {
	dirs := map[string]string{}
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, dir := range found {
			rel, _ := filepath.Rel(root, dir)
			dirs[strings.ReplaceAll(rel, "/", "-")] = rel
		}
	}
	return dirs
}
