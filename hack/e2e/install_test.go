package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be another program that has a lock until its input
// ends.
func TestMain(m *testing.M) {
	if path := os.Getenv("E2E_TEST_LOCK"); path != "" {
		hold(path)
	}
	os.Exit(m.Run())
}

func hold(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		os.Exit(1)
	}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// untilFree waits for the locks of apt as long as another process has them and
// no longer.
func TestUntilFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := untilFree(t.Context(), path); err != nil {
		t.Errorf("a lock that does not exist: %v", err)
	}
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), "E2E_TEST_LOCK="+path)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := untilFree(impatient, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that a process holds: %v", err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := untilFree(t.Context(), path); err != nil {
		t.Errorf("a lock that was given back: %v", err)
	}
	_ = other.Wait()
}
