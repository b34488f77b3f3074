package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A folder holds what a fleet writes, for as long as this process lives.
type folder struct {
	path string
	lock *os.File // locked; the kernel unlocks it when the process ends
}

// newFolder makes a folder. It also removes the folders of processes that were
// killed: no process holds their locks.
func newFolder() (folder, error) {
	parent := filepath.Join(os.TempDir(), fmt.Sprintf("fleet-tests-%d", os.Getuid()))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return folder{}, fmt.Errorf("make folder: %w", err)
	}
	// One process at a time: a folder that was made a moment ago and is not locked yet
	// looks like one of a process that was killed.
	alone, err := os.OpenFile(filepath.Join(parent, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return folder{}, fmt.Errorf("look for old folders: %w", err)
	}
	defer alone.Close()
	if err := syscall.Flock(int(alone.Fd()), syscall.LOCK_EX); err != nil {
		return folder{}, fmt.Errorf("look for old folders: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(parent, "run-*"))
	if err != nil {
		return folder{}, fmt.Errorf("look for old folders: %w", err)
	}
	for _, path := range old {
		if f, err := hold(path); err == nil {
			f.remove()
		}
	}
	path, err := os.MkdirTemp(parent, "run-")
	if err != nil {
		return folder{}, fmt.Errorf("make folder: %w", err)
	}
	return hold(path)
}

func hold(path string) (folder, error) {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return folder{}, fmt.Errorf("lock folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return folder{}, errors.Join(fmt.Errorf("lock folder %q: %w", path, err), lock.Close())
	}
	return folder{path: path, lock: lock}, nil
}

// remove removes the folder with all that is in it.
func (f folder) remove() {
	_ = os.RemoveAll(f.path) // what cannot be removed is tried again by the next one
	_ = f.lock.Close()
}

// keep gives the folder a name under which later runs do not remove it, and
// returns its path. Databases and programs are not kept.
func (f folder) keep() string {
	large, err := filepath.Glob(filepath.Join(f.path, "*", "etcd"))
	for _, path := range append(large, filepath.Join(f.path, "bin")) {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	kept := filepath.Join(filepath.Dir(f.path), "failed-"+filepath.Base(f.path)[len("run-"):])
	if err := os.Rename(f.path, kept); err != nil {
		return f.path
	}
	_ = f.lock.Close()
	return kept
}
