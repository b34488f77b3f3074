package commands

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// TestMain lets the test binary be fleet-sandbox, and its janitor, for the
// tests that end a launcher in the middle of its life.
func TestMain(m *testing.M) {
	if os.Getenv("LAUNCHER_TEST") != "" {
		Main()
	}
	os.Exit(m.Run())
}

// A launched is a fleet-sandbox up in a process of its own. Its programs do
// nothing, so that it is for ever about to register its clusters.
type launched struct {
	place  place
	ports  fleet.Ports
	cmd    *exec.Cmd
	stderr *bufio.Reader
	said   bytes.Buffer
}

func launch(t *testing.T) *launched {
	t.Helper()
	kubernetes := cachedKubernetes(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("LAUNCHER_TEST", "1")
	ports := fleet.Ports{First: freeBlock(t), Clusters: 1}
	p, err := findPlace(ports.First)
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, name := range kubebin.Programs {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l := &launched{place: p, ports: ports}
	l.cmd = exec.Command("/proc/self/exe", "up", "--clusters", "1", "--ports", fmt.Sprint(ports.First),
		"--kubernetes-bin", kubernetes, "--fleet-bin", programs, "--force")
	out, err := l.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.stderr = bufio.NewReader(out)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.cmd.Process.Kill() })
	l.until(t, "fleet-sandbox: a fleet of two Kubernetes 1.36 clusters on this machine")
	if strings.Count(l.said.String(), "\n") != 1 {
		t.Errorf("it does not begin with that, but:\n%s", l.said.String())
	}
	l.until(t, "install   Fleet on local: 14 CRDs, manager running")
	return l
}

func cachedKubernetes(t *testing.T) string {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	path, err := builder.Cached(t.Context())
	if errors.Is(err, kubebin.ErrNotBuilt) {
		t.Skip("needs the sandbox's Kubernetes: run go run ./hack/test, which builds it first")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// freeBlock finds a port that begins a block of free ones.
func freeBlock(t *testing.T) int {
	t.Helper()
	for first := 20000; first < 30000; first += 50 {
		if checkPorts(fleet.Ports{First: first, Clusters: 1}, []string{"c1"}, "") == nil {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// until reads what the launcher says until a line ends in text.
func (l *launched) until(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := l.stderr.ReadString('\n')
		l.said.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(line), text) {
			return
		}
		if err != nil {
			t.Fatalf("the launcher never said %q, but:\n%s", text, l.said.String())
		}
	}
}

// left is what there still is of a sandbox.
func (l *launched) left() []string {
	var found []string
	for _, pid := range l.place.leftovers() {
		found = append(found, fmt.Sprintf("process %d", pid))
	}
	for _, dir := range []string{l.place.Run, l.place.Log} {
		if _, err := os.Stat(dir); err == nil {
			found = append(found, dir)
		}
	}
	for _, use := range l.ports.Uses([]string{"c1"}) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", use.Port))
		if err == nil {
			_ = conn.Close()
			found = append(found, fmt.Sprintf("port %d (%s)", use.Port, use.For))
		}
	}
	if l.place.held() {
		found = append(found, "the lock")
	}
	return found
}

// TestCrashLeavesNothing: a launcher that is killed takes everything with it.
func TestCrashLeavesNothing(t *testing.T) {
	l := launch(t)
	if n := len(l.place.leftovers()); n < 10 {
		t.Fatalf("want two control planes with five processes each, got %d processes", n)
	}
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.cmd.Wait()
	deadline := time.Now().Add(2 * time.Minute)
	for len(l.left()) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("left by a crash: %v", l.left())
		}
		time.Sleep(20 * time.Millisecond) // the janitor is not our child: we get no signal when it ends
	}
}

// TestDownEndsIt: while a sandbox starts, other processes get its state, are
// refused a second sandbox and faults, and may end it with down; nothing is
// left when down returns.
func TestDownEndsIt(t *testing.T) {
	l := launch(t)
	at := fmt.Sprintf("--ports=%d", l.ports.First)
	if _, stderr, code := call(t, "up", at); code != 1 || !strings.Contains(stderr, "still runs here (pid "+fmt.Sprint(l.cmd.Process.Pid)+")") {
		t.Errorf("want a second up refused, got %d: %s", code, stderr)
	}
	if stdout, stderr, code := call(t, "status", "-o", "json", at); code != 0 || !strings.Contains(stdout, `"state":"Starting"`) {
		t.Errorf("want status Starting, got %d: %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := call(t, "cut", "c1", at); code != 1 || !strings.Contains(stderr, "just being started") {
		t.Errorf("want no faults before it is up, got %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code := call(t, "down", at)
	if code != 0 || !strings.HasPrefix(stdout, "stopped ") {
		t.Errorf("got %d: %s%s", code, stdout, stderr)
	}
	if left := l.left(); len(left) > 0 {
		t.Errorf("left by down: %v", left)
	}
	_, _ = l.stderr.WriteTo(&l.said)
	var exit *exec.ExitError
	if err := l.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("want exit code %d of the launcher, got %v\n%s", exitInterrupted, err, l.said.String())
	}
}

// TestInterrupt: Ctrl-C ends everything before the launcher itself ends.
func TestInterrupt(t *testing.T) {
	l := launch(t)
	if err := l.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = l.stderr.WriteTo(&l.said)
	_ = l.cmd.Wait()
	if left := l.left(); len(left) > 0 {
		t.Errorf("left by Ctrl-C: %v\n%s", left, l.said.String())
	}
}
