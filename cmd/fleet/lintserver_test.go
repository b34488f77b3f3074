package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// With --server the CRDs of a cluster are known, and its version of Kubernetes. Without it
// no cluster is asked.
func TestLintServer(t *testing.T) {
	const (
		crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: mills.x.io}\nspec:\n  group: x.io\n  scope: Cluster\n" +
			"  names: {kind: Mill, plural: mills}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n" +
			"        properties: {spec: {type: object, properties: {wings: {type: integer}}}}\n"
		mill = "apiVersion: x.io/v1\nkind: Mill\nmetadata: {name: old}\nspec: {wing: 4}\n"
		old  = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: old}\nspec: {minAvailable: 1, selector: {matchLabels: {a: b}}}\n"
	)
	dir := files(t, map[string]string{"apps/mill/a.yaml": mill, "apps/old/a.yaml": old, "fleet.yaml": crd})
	file := filepath.Join(dir, "fleet.yaml")
	cases := map[string]struct {
		args   []string
		refuse string
		want   []string
		not    string
	}{
		"Asked": {
			args: []string{"--server"},
			want: []string{"mill/a.yaml:4:8: error: Mill old: unknown field \"spec.wing\"", "old/a.yaml:1:13: error", "https://127.0.0.1:31001 has 15 CRDs, Kubernetes v1.36.3"},
		},
		"OtherVersion": {
			args: []string{"--server", "--kube-version", "v1.22.0"},
			want: []string{"mill/a.yaml:4:8: error: Mill old: unknown field \"spec.wing\"", "old/a.yaml:1:13: warning"},
			not:  "v1.36.3",
		},
		"NotAsked": {
			want: []string{"mill/a.yaml:2:7: warning: Mill old: kind \"Mill\""},
			not:  "31001",
		},
		"Refused": {
			args: []string{"--server"}, refuse: "customresourcedefinitions ",
			want: []string{"error: ", "customresourcedefinitions"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := stage{fake: newFake(t, file)}
			st.fake.refuse[c.refuse] = true
			t.Chdir(filepath.Join(dir, "apps"))
			var out, notes bytes.Buffer
			root := command(st.globals(func() {}), printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
			root.SetArgs(append([]string{"lint", "--offline"}, c.args...))
			if err := root.ExecuteContext(t.Context()); err != nil {
				notes.WriteString("error: " + err.Error())
			}
			text := out.String() + notes.String()
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("want %q in\n%s", want, text)
				}
			}
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("do not want %q in\n%s", c.not, text)
			}
		})
	}
}
