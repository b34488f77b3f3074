// Package integrationtests tests Fleet as a whole with real API servers, real
// git and the real programs, and tests the ports to Kubernetes on a real API
// server.
package integrationtests

import (
	"os"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// The tests share one fleet, which starts with the first of them, and run one
// after the other. Those that run in parallel with others come last.
func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// TestPorts runs the tests that need an API server and no fleet. All share one.
// Helm's tests measure how long an installation takes and run alone.
func TestPorts(t *testing.T) {
	server := harness.Cluster(t, "port")
	t.Run("Helm", func(t *testing.T) { helmPort(t, server) })
	installDefinitions(t, server)
	for name, report := range map[string]func(*testing.T, *cluster.Cluster){
		"API": definedKinds, "Schema": lintedObjects, "Kube": kubePort, "KubeCache": kubeCache, "KubeEvent": kubeEvent,
		"KubeLease": kubeLease, "KubeLeaseConflict": kubeLeaseConflict, "KubeLeaseWatched": kubeLeaseWatched, "KubeTest": kubeTest, "KubeTestRights": kubeTestRights,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report(t, server)
		})
	}
}
