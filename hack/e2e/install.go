package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
)

// installLimit is how long all of an installation may take: that others are done with
// apt, a mirror that answers slowly, and the packages themselves.
const installLimit = 15 * time.Minute

// listsLock is what apt-get update takes, and refuses to wait for. For dpkg's own
// locks it waits, by an option.
const listsLock = "/var/lib/apt/lists/lock"

// installPackages installs what is missing, where there is root and apt.
func installPackages(ctx context.Context) error {
	missing := node.Packages()
	if len(missing) == 0 || os.Geteuid() != 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install %s: no apt-get here", strings.Join(missing, " "))
	}
	fmt.Println("e2e: install", strings.Join(missing, " "))
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	if err := untilFree(ctx, listsLock); err != nil {
		return err
	}
	// One source that fails fails the whole update; what is needed may be known all the same.
	stale := aptGet(ctx, "update")
	if err := aptGet(ctx, "install", append([]string{"--yes", "--no-install-recommends"}, missing...)...); err != nil {
		return errors.Join(err, stale)
	}
	return nil
}

// aptGet runs apt-get, with what it says in the error. When ctx ends it is asked to
// stop, so that no package is left half installed.
func aptGet(ctx context.Context, verb string, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{
		verb, "-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=60", "-o", "Acquire::https::Timeout=60",
	}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", verb, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// untilFree waits until no other process holds the lock on a file, as a machine does
// that has just been started and looks for its own updates. A file that does not
// exist is free.
func untilFree(ctx context.Context, path string) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		taken, err := locked(path)
		if err != nil || !taken {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until another program lets %s go: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// locked reports whether another process holds the lock on a file.
func locked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look who holds %s: %w", path, err)
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return false, fmt.Errorf("look who holds %s: %w", path, err)
	}
	return lock.Type != syscall.F_UNLCK, nil
}
