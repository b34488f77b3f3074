package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// detachedVariable marks a launcher that runs in the background; descriptor 3
// leads to the one that started it.
const detachedVariable = "FLEET_SANDBOX_DETACHED"

func isDetached() bool { return os.Getenv(detachedVariable) != "" }

// keepFromChildren keeps descriptor 3 from all processes that this one will
// start: as long as one of them had it, the starter would wait.
func keepFromChildren() {
	if isDetached() {
		syscall.CloseOnExec(starterDescriptor)
	}
}

// starterDescriptor is the first of ExtraFiles.
const starterDescriptor = 3

// detach starts this command once more in a session of its own, lets it use
// this one's terminal until it is up, and ends as it says. While it starts,
// Ctrl-C here ends it.
func detach(ctx context.Context, p place) error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	defer ours.Close()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = "fleet-sandbox"
	cmd.Env = append(os.Environ(), detachedVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	_ = theirs.Close()
	interrupted := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer interrupted()

	word, err := bufio.NewReader(ours).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("detach: %w", err)
	}
	if code, err := strconv.Atoi(strings.TrimSpace(word)); err == nil {
		if code == 0 {
			return nil
		}
		return exitCode(code)
	}
	// It ended without a word, and has said why.
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return exitCode(exit.ExitCode())
	}
	return fmt.Errorf("detach: the launcher ended; %s may say why", short(filepath.Join(p.Log, "launcher.log")))
}

// letGo gives the terminal back: from here on this launcher prints to its
// log, and the one that started it ends with code.
func letGo(p place, code int) error {
	if err := os.MkdirAll(p.Log, 0o700); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(p.Log, "launcher.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	defer log.Close()
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(log.Fd()), fd, 0); err != nil {
			return fmt.Errorf("detach: %w", err)
		}
	}
	starter := os.NewFile(starterDescriptor, "starter")
	defer starter.Close()
	_, err = fmt.Fprintln(starter, code)
	return err
}

// endWithParent ends this process where its parent is the go command and goes
// away without passing a signal on.
func endWithParent(ctx context.Context, end context.CancelFunc) {
	parent := os.Getppid()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", parent))
	if err != nil || filepath.Base(exe) != "go" || isDetached() {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				end()
				return
			}
		}
	}
}
