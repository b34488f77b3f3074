package integrationtests

import (
	"bytes"
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

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// The commands in README and tour work as they stand there: in order, in two
// terminals, in a sandbox that was started as the README says. Ctrl-C leaves
// nothing behind.
func TestCommandsInDocs(t *testing.T) {
	t.Parallel()
	harness.Kubernetes(t)
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	up := commandsIn(t, filepath.Join(root, "README.md"), 1)
	for _, doc := range []string{"README.md", "docs/tour.md"} {
		t.Run(filepath.Base(doc), func(t *testing.T) {
			d := openShell(t, root)
			d.start(up)
			d.run(commandsIn(t, filepath.Join(root, doc), 2))
			d.interrupt()
		})
	}
}

// commandsIn returns the fenced blocks of a document that belong in a
// terminal: those that open with "```sh terminal=N".
func commandsIn(t *testing.T, path string, terminal int) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks strings.Builder
	inside := false
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.TrimSpace(line) == fmt.Sprintf("```sh terminal=%d", terminal):
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			blocks.WriteString(line)
		}
	}
	if blocks.Len() == 0 {
		t.Fatalf("%s has no commands for terminal %d", path, terminal)
	}
	return blocks.String()
}

// A shell is where a reader sits: two terminals in the same clone.
type shell struct {
	t     *testing.T
	root  string
	cache string // in the place of the user's cache folder
	env   []string
	up    *exec.Cmd
	out   *transcript // of terminal 1
	ended chan error
}

// openShell gives the reader a cache folder with nothing in it but what was
// built already, and ports that are free.
func openShell(t *testing.T, root string) *shell {
	t.Helper()
	d := &shell{t: t, root: root, cache: t.TempDir(), out: &transcript{}, ended: make(chan error, 1)}
	builder, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(d.cache, "fleet-sandbox"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(builder.Cache, filepath.Join(d.cache, "fleet-sandbox", "bin")); err != nil {
		t.Fatal(err)
	}
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(),
		"XDG_CACHE_HOME="+d.cache,
		"GOCACHE="+strings.TrimSpace(string(goCache)), // else it would lie in the empty cache folder
		fmt.Sprintf("FLEET_SANDBOX_PORTS=%d", harness.FreePorts(t, 20)),
	)
	return d
}

// start types the commands of terminal 1 and returns when the sandbox says
// that it is ready.
func (d *shell) start(commands string) {
	d.t.Helper()
	d.up = d.bash(commands, d.out)
	if err := d.up.Start(); err != nil {
		d.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		err := d.up.Wait()
		close(gone)
		d.ended <- err
	}()
	d.t.Cleanup(func() {
		select {
		case <-gone: // the PID may belong to another process by now
		default:
			_ = syscall.Kill(-d.up.Process.Pid, syscall.SIGKILL)
		}
	})
	limit := time.NewTimer(5 * time.Minute)
	defer limit.Stop()
	for {
		more := d.out.more() // before the look, so that nothing is missed
		if strings.Contains(d.out.String(), "Running until Ctrl-C") {
			return
		}
		select {
		case err := <-d.ended:
			d.t.Fatalf("terminal 1 ended: %v\n%s", err, d.out)
		case <-limit.C:
			d.t.Fatalf("terminal 1 is not ready:\n%s", d.out)
		case <-more:
		}
	}
}

// run types the commands of terminal 2, one line after the other. Each line
// must succeed.
func (d *shell) run(commands string) {
	d.t.Helper()
	var script strings.Builder
	for line := range strings.Lines(commands) {
		line = strings.TrimSpace(line)
		quoted := "'" + strings.ReplaceAll(line, "'", `'\''`) + "'"
		fmt.Fprintf(&script, "printf '$ %%s\\n' %s\n%s\nstatus=$?; [ $status = 0 ] || exit $status\n", quoted, line)
	}
	var out transcript
	cmd := d.bash(script.String(), &out)
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("terminal 2: %v\n%s\nterminal 1:\n%s", err, &out, d.out)
	}
	d.t.Logf("terminal 2, in %s:\n%s", time.Since(begin).Round(time.Second), &out)
}

// interrupt presses Ctrl-C in terminal 1 and looks for what is left.
func (d *shell) interrupt() {
	d.t.Helper()
	if err := syscall.Kill(-d.up.Process.Pid, syscall.SIGINT); err != nil {
		d.t.Fatal(err)
	}
	select {
	case err := <-d.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			d.t.Error(err)
		}
	case <-time.After(harness.Timeout):
		d.t.Fatalf("terminal 1 goes on after Ctrl-C:\n%s", d.out)
	}
	left, err := os.ReadDir(filepath.Join(d.cache, "fleet-sandbox"))
	if err != nil || len(left) != 1 || left[0].Name() != "bin" {
		d.t.Errorf("Ctrl-C left more than what was built: %v, %v", left, err)
	}
	if still := processesIn(d.cache); len(still) > 0 {
		d.t.Errorf("Ctrl-C left processes:\n%s", strings.Join(still, "\n"))
	}
}

// processesIn lists the processes whose command line or working directory
// names a folder.
func processesIn(folder string) []string {
	var found []string
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // gone by now, or not ours
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if bytes.Contains(line, []byte(folder)) || strings.HasPrefix(cwd, folder) {
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// bash prepares a terminal of its own in the clone.
func (d *shell) bash(commands string, out *transcript) *exec.Cmd {
	cmd := exec.Command("bash", "-c", commands)
	cmd.Dir, cmd.Env = d.root, d.env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// A transcript is what a terminal shows.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	wake chan struct{}
}

// Write adds to the transcript.
func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
	return s.text.Write(p)
}

// more returns a channel that is closed by the next Write.
func (s *transcript) more() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

// String is all of it.
func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
