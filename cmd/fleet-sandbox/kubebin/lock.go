package kubebin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// lock takes the file at path for this process and waits while another one
// has it. The kernel gives it back when a holder dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %q: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for another build: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// contain puts cmd into a process group of its own, so that Ctrl-C reaches it
// only through its context, which ends the whole group: go, its compilers and
// its linker. The kernel ends it if this process dies (see onOwnThread).
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
}

// onOwnThread calls run, which starts a contained command and waits for it.
// The parent death signal is sent when the thread that forked ends, so that
// thread must last as long as the command.
func onOwnThread(run func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return run()
}
