package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// Older is one of Fleet's programs as it was at a revision of this project, built
// from its history when a test asks for it first. The test is skipped where the
// history is not there.
func Older(t testing.TB, revision, program string) string {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	if exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", revision+"^{commit}").Run() != nil {
		t.Skipf("needs revision %s of this project, which is not in this clone: run `git fetch --unshallow`", revision)
	}
	b, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.Cache, "older", revision, program)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := buildOlder(t.Context(), root, revision, program, path); err != nil {
		t.Fatalf("build %s of revision %s: %v", program, revision, err)
	}
	return path
}

// buildOlder builds in a folder of its own, so that several may do so at once.
func buildOlder(ctx context.Context, root, revision, program, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	unpack := exec.CommandContext(ctx, "sh", "-ec", `git -C "$1" archive --output "$3/tree.tar" "$2" && tar -xf "$3/tree.tar" -C "$3"`, "sh", root, revision, dir)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the tree: %w\n%s", err, out)
	}
	built := filepath.Join(dir, "program")
	if err := (kubebin.Builder{Root: dir}).Static(ctx, "./cmd/"+program, built); err != nil {
		return err
	}
	return os.Rename(built, path)
}
