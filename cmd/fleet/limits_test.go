package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// fleet target shows what limits make of a Bundle, also from a file, and -l prints them.
func TestTargetWithinLimits(t *testing.T) {
	t.Chdir(t.TempDir())
	const (
		bundle = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: bb, namespace: team}\nspec:\n  targets: [{clusterSelector: {}}]\n" +
			"  resources: [{name: a.yaml, content: \"apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}\\n\"}]\n"
		cluster = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1}\nstatus: {namespace: c1}\n---\n"
		policy  = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nrequireServiceAccount: true\n"
	)
	for name, text := range map[string]string{
		"bare.yaml": bundle, "good.yaml": bundle + "  serviceAccount: deployer\n", "clusters.yaml": cluster + policy,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(file string) (string, string, error) {
		var out, notes bytes.Buffer
		root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
		root.SetArgs([]string{"target", "-l", "-b", file, "--cluster-file", "clusters.yaml"})
		err := root.ExecuteContext(t.Context())
		return out.String(), notes.String(), err
	}
	if _, _, err := run("bare.yaml"); cli.ExitCode(err, false) != 4 || !strings.Contains(err.Error(), "serviceAccount is required by Policy but is not set") {
		t.Errorf("got %v", err)
	}
	out, notes, err := run("good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "createNamespace: false") {
		t.Errorf("the namespace would be created\n%s", out)
	}
	if !strings.Contains(notes, "kind: Policy") {
		t.Errorf("the Policy is missing among the inputs\n%s", notes)
	}
}
