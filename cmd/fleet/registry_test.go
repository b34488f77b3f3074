package main

import (
	"encoding/base64"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// stored puts a bundle into a registry, and what a cluster holds of it into the
// current directory: bundle.yaml, access.yaml and clusters.yaml.
func stored(t *testing.T) (*ocitest.Server, string) {
	t.Helper()
	registry := ocitest.Start(t, ocitest.Options{TLS: true, Accounts: []ocitest.Account{
		{Username: "writer", Password: "correct-horse"}, {Username: "reader", Password: "battery-staple"},
	}})
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n"}}}
	id := content.ID(m)
	if err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Push(t.Context(), registry.Registry("fleet"), id, content.Encode(m)); err != nil {
		t.Fatal(err)
	}
	b := &fleet.Bundle{Spec: fleet.BundleSpec{ContentsID: id}}
	b.APIVersion, b.Kind, b.Namespace, b.Name = fleet.GroupVersion.String(), "Bundle", "fleet-default", "kept"
	b.Spec.Targets = []fleet.BundleTarget{{ClusterName: "c1"}, {ClusterName: "c2"}}
	access := &corev1.Secret{Type: fleet.SecretTypeOCIStorage, Data: map[string][]byte{
		"reference": []byte(registry.Host + "/fleet"), "cacerts": registry.CA(), "username": []byte("writer"), "password": []byte("correct-horse"),
		"agentUsername": []byte("reader"), "agentPassword": []byte("battery-staple"),
	}}
	access.APIVersion, access.Kind, access.Namespace, access.Name = "v1", "Secret", "fleet-default", id
	clusters, err := os.ReadFile("testdata/trees/clusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	save(t, "clusters.yaml", string(clusters))
	for name, obj := range map[string]any{"bundle.yaml": b, "access.yaml": access} {
		data, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		save(t, name, "---\n"+string(data))
	}
	return registry, id
}

func save(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A content that is kept in a registry is deployed from there, by who may only
// read: fleet target says where it is, fleet deploy pulls it.
func TestDeployFromRegistry(t *testing.T) {
	registry, id := stored(t)
	save(t, "both.yaml", load(t, "bundle.yaml")+load(t, "access.yaml"))
	shown, notes, err := alone(t, ".", "target", "-b", "both.yaml", "--cluster-file", "clusters.yaml")
	if err != nil || strings.Contains(notes, "warning: Secret") {
		t.Fatalf("got %v\n%s", err, notes)
	}
	for _, password := range []string{"correct-horse", "battery-staple"} {
		n := strings.Count(shown, base64.StdEncoding.EncodeToString([]byte(password)))
		if want := map[string]int{"battery-staple": 2}[password]; n != want {
			t.Errorf("%q stands %d times in what clusters get, want %d", password, n, want)
		}
	}
	save(t, "deployments.yaml", shown)
	dry := []string{"deploy", "--dry-run", "-i", "deployments.yaml", "--cluster", "c2"}
	before := len(registry.Requests())
	out, notes, err := alone(t, ".", dry...)
	if err != nil || !strings.Contains(out, "name: kept") {
		t.Fatalf("got %v\n%s%s", err, out, notes)
	}
	reader := "Basic " + base64.StdEncoding.EncodeToString([]byte("reader:battery-staple"))
	for _, q := range registry.Requests()[before:] {
		if q.Authorization != "" && q.Authorization != reader {
			t.Errorf("%s %s was asked for by another account", q.Method, q.Path)
		}
	}

	registry.Break(http.StatusServiceUnavailable)
	_, _, err = alone(t, ".", dry...)
	if cli.ExitCode(err, false) != 1 || !strings.Contains(err.Error(), "pull its content") || strings.Contains(err.Error(), "staple") {
		t.Errorf("a registry that is away is no mistake in the file, got %v", err)
	}
	registry.Intercept(nil)
	save(t, "deployments.yaml", strings.ReplaceAll(shown, "name: "+id, "name: another"))
	_, _, err = alone(t, ".", dry...)
	if cli.ExitCode(err, false) != 4 || !strings.Contains(err.Error(), id+"; fleet target prints it") {
		t.Errorf("want the missing Secret named, got %v", err)
	}
}

// Where the registry's Secret is not to be had, that is said, and the rest
// shown. Such a Bundle is no file to apply: its content would be lost.
func TestRegistryUnknown(t *testing.T) {
	_, id := stored(t)
	out, notes, err := alone(t, ".", "target", "-b", "bundle.yaml", "--cluster-file", "clusters.yaml")
	if err != nil || !strings.Contains(notes, "warning: Secret fleet-default/"+id) || strings.Count(out, "kind: BundleDeployment") != 2 {
		t.Errorf("got %v\n%s", err, notes)
	}
	out, _, err = alone(t, ".", "apply", "-o", "-", "-f", "bundle.yaml")
	if cli.ExitCode(err, false) != 4 || out != "" || !strings.Contains(err.Error(), "it has no resources") {
		t.Errorf("got %v\n%s", err, out)
	}
}
