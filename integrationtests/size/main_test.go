package size_test

import (
	"os"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// The stories share one fleet, which starts with the first of them.
func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
