package bundlesource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/pkg/disk"
)

// storePattern names the directories of stores, one for each process.
const storePattern = "fleet-downloads-*"

// abandoned is how old a directory without a lock must be before it is taken as left by
// a process that died at its start.
const abandoned = time.Minute

// privateDir makes a directory of its own below dir, and removes what killed processes
// have left there. The open file holds the lock for as long as the process lives.
func privateDir(dir string) (root string, lock *os.File, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make directory for downloads: %w", err)
	}
	removeOrphans(dir)
	root, err = os.MkdirTemp(dir, storePattern)
	if err != nil {
		return "", nil, fmt.Errorf("make directory for downloads: %w", err)
	}
	lock, err = os.OpenFile(filepath.Join(root, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil && !tryLockFile(lock) {
		err = errors.Join(errors.New("somebody else holds the lock of a new directory"), lock.Close())
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock directory for downloads: %w", err), os.RemoveAll(root))
	}
	return root, lock, nil
}

// removeOrphans removes directories that no process holds. What cannot be removed is left to
// the next sweep.
func removeOrphans(dir string) {
	roots, err := filepath.Glob(filepath.Join(dir, storePattern))
	if err != nil || !locks {
		return
	}
	for _, root := range roots {
		if isOrphan(root) {
			_ = os.RemoveAll(root)
		}
	}
}

// isOrphan reports whether the process of a directory is gone.
func isOrphan(root string) bool {
	f, err := os.OpenFile(filepath.Join(root, "lock"), os.O_RDWR, 0)
	if err != nil {
		info, statErr := os.Lstat(root)
		return errors.Is(err, os.ErrNotExist) && statErr == nil && info.IsDir() && time.Since(info.ModTime()) > abandoned
	}
	defer f.Close()
	return tryLockFile(f)
}

// errDisk marks faults of our own disk.
var errDisk = errors.New("store of downloads on disk")

// diskFault is a disk fault without the names of temporary files.
func diskFault(err error) error {
	if local := disk.Fault(err); local != nil {
		return fmt.Errorf("%w: %w", errDisk, local)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("%w: %w", errDisk, errno)
	}
	return errDisk
}
