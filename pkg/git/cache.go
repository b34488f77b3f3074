package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// cachePattern names the directories of caches, one for each process.
const cachePattern = "fleet-git-*"

// abandoned is how old a directory without a lock must be before it is taken
// for the rest of a process that died while it began.
const abandoned = time.Minute

// makeCache makes a directory of its own below dir, and removes what killed processes
// have left there. The open file holds the lock for as long as the process lives.
func makeCache(dir string) (root string, lock *os.File, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make git cache: %w", err)
	}
	sweepCaches(dir)
	root, err = os.MkdirTemp(dir, cachePattern)
	if err != nil {
		return "", nil, fmt.Errorf("make git cache: %w", err)
	}
	lock, err = os.OpenFile(lockFile(root), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil && !tryLockFile(lock) {
		err = errors.Join(errors.New("somebody else holds the lock of a new directory"), lock.Close())
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock git cache: %w", err), os.RemoveAll(root))
	}
	return root, lock, nil
}

// sweepCaches removes caches that no process holds. What cannot be removed is left to
// the next sweep.
func sweepCaches(dir string) {
	roots, err := filepath.Glob(filepath.Join(dir, cachePattern))
	if err != nil || !locks {
		return
	}
	for _, root := range roots {
		if isOrphan(root) {
			_ = os.RemoveAll(root)
		}
	}
}

// isOrphan reports whether the process of a cache is gone.
func isOrphan(root string) bool {
	f, err := os.OpenFile(lockFile(root), os.O_RDWR, 0)
	if err != nil {
		info, statErr := os.Lstat(root)
		return errors.Is(err, os.ErrNotExist) && statErr == nil && info.IsDir() && time.Since(info.ModTime()) > abandoned
	}
	defer f.Close()
	return tryLockFile(f)
}

func lockFile(root string) string { return filepath.Join(root, "lock") }
