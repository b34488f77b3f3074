// Package integrationtests tests Fleet as a whole with real API servers, real
// git and the real programs, and tests the ports to Kubernetes on a real API
// server.
package integrationtests

import (
	"fmt"
	"os"
	"strings"
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

// settings is the manifest of a ConfigMap with one value.
func settings(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value)
}

// into is a fleet.yaml that says nothing but the namespace.
func into(namespace string) string { return "defaultNamespace: " + namespace + "\n" }

// value is the data of the ConfigMap that settings writes.
func value(v string) map[string]string { return map[string]string{"value": v} }

// lacks is empty if all words stand in text, and else says what is missing.
func lacks(text string, words ...string) string {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Sprintf("%q is not in %q", word, text)
		}
	}
	return ""
}
