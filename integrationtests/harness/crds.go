package harness

import (
	"context"
	"fmt"
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

// InstallCRDs is InstallKinds for a test.
func InstallCRDs(t testing.TB, c *kube.Client) {
	t.Helper()
	if err := InstallKinds(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// InstallKinds installs the chart's CustomResourceDefinitions into an empty
// cluster and waits until all kinds are served.
func InstallKinds(ctx context.Context, c *kube.Client) error {
	root, err := source.Root()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, "charts/fleet-crd/templates/*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("install kinds: no CRDs in %q: %w", root, err)
	}
	crds := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](c)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err == nil {
			err = yaml.Unmarshal(raw, crd)
		}
		if err == nil {
			_, err = crds.Create(ctx, crd)
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", f, err)
		}
	}
	deadline := time.Now().Add(served)
	for _, info := range fleet.Kinds() {
		if err := untilServed(ctx, crds, info.Name(), deadline); err != nil {
			return fmt.Errorf("install kinds: %w", err)
		}
	}
	return nil
}

func untilServed(ctx context.Context, crds *kube.Store[*apiextensionsv1.CustomResourceDefinition], name string, deadline time.Time) error {
	for {
		if ok, err := established(ctx, crds, name); ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not in time: %s is served", name)
		}
		time.Sleep(10 * time.Millisecond) // how often it is looked
	}
}

func established(ctx context.Context, crds *kube.Store[*apiextensionsv1.CustomResourceDefinition], name string) (bool, error) {
	crd, err := crds.Get(ctx, kube.Key{Name: name})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	}), nil
}
