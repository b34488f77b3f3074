package size_test

import (
	"os"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// The tests share one fleet, which starts with the first of them.
func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
