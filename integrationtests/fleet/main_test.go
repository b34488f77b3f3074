// Package fleet tests a whole fleet with the real programs and real git, on API servers in
// memory. What only a real API server proves is tested in package integrationtests.
package fleet

import (
	"os"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// The tests share one fleet, which starts with the first of them, and run one
// after the other. Those that run in parallel with others come last.
func TestMain(m *testing.M) { os.Exit(harness.MainInMemory(m)) }
