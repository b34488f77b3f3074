package agents_test

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// TestMain lets the tests run at once: they wait for most of their time.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(harness.Parallel(m))
}
