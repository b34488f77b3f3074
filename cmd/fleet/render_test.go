package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// fleet test, lint, target and deploy render without a request and without a
// program, also if the keys of a kustomization are spelled as kustomize alone
// reads them.
func TestCommandsRenderWithoutConnection(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	bin, started := t.TempDir(), filepath.Join(t.TempDir(), "started")
	for _, name := range []string{"git", "helm"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n: >"+started+"\nexit 1\n"), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	kustomizations := []string{
		"configMapGenerator: [{name: a, Files: ['k=" + server.URL + "/meta']}]\n",
		"Resources: ['" + server.URL + "/a/b']\n",
		"COMPONENTS: ['git@127.0.0.1:a/b']\nresources: [cm.yaml]\n",
		"resources: [cm.yaml]\nHelmCharts: [{name: c, repo: '" + server.URL + "'}]\n",
	}
	for i, kustomization := range kustomizations {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, text := range map[string]string{
				"app/kustomization.yaml": kustomization, "app/fleet.yaml": "defaultNamespace: x\ntargets: [{clusterSelector: {}}]\n",
				"app/cm.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
				"clusters.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1, namespace: fleet-default}\nstatus: {namespace: c1}\n",
			} {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			command := func(args ...string) (string, string, error) {
				var out, notes bytes.Buffer
				root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
				root.SetArgs(args)
				err := root.ExecuteContext(t.Context())
				return out.String(), notes.String(), err
			}
			if _, _, err := command("apply", "-o", "app.yaml", "-n", "fleet-default", "x", "app"); err != nil {
				t.Fatal(err)
			}
			text, _, err := command("target", "-b", "app.yaml", "--cluster-file", "clusters.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("deployments.yaml", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"test", "app"}, {"lint", "app"}, {"deploy", "-d", "-i", "deployments.yaml"}, {"test", "-b", "app.yaml"}} {
				out, _, err := command(args...)
				if err == nil || !strings.Contains(fmt.Sprint(err, out), "clusters") {
					t.Errorf("%s: want it refused, got %v\n%s", args, err, out)
				}
				if _, ran := os.Stat(started); ran == nil || requests.Load() > 0 {
					t.Errorf("%s: %d requests, program started: %v", args, requests.Swap(0), ran == nil)
				}
				_ = os.Remove(started)
			}
		})
	}
}

// fleet test says where it renders no object, in one line.
func TestNothingIsRendered(t *testing.T) {
	const (
		chart  = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
		noKind = "apiVersion: v1\nmetadata: {name: a}\n"
	)
	cases := map[string]struct {
		tree map[string]string
		args []string
		want string // in stderr and the error, once
		code int
	}{
		"Chart": {
			tree: map[string]string{"app/Chart.yaml": chart, "app/fleet.yaml": "helm: {chart: .}\n", "app/templates/a.yaml": "{{ if .Values.on }}\n" + noKind + "{{ end }}\n"},
			args: []string{"app"}, want: "warning: nothing is rendered: no object is left to deploy",
		},
		"NoKind": {
			tree: map[string]string{"app/fleet.yaml": "namespace: a\n", "app/a.yaml": noKind},
			args: []string{"app"}, want: "nothing is left to deploy: no document of the bundle has a kind",
		},
		"NoKindNoOptions": {
			tree: map[string]string{"app/a.yaml": noKind}, args: []string{"app"}, want: "the input has errors: nothing is left to deploy: no document of the bundle has a kind", code: 4,
		},
		"TargetWithoutName": {
			tree: map[string]string{"app/a.yaml": noKind, "app/fleet.yaml": "overrideTargets:\n- clusterSelector: {matchLabels: {env: prod}}\n"},
			args: []string{"-t", "target 1", "app"}, want: "nothing is left to deploy: no document of the bundle has a kind",
		},
		"BundleFile": {
			tree: map[string]string{"b.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: a, namespace: b}\n" +
				"spec: {resources: [{name: a.yaml, content: \"a: b\"}], targets: [{clusterGroup: default}]}\n"},
			args: []string{"-b", "b.yaml"}, want: "warning: nothing is rendered: no object is left to deploy",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(files(t, c.tree))
			var out, notes bytes.Buffer
			root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
			root.SetArgs(append([]string{"test"}, c.args...))
			err := root.ExecuteContext(t.Context())
			said := fmt.Sprint(notes.String(), err)
			if cli.ExitCode(err, false) != c.code || out.Len() > 0 || strings.Count(said, c.want) != 1 || strings.Count(said, "nothing is rendered") > 1 {
				t.Errorf("code %d, want %d and %q\n%s%s", cli.ExitCode(err, false), c.code, c.want, out.String(), said)
			}
		})
	}
}
