package git

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// A cache that a killed process has left is removed, one that is in use is not.
func TestCaches(t *testing.T) {
	dir := t.TempDir()
	first, err := New(Config{Addresses: address.WithLoopback(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	left, young := filepath.Join(dir, "fleet-git-left"), filepath.Join(dir, "fleet-git-young")
	foreign := filepath.Join(dir, "something-else")
	for _, d := range []string{left, young, foreign} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(lockFile(left), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := New(Config{Addresses: address.WithLoopback(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	there := func(d string) bool {
		_, err := os.Stat(d)
		return err == nil
	}
	if !there(first.root) || !there(second.root) || !there(young) || !there(foreign) {
		t.Error("what is in use, just begun or not ours must stay")
	}
	if there(left) {
		t.Error("what a killed process left must go")
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(young, old, old); err != nil {
		t.Fatal(err)
	}
	sweepCaches(dir)
	if there(young) {
		t.Error("a directory without a lock must go when it is old")
	}
	if err := first.Close(); err != nil || there(first.root) {
		t.Errorf("want the cache gone with its process, got %v", err)
	}
}
