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
				root := newRootCommand(stdio{in: strings.NewReader(""), out: &out, err: &notes})
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
