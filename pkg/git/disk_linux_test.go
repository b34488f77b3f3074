package git

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// smallDisk is a folder on a disk of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a disk of its own needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func remotesIn(t *testing.T, dir string) *Remotes {
	t.Helper()
	r, err := New(Config{Addresses: address.WithLoopback(), Dir: dir, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func noise(bytes int) string {
	data := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return string(data)
}

// served is a server of two repositories: one is large.
func served(t *testing.T, large int) (small, big Source, ref Reference, commits map[string]Commit) {
	t.Helper()
	root, commits := t.TempDir(), map[string]Commit{}
	for name, size := range map[string]int{"small": 10, "big": large} {
		repo := gittest.NewRepo(t)
		commits[name] = Commit(repo.Commit("first", map[string]string{"data": noise(size)}))
		if err := os.Rename(repo.Dir, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	server := gittest.ServeHTTP(t, root)
	return Source{URL: server.URL + "/small"}, Source{URL: server.URL + "/big"}, Reference{Branch: "main"}, commits
}

func wantLocal(t *testing.T, err error, says string) {
	t.Helper()
	if reconcile.ReasonOf(err) != reconcile.ReasonLocal || !reconcile.IsRequeue(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("want a local fault that says %q, got %s: %v", says, reconcile.ReasonOf(err), err)
	}
}

func TestFullDiskIsALocalFault(t *testing.T) {
	dir := smallDisk(t, "3m")
	small, _, ref, commits := served(t, 10)
	remotes := remotesIn(t, dir)
	filler := filepath.Join(dir, "filler")
	_ = os.WriteFile(filler, make([]byte, 4<<20), 0o600) // as much of it as there is room for
	_, err := remotes.Fetch(t.Context(), small, ref, commits["small"])
	wantLocal(t, err, "free space in the folder for temporary files")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	tree, err := remotes.Fetch(t.Context(), small, ref, commits["small"])
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	tree.Close()
}

// A repository that is larger than the disk does not fill it: others are read.
func TestLargeRepositoryLeavesRoomForOthers(t *testing.T) {
	dir := smallDisk(t, "12m")
	small, big, ref, commits := served(t, 8<<20)
	remotes := remotesIn(t, dir)
	before, _ := disk.FreeBytes(dir)
	_, err := remotes.Fetch(t.Context(), big, ref, commits["big"])
	wantLocal(t, err, "more than a third of the space that is left")
	if after, _ := disk.FreeBytes(dir); before-after > 256<<10 {
		t.Errorf("%d bytes are left on disk of what could not be kept", before-after)
	}
	tree, err := remotes.Fetch(t.Context(), small, ref, commits["small"])
	if err != nil {
		t.Fatalf("the other repository: %v", err)
	}
	tree.Close()
}
