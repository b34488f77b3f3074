package integrationtests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// apiSamples are the objects that the tests of the API package keep.
const apiSamples = "../pkg/apis/fleet.cattle.io/v1alpha1/testdata"

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func readObject(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(content)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

// installDefinitions installs the chart's CustomResourceDefinitions and waits
// until the API server serves them.
func installDefinitions(t *testing.T, server *cluster.Cluster) {
	t.Helper()
	c, err := dynamic.NewForConfig(server.REST())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../charts/fleet-crd/templates/*.yaml")
	if err != nil || len(files) != len(fleet.Kinds()) {
		t.Fatalf("%d definitions for %d kinds, %v", len(files), len(fleet.Kinds()), err)
	}
	for _, f := range files {
		if _, err := c.Resource(definitions).Create(t.Context(), readObject(t, f), metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	for _, k := range fleet.Kinds() {
		until(t, k.Plural+" are served", func() bool {
			_, err := endpoint(c, k).List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

func endpoint(c dynamic.Interface, k fleet.KindInfo) dynamic.ResourceInterface {
	r := c.Resource(fleet.GroupVersion.WithResource(k.Plural))
	if k.Namespaced {
		return r.Namespace("default")
	}
	return r
}

// A real API server takes our definitions; an object with every field set comes
// back as it was, one with null in every place where that is allowed is
// accepted, and what the rules forbid is refused.
func definedKinds(t *testing.T, server *cluster.Cluster) {
	c, err := dynamic.NewForConfig(server.REST())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range fleet.Kinds() {
		t.Run("RoundTrip/"+k.Kind, func(t *testing.T) {
			want := readObject(t, filepath.Join(apiSamples, "TestRoundTrip", k.Kind+".yaml"))
			got := keepObject(t, endpoint(c, k), k, want)
			for _, part := range []*unstructured.Unstructured{want, got} {
				delete(part.Object, "metadata")
			}
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("-want +got: %s", diff)
			}
		})
		t.Run("Null/"+k.Kind, func(t *testing.T) {
			keepObject(t, endpoint(c, k), k, readObject(t, filepath.Join(apiSamples, "TestNullMeansUnset", k.Kind+".yaml")))
		})
	}
	t.Run("Durations", func(t *testing.T) { checkDurations(t, c) })
	t.Run("CustomizationMode", func(t *testing.T) { checkCustomizationMode(t, c) })
}

// keepObject creates the object under a name of its own, with its status, and
// returns what the API server kept.
func keepObject(t *testing.T, r dynamic.ResourceInterface, k fleet.KindInfo, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	o = o.DeepCopy()
	o.SetName(strings.ToLower(strings.ReplaceAll(filepath.Base(filepath.Dir(t.Name())), "/", "-")))
	status, hasStatus := o.Object["status"]
	kept, err := r.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	if k.Status && hasStatus {
		kept.Object["status"] = status
		kept, err = r.UpdateStatus(t.Context(), kept, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
	}
	return kept
}

// tryCreate asks the API server whether it would take a spec.
func tryCreate(t *testing.T, c dynamic.Interface, plural, kind string, spec map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleet.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": "dry"}, "spec": spec,
	}}
	return c.Resource(fleet.GroupVersion.WithResource(plural)).Namespace("default").
		Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func checkDurations(t *testing.T, c dynamic.Interface) {
	tests := map[string]bool{
		"0": true, "0s": true, "15s": true, "1h30m": true, "1.5h": true, "100ms": true, "1µs": true, "2562047h": true,
		"": false, "1d": false, "2w": false, "-5s": false, "5": false, "1h30": false, "2562048h": false, "1 h": false, "h": false,
	}
	fields := []struct {
		plural, kind string
		spec         func(any) map[string]any
	}{
		{"gitrepos", "GitRepo", func(d any) map[string]any { return map[string]any{"repo": "r", "pollingInterval": d} }},
		{"gitrepos", "GitRepo", func(d any) map[string]any { return map[string]any{"repo": "r", "imageScanInterval": d} }},
		{"helmops", "HelmOp", func(d any) map[string]any { return map[string]any{"pollingInterval": d} }},
		{"clusterregistrationtokens", "ClusterRegistrationToken", func(d any) map[string]any { return map[string]any{"ttl": d} }},
		{"imagescans", "ImageScan", func(d any) map[string]any { return map[string]any{"image": "i", "interval": d} }},
		{"schedules", "Schedule", func(d any) map[string]any { return map[string]any{"duration": d} }},
	}
	for _, f := range fields {
		for d, valid := range tests {
			_, err := tryCreate(t, c, f.plural, f.kind, f.spec(d))
			if valid && err != nil || !valid && !apierrors.IsInvalid(err) {
				t.Errorf("%s %v: %v", f.kind, f.spec(d), err)
			}
		}
	}
}

func checkCustomizationMode(t *testing.T, c dynamic.Interface) {
	for given, want := range map[any]string{nil: "FirstMatch", "AllMatches": "AllMatches"} {
		o, err := tryCreate(t, c, "bundles", "Bundle", map[string]any{"targetCustomizationMode": given})
		if err != nil {
			t.Errorf("%v: %v", given, err)
			continue
		}
		if got, _, _ := unstructured.NestedString(o.Object, "spec", "targetCustomizationMode"); got != want {
			t.Errorf("%s becomes %s", fmt.Sprint(given), got)
		}
	}
}
