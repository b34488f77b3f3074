package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

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
	if err := createKinds(ctx, c, false); err != nil {
		return err
	}
	return untilServed(ctx, c)
}

// InstallMissingKinds is InstallKinds for a cluster that has some of them, of which some
// may be going.
func InstallMissingKinds(ctx context.Context, c *kube.Client) error {
	deadline := time.Now().Add(Timeout)
	for {
		if err := createKinds(ctx, c, true); err != nil {
			return err
		}
		err := served(ctx, c)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not in time: %w", err)
		}
		time.Sleep(10 * time.Millisecond) // how often it is looked
	}
}

// served is an error while a kind is not served.
func served(ctx context.Context, c *kube.Client) error {
	for _, info := range fleet.Kinds() {
		if _, err := c.ListMeta(ctx, fleet.GroupVersion.WithKind(info.Kind), kube.Watch{}); err != nil {
			return err
		}
	}
	return nil
}

// createKinds creates the kinds; with missing, those that are not there.
func createKinds(ctx context.Context, c *kube.Client, missing bool) error {
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
		if missing && kube.IsExists(err) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", f, err)
		}
	}
	return nil
}

// KindsServed returns when an API server on which the chart's
// CustomResourceDefinitions are installed serves all kinds.
func KindsServed(t testing.TB, c *kube.Client) {
	t.Helper()
	if err := untilServed(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// untilServed requests objects of each kind: a definition is Established before
// all handlers of the API server serve it.
func untilServed(ctx context.Context, c *kube.Client) error {
	deadline := time.Now().Add(Timeout)
	for _, info := range fleet.Kinds() {
		for {
			_, err := c.ListMeta(ctx, fleet.GroupVersion.WithKind(info.Kind), kube.Watch{})
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("not in time: %s is served: %w", info.Name(), err)
			}
			time.Sleep(10 * time.Millisecond) // how often it is looked
		}
	}
	return nil
}
