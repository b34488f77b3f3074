package harness

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// Kubernetes returns the path of the Kubernetes executable. The test is
// skipped, with a text that says what to do, where it is not built yet.
func Kubernetes(t testing.TB) string {
	t.Helper()
	path, err := findKubernetes(t)
	if err != nil {
		t.Skip(skipText)
	}
	return path
}

// skipText is the reason of a skipped test. The README's test command builds
// the executable before it runs the tests.
const skipText = "needs the sandbox's Kubernetes, which is not built: run " +
	"`go run ./hack/test`, which builds it first"

func findKubernetes(t testing.TB) (string, error) {
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	b, err := kubebin.Default(root)
	if err != nil {
		return "", err
	}
	return b.Cached(t.Context())
}

// Cluster starts one real control plane for t and stops it after t.
func Cluster(t testing.TB, name string) *cluster.Cluster {
	t.Helper()
	binary := Kubernetes(t)
	c, err := start(t.Context(), cluster.Config{Name: name, Dir: t.TempDir(), Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// GOGC is that of control planes for tests: with a heap that may grow to five times its
// size they need a fifth less processor time, and an API server takes 100 MiB more.
const GOGC = 400

// The API servers in memory run in the processes of the tests. Fleet's programs, which are
// processes of their own, keep Go's default: tests measure their memory.
func init() {
	debug.SetGCPercent(GOGC)
	if err := os.Unsetenv("GOGC"); err != nil {
		panic(err)
	}
}

// start starts a control plane for a few tests.
func start(ctx context.Context, cfg cluster.Config) (*cluster.Cluster, error) {
	cfg.GOGC = GOGC
	return cluster.Start(ctx, cfg)
}

// Clusters starts real control planes side by side for t, and connects to them.
func Clusters(t testing.TB, names ...string) []*Hub {
	t.Helper()
	binary := Kubernetes(t)
	made := make([]*cluster.Cluster, len(names))
	dir := t.TempDir()
	var all errgroup.Group
	for i, name := range names {
		all.Go(func() (err error) {
			made[i], err = start(t.Context(), cluster.Config{Name: name, Dir: filepath.Join(dir, name), Binary: binary})
			return err
		})
	}
	err := all.Wait()
	for _, c := range made {
		if c != nil {
			t.Cleanup(c.Stop)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var hubs []*Hub
	for _, c := range made {
		hubs = append(hubs, ConnectHub(t, c))
	}
	return hubs
}
