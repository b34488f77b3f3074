package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTranscripts plays each file of testdata/transcripts: commands begin with
// "$ ", what follows is what they print. Lines of stderr begin with "! ", and
// an exit code other than 0 stands alone at the end. Lines that begin with "#"
// say for the commands after them which fleet they look at, how wide the
// terminal is, what may not be listed, at which address the server is (and which
// part of the way to it fails, and how), in which directory they work, that the
// cluster is without the manager, the kinds of Fleet or HelmOps, or which other contexts the
// kubeconfig has. A
// command may end with "< FILE". Run with -update after a change, and
// read the diff.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			path, err := filepath.Abs(path) // a transcript may change the directory
			if err != nil {
				t.Fatal(err)
			}
			playWith(t, path, nil)
		})
	}
}

// playWith plays a transcript, in a fleet that it may name itself.
func playWith(t *testing.T, path string, f *fake) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	st := stage{fake: f}
	got := st.play(t, string(want))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// directive matches the lines beginning with "#" that are not comments in
// output.
var directive = regexp.MustCompile(`^# (fleet|width|refuse|again|in|server|without|contexts):`)

// stage is what the commands of a transcript find.
type stage struct {
	fake    *fake
	path    string
	columns int
	limit   time.Duration // of a command; 0: none
	colors  bool          // the terminal has them
}

// play runs the commands of a transcript and returns it with what they print.
func play(t *testing.T, script string) string {
	t.Helper()
	return (&stage{}).play(t, script)
}

func (st *stage) play(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	skip := false // output of the command before
	for _, line := range strings.SplitAfter(script, "\n") {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case directive.MatchString(line):
			if skip {
				out.WriteString("\n")
			}
			skip = false
			out.WriteString(line)
			st.set(t, strings.Fields(text)[1:])
		case strings.HasPrefix(line, "$ "):
			if skip {
				out.WriteString("\n")
			}
			skip = true
			out.WriteString(line)
			out.WriteString(st.run(t, words(strings.TrimPrefix(text, "$ fleet "))))
		case !skip:
			out.WriteString(line)
		}
	}
	return out.String()
}

func (st *stage) set(t *testing.T, words []string) {
	t.Helper()
	if len(words) < 2 {
		return
	}
	switch words[0] {
	case "fleet:":
		st.path = filepath.Join("testdata", "fleets", words[1])
		st.fake = newFake(t, st.path)
	case "width:":
		st.columns, _ = strconv.Atoi(words[1])
	case "refuse:":
		st.fake.refuse[strings.Join(append(words[1:], ""), " ")] = true
		st.fake.refuse[strings.Join(words[1:], " ")] = true
	case "without:":
		st.fake.without(words[1])
	case "contexts:":
		st.fake.others = words[1:]
	case "in:":
		t.Chdir(words[1])
	case "server:":
		st.fake.url, st.fake.failed = words[1], nil
		if len(words) > 3 {
			st.fake.failed = &diagnose.ConnectionStep{Part: words[2], Text: strings.Join(words[3:], " ")}
		}
	case "again:":
		st.fake = newFake(t, st.path)
	}
}

// globals reach the stage instead of the user's own environment. end is called
// when a scenario is over.
func (st *stage) globals(end func()) *client.Globals {
	g := &client.Globals{DefaultNamespace: fleet.NamespaceLocal, Plain: !st.colors, Random: func(n int) string { return strings.Repeat("0b", n) }}
	if st.fake == nil {
		g.Dial = func(printer.Stdio) (client.Access, error) {
			return client.Access{}, errors.New("no kubeconfig: set KUBECONFIG, or use --kubeconfig FILE")
		}
		return g
	}
	st.fake.end = end
	g.Now = st.fake.clock.now
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: st.fake, Server: st.fake.address(), User: "ana", Contexts: st.fake.others}, nil
	}
	g.Probe = func(context.Context, client.Access) diagnose.ServerSeen { return st.fake.answer() }
	g.Visit = func(context.Context, string, []byte) *diagnose.ConnectionStep { return nil }
	return g
}

// run runs one command and returns what it prints.
func (st *stage) run(t *testing.T, args []string) string {
	t.Helper()
	var out strings.Builder
	in := ""
	if n := len(args); n > 2 && args[n-2] == "<" {
		data, err := os.ReadFile(args[n-1])
		if err != nil {
			t.Fatal(err)
		}
		in, args = string(data), args[:n-2]
	}
	std := printer.Stdio{In: strings.NewReader(in), Out: &out, Err: marked{&out}, Columns: st.columns}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if st.limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, st.limit)
		defer cancel()
	}
	over := func() error { return context.DeadlineExceeded } // the time of a wait is over
	if args[0] == "status" {
		over = func() error { cancel(); return context.Canceled } // Ctrl-C
	}
	g := st.globals(cancel)
	g.Watch = func(_ context.Context, s *client.Session, of client.Selection) (client.FleetWatch, error) {
		return &played{f: st.fake, s: s, of: of, over: over}, nil
	}
	root := command(g, std)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if code := reportEnd(g, cmd, std, client.CommandEnd{Err: err}, func(string) string { return "" }); code != 0 {
		fmt.Fprintln(&out, code)
	}
	return out.String()
}

// marked puts a mark before each line.
type marked struct{ to *strings.Builder }

func (m marked) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		m.to.WriteString(strings.TrimRight("! "+line, " \n") + "\n")
	}
	return len(p), nil
}

// words splits a command line; single quotes hold words together.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun || word.Len() > 0 {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
		}
	}
	if begun || word.Len() > 0 {
		out = append(out, word.String())
	}
	return out
}
