package harness

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// served is how long a new kind may take until an API server serves it.
const served = 30 * time.Second

// InstallCRDs installs the chart's CustomResourceDefinitions into an empty
// cluster and waits until all kinds are served.
func InstallCRDs(t testing.TB, c *kube.Client) {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "charts/fleet-crd/templates/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	crds := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](c)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err == nil {
			err = yaml.Unmarshal(raw, crd)
		}
		if err == nil {
			_, err = crds.Create(t.Context(), crd)
		}
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	for _, info := range fleet.Kinds() {
		deadline := time.Now().Add(served)
		for !established(t, crds, info.Name()) {
			if time.Now().After(deadline) {
				t.Fatalf("not in time: kind %s is served", info.Kind)
			}
			time.Sleep(10 * time.Millisecond) // how often the test looks
		}
	}
}

func established(t testing.TB, crds *kube.Store[*apiextensionsv1.CustomResourceDefinition], name string) bool {
	t.Helper()
	crd, err := crds.Get(t.Context(), kube.Key{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}
