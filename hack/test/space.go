package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/pkg/disk"
)

// How much a run writes at most, with some reserve. All compiled packages of the unit
// tests are 1.8 GiB: that much the build cache grows where it was empty, and until go
// ends they are in the folder for temporary files as well. Test programs and files of
// the unit tests are 0.3 GiB at once, the data of API servers is about as much.
// Kubernetes' source adds to the build cache once.
const (
	tempBytes       int64 = 3 << 30
	cacheBytes      int64 = 3 << 30
	kubernetesBytes int64 = 3 << 30
)

// A folder is one that a run writes to.
type folder struct {
	what      string
	path      string
	needBytes int64
	remedy    string // what gives it more space
}

// folders returns what a run writes to. Kubernetes is built where it is missing.
func folders(ctx context.Context, kubernetes bool) ([]folder, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("ask go for its build cache: %w", err)
	}
	temp := os.TempDir()
	cache := folder{what: "Go's build cache", path: strings.TrimSpace(string(out)), needBytes: cacheBytes, remedy: "run go clean -cache"}
	if kubernetes {
		cache.needBytes += kubernetesBytes
	}
	return []folder{{
		what: "the folder for temporary files", path: temp, needBytes: tempBytes,
		remedy: "delete the go-build* and fleet-* folders that runs before have left there, or set TMPDIR to a folder on another disk",
	}, cache}, nil
}

// checkSpace returns an error that names the first folder with less free space than a
// run needs: tests that find the disk full fail with errors that do not say so. A folder
// whose free space is unknown passes.
func checkSpace(folders []folder, free func(path string) (bytes int64, known bool)) error {
	for _, f := range folders {
		if bytes, known := free(f.path); known && bytes < f.needBytes {
			return fmt.Errorf("%s %s has %s free, the tests need %s: %s", f.what, f.path, gib(bytes), gib(f.needBytes), f.remedy)
		}
	}
	return nil
}

// checkSpace is checkSpace for this machine.
func (o options) checkSpace(ctx context.Context) error {
	build := false
	if !o.unit {
		root, err := source.Root()
		if err != nil {
			return err
		}
		b, err := kubebin.Default(root)
		if err != nil {
			return err
		}
		_, err = b.Cached(ctx)
		build = errors.Is(err, kubebin.ErrNotBuilt)
	}
	list, err := folders(ctx, build)
	if err != nil {
		return err
	}
	return checkSpace(list, disk.FreeBytes)
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
