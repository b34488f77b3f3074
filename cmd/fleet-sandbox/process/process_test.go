package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary be the launcher that TestNothingOutlives
// kills: with this variable set it starts a child and waits for its end.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PROCESS_TEST_LAUNCH"); dir != "" {
		launch(dir)
	}
	os.Exit(m.Run())
}

func launch(dir string) {
	g := NewGroup()
	p, err := g.Start(sleeper(dir, "sleep 600"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	<-p.Done()
	os.Exit(1)
}

func sleeper(dir, script string) Spec {
	return Spec{
		Name: "sleeper of test",
		Path: "/bin/sh",
		Args: []string{"-c", "exec " + script},
		Dir:  dir,
		Env:  []string{"PATH=/usr/bin:/bin"},
		Log:  filepath.Join(dir, "log", "sleeper.log"),
	}
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestNothingOutlivesTheLauncher(t *testing.T) {
	launcher := exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), "PROCESS_TEST_LAUNCH="+t.TempDir())
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("launcher says %q: %v", line, err)
	}
	if !alive(pid) {
		t.Fatalf("child %d does not run", pid)
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = launcher.Wait()
	waitGone(t, pid)
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d lives on", pid)
		}
		time.Sleep(5 * time.Millisecond) // the kernel signals only the parent, which is not us
	}
}

func TestStopEndsStubbornChild(t *testing.T) {
	g := NewGroup()
	dir := t.TempDir()
	spec := sleeper(dir, "")
	spec.Args = []string{"-c", `trap "" TERM; echo trapped; while :; do sleep 1; done`}
	p, err := g.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	for LastLine(p.Log()) != "trapped" {
		time.Sleep(5 * time.Millisecond)
	}
	g.Close(20 * time.Millisecond)
	if alive(p.PID()) {
		t.Errorf("process %d lives on", p.PID())
	}
	if d := p.Death(); d != nil {
		t.Errorf("a stopped child is no accident, got %v", d)
	}
	if _, err := g.Start(spec); !errors.Is(err, ErrClosed) {
		t.Errorf("start in a closed group: want ErrClosed, got %v", err)
	}
}

// A process that is started while a group ends, such as a part that comes back by
// itself, is stopped with it or not started.
func TestCloseStopsLateStarts(t *testing.T) {
	g, dir := NewGroup(), t.TempDir()
	started := make(chan *Process, 50)
	var all sync.WaitGroup
	for range cap(started) {
		all.Go(func() {
			p, err := g.Start(sleeper(dir, "sleep 600"))
			if err == nil {
				started <- p
			} else if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	<-started
	g.Close(0)
	all.Wait()
	close(started)
	for p := range started {
		select {
		case <-p.Done():
		default:
			t.Errorf("process %d was started and not stopped", p.PID())
		}
	}
	select {
	case death := <-g.Deaths():
		t.Errorf("a stopped child is no accident: %v", death)
	default:
	}
}

func TestDeathReason(t *testing.T) {
	g := NewGroup()
	defer g.Close(0)
	dir := t.TempDir()
	spec := sleeper(dir, "")
	spec.Args = []string{"-c", `echo first; echo "no space left on device" >&2; echo; exit 3`}
	p, err := g.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	death := <-g.Deaths()
	want := []string{
		fmt.Sprintf("sleeper of test ended %s after its start (exit status 3)", death.After.Round(time.Second)),
		`its last line: "no space left on device"`,
		"whole log: " + p.Log(),
	}
	if diff := cmp.Diff(want, append([]string{death.Error()}, death.Details()...)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLastLine(t *testing.T) {
	cases := map[string]struct{ why, text, want string }{
		"Empty":   {"a child may die before it says anything", "", ""},
		"Blank":   {"blank lines say nothing", "why\n\n  \n", "why"},
		"NoEnd":   {"a killed child leaves half a line", "one\ntwo", "two"},
		"Long":    {"one line on the screen, not a page", strings.Repeat("x", 1000), strings.Repeat("x", 300)},
		"BigFile": {"only the end of a big log is read", strings.Repeat("y\n", tailBytes) + "end\n", "end"},
		"Binary":  {"what is printed must be text", "a\xffb", "ab"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := LastLine(path); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}
