package harness

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// parallelTests is how many tests run at once: they mostly wait.
const parallelTests = "8"

// Parallel runs a package, and up to eight of its parallel tests at once however
// few processors there are. It returns the exit code.
func Parallel(m *testing.M) int {
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer StopSharedHub()
	return m.Run()
}
