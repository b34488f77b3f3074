package kubebin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// Progress is how far a build is.
type Progress struct {
	Fetched int // modules downloaded so far
	Built   int // packages compiled, at most Total where that is known
	Total   int // packages to compile, or 0
	Linking bool
}

// A Failure is a build that go refused or gave up.
type Failure struct {
	What   string
	Err    error
	Output []string // the last lines of go's output
}

func (f *Failure) Error() string { return fmt.Sprintf("build %s: %v", f.What, f.Err) }

// Unwrap returns the error of the go command.
func (f *Failure) Unwrap() error { return f.Err }

// Details are the lines to print below Error.
func (f *Failure) Details() []string { return f.Output }

// buildKubernetes builds into path.
func (b Builder) buildKubernetes(ctx context.Context, path string) error {
	version, err := b.Version()
	if err != nil {
		return err
	}
	part := path + ".part"
	err = b.compile(ctx, job{
		what:     "kubernetes " + version,
		dir:      b.module(),
		packages: []string{"."},
		args:     append([]string{"-o", part}, b.settings(version)...),
		counted:  true,
	})
	if err != nil {
		_ = os.Remove(part)
		return err
	}
	return os.Rename(part, path)
}

// A job is one run of go build.
type job struct {
	what     string // for the error
	dir      string
	packages []string
	args     []string // of go build
	counted  bool     // find out first how many packages are to be compiled
}

func (b Builder) compile(ctx context.Context, j job) error {
	m := &meter{report: b.Report}
	if j.counted {
		list := []string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}
		if slices.Contains(j.args, "-trimpath") { // or all would seem to be stale
			list = append(list, "-trimpath")
		}
		if err := m.count(b.goCommand(ctx, append(list, j.packages...)...), j); err != nil {
			return err
		}
	}
	cmd := b.goCommand(ctx, append(append([]string{"build", "-v"}, j.args...), j.packages...)...)
	return m.run(cmd, j)
}

// A meter turns what go prints on stderr into Progress.
type meter struct {
	report func(Progress)

	mu     sync.Mutex
	now    Progress
	output []string
}

// count takes the lines that list prints as the packages to be compiled.
func (m *meter) count(list *exec.Cmd, j job) error {
	total := 0
	list.Stdout = lineWriter(func(line string) {
		if line != "" {
			total++
		}
	})
	if err := m.run(list, j); err != nil {
		return err
	}
	m.update(func(p *Progress) { p.Total = total })
	return nil
}

// run executes cmd and reads its stderr.
func (m *meter) run(cmd *exec.Cmd, j job) error {
	cmd.Dir = j.dir
	cmd.Stderr = lineWriter(m.line)
	if err := onOwnThread(cmd.Run); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return &Failure{What: j.what, Err: err, Output: tail(strings.Join(m.output, "\n"), 20)}
	}
	return nil
}

// line reads one line of go's: a download, the import path of a package that
// is compiled now, or something to show if the build fails.
func (m *meter) line(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		m.update(func(p *Progress) { p.Fetched++ })
	case isImportPath(line):
		m.update(func(p *Progress) {
			if p.Built < p.Total || p.Total == 0 {
				p.Built++
			}
			p.Linking = p.Total > 0 && p.Built == p.Total
		})
	case line != "":
		m.mu.Lock()
		m.output = append(m.output, line)
		m.mu.Unlock()
	}
}

func (m *meter) update(change func(*Progress)) {
	m.mu.Lock()
	change(&m.now)
	now := m.now
	m.mu.Unlock()
	if m.report != nil {
		m.report(now)
	}
}

// isImportPath reports whether a line of go build -v is an import path and not
// a message: it is one word, without the colon and the blank that every message
// has.
func isImportPath(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#()\"'")
}

// A lines writer calls f with each line written to it, trimmed. A last line
// without an end is dropped.
type lines struct {
	f    func(string)
	rest []byte
}

func lineWriter(f func(string)) io.Writer { return &lines{f: f} }

// Write implements io.Writer and never fails.
func (l *lines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		advance, line, err := bufio.ScanLines(l.rest, false)
		if err != nil || advance == 0 {
			return len(data), nil
		}
		l.f(strings.TrimSpace(string(line)))
		l.rest = l.rest[advance:]
	}
}

// tail returns the last n lines of text that are not blank.
func tail(text string, n int) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n\r "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-n):]
}
