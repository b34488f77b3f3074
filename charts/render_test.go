package charts_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing")

// release is what a chart is rendered for.
type release struct {
	chart     string // directory
	name      string
	namespace string
	values    map[string]any
	apis      []string // that the cluster has besides Kubernetes' own
}

func fleetRelease(values map[string]any) release {
	return release{chart: "fleet", name: "fleet", namespace: "cattle-fleet-system", values: values}
}

// besideRancher is a release in a cluster that has Rancher's kinds.
func (r release) besideRancher() release {
	r.apis = []string{"management.cattle.io/v3"}
	return r
}

func agentRelease(values map[string]any) release {
	all := map[string]any{
		"apiServerURL": "https://fleet.example.com", "apiServerCA": "PEM", "token": "t0ken",
		"tokenName": "import-all", "clusterNamespace": "fleet-default",
	}
	for k, v := range values {
		all[k] = v
	}
	return release{chart: "fleet-agent", name: "fleet-agent", namespace: "cattle-fleet-system", values: all}
}

// render returns the objects of a chart, by "kind/namespace/name", as Helm
// makes them without a cluster, values checked against the schema.
func (r release) render() (map[string]*unstructured.Unstructured, error) {
	c, err := loader.Load(r.chart)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, Revision: 1, IsInstall: true}
	able := chartutil.DefaultCapabilities.Copy()
	able.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"} // it has admission policies
	able.APIVersions = append(able.APIVersions, r.apis...)
	values, err := chartutil.ToRenderValues(c, r.values, options, able)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, values)
	if err != nil {
		return nil, err
	}
	objects := map[string]*unstructured.Unstructured{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		if err := decode(text, objects); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return objects, nil
}

// decode adds the objects of one rendered file.
func decode(text string, into map[string]*unstructured.Unstructured) error {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		var u unstructured.Unstructured
		err := d.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(u.Object) == 0 {
			continue
		}
		key := u.GetKind() + "/" + u.GetNamespace() + "/" + u.GetName()
		if into[key] != nil {
			return fmt.Errorf("%s twice", key)
		}
		into[key] = &u
	}
}

func mustRender(t *testing.T, r release) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := r.render()
	if err != nil {
		t.Fatalf("render %s: %v", r.chart, err)
	}
	return objects
}

// asYAML prints the objects whose kind is among kinds (all where none is
// given), sorted by key.
func asYAML(t *testing.T, objects map[string]*unstructured.Unstructured, kinds ...string) string {
	t.Helper()
	var keys []string
	for key, u := range objects {
		if len(kinds) == 0 || slices.Contains(kinds, u.GetKind()) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		text, err := sigsyaml.Marshal(objects[key].Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "# %s\n%s---\n", key, text)
	}
	return b.String()
}

// golden compares got with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs, run with -update after checking:\n%s", path, diff)
	}
}

// TestRBAC keeps what each account of the charts may do: a change of rights
// is a change of these files, which a reviewer reads.
func TestRBAC(t *testing.T) {
	kinds := []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}
	golden(t, "TestRBAC/fleet", asYAML(t, mustRender(t, fleetRelease(nil)), kinds...))
	golden(t, "TestRBAC/fleet-agent", asYAML(t, mustRender(t, agentRelease(nil)), kinds...))
}

// TestDefaults keeps everything else that an installation without values gets.
func TestDefaults(t *testing.T) {
	kinds := []string{"Deployment", "ConfigMap", "Secret", "NetworkPolicy", "Service"}
	golden(t, "TestDefaults/fleet", asYAML(t, mustRender(t, fleetRelease(nil)), kinds...))
	golden(t, "TestDefaults/fleet-agent", asYAML(t, mustRender(t, agentRelease(nil)), kinds...))
}
