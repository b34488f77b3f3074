package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/hack/docs/schema"
	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// now is when the overviews of the tests are looked at; the clock of a person is
// that of UTC there.
var now = time.Date(2026, 8, 24, 14, 8, 21, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// overviews are agents in the situations that the documentation shows.
func overviews() map[string]agent.Overview {
	started := journal.Entry{At: ago(3 * time.Hour), First: ago(3 * time.Hour), Times: 1, Verb: "start", Message: "fleet-agent/v0.1.0"}
	installed := func(name string, d time.Duration) journal.Entry {
		return journal.Entry{At: ago(d), First: ago(d), Times: 1, Deployment: name, Verb: "install", Reason: "New", Message: name + "/" + name + " at 8b7d410"}
	}
	away := journal.Entry{
		At: ago(6 * time.Minute), First: ago(6 * time.Minute), Times: 1, Verb: "note", Reason: "ManagerAway",
		Message: "the manager at https://127.0.0.1:31001 is away: connection refused. Everything that runs is kept.",
	}
	corrected := journal.Entry{
		At: ago(5 * time.Minute), First: ago(5*time.Minute + 40*time.Second), Times: 3, Deployment: "examples-web", Verb: "correct", Reason: "Modified",
		Message: "Deployment web/web /spec/replicas",
	}
	rows := []agent.Row{
		{Bundle: "examples-metrics", Commit: "8b7d4101234", LiveStatus: drift.LiveStatus{State: fleet.Ready, Since: ago(16 * time.Minute)}},
		{Bundle: "examples-web", Commit: "8b7d4101234", LiveStatus: drift.LiveStatus{State: fleet.Ready, Since: ago(5 * time.Minute), Corrected: true}, Alone: &corrected},
		{Bundle: "old", LiveStatus: drift.LiveStatus{State: fleet.NotReady, Since: ago(72 * time.Hour), Message: "deployment.apps old/x [progressing] Available: 0/1"}},
	}
	return map[string]agent.Overview{
		"reached": {
			Registered: true, Reached: true, Cluster: "fleet-default/c2", URL: "https://127.0.0.1:31001", Since: ago(2 * time.Hour), Rows: rows[:1],
			Accepted: ago(16 * time.Minute), KeptBytes: 13 << 10, Journal: []journal.Entry{started, installed("examples-metrics", 16*time.Minute)},
		},
		"alone": {
			Registered: true, Cluster: "fleet-default/c2", URL: "https://127.0.0.1:31001", Since: ago(6 * time.Minute), Rows: rows,
			Error:    `check in: patch cluster "fleet-default/c2": Patch "https://127.0.0.1:31001/apis": dial tcp 127.0.0.1:31001: connect: connection refused`,
			Accepted: ago(16 * time.Minute), KeptBytes: 41<<10 - 7,
			Journal: []journal.Entry{started, installed("examples-metrics", 16*time.Minute), installed("examples-web", 16*time.Minute), away, corrected},
		},
		"refused": {
			Registered: true, Refused: true, URL: "https://fleet.example", Since: ago(30 * time.Second), Rows: rows[:1],
			Error: "Unauthorized", Hint: "to join again: helm upgrade fleet-agent -n cattle-fleet-system with the values of a new registration token",
			Accepted: ago(16 * time.Minute), KeptBytes: 1,
		},
		"scheduled": {
			Registered: true, Reached: true, Cluster: "fleet-default/ship-9", URL: "https://fleet.example", Since: ago(40 * time.Hour), Rows: rows[:1],
			Accepted: ago(12 * time.Hour), KeptBytes: 13 << 10, Next: ago(-12 * time.Hour),
		},
		"unregistered": {},
	}
}

func TestStatus(t *testing.T) {
	inUTC(t)
	for name, o := range overviews() {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join("testdata", "TestStatus", name+".golden"), statusOf(t, o, ""))
		})
	}
	t.Run("json", func(t *testing.T) {
		golden(t, filepath.Join("testdata", "TestStatus", "alone.json.golden"), statusOf(t, overviews()["alone"], formatJSON))
	})
}

// inUTC makes the clock of the person who looks that of UTC.
func inUTC(t *testing.T) {
	t.Helper()
	before := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = before })
}

func statusOf(t *testing.T, o agent.Overview, format string) string {
	t.Helper()
	var out bytes.Buffer
	if err := (statusOptions{output: format, lines: 10}).print(&out, o, now); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestExitCode(t *testing.T) {
	want := map[string]error{"reached": nil, "scheduled": nil, "alone": errNotReady, "refused": errNotReady, "unregistered": errNotReady}
	for name, o := range overviews() {
		if err := (statusOptions{exitCode: true}).print(io.Discard, o, now); !errors.Is(err, want[name]) {
			t.Errorf("%s: want %v, got %v", name, want[name], err)
		}
	}
}

// What the documentation shows is what the command prints. A block begins with
// "```console agent=NAME".
func TestStatusInDocs(t *testing.T) {
	inUTC(t)
	path := filepath.Join("..", "..", "docs", "cli", "fleet-agent.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const fence, command = "```console agent=", "$ fleet-agent status\n"
	parts := strings.Split(string(data), fence)
	for i, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		_, after, ok := strings.Cut(rest, "```")
		o, known := overviews()[name]
		if !ok || !known {
			t.Fatalf("%s: block %q does not end, or is of no agent", path, name)
		}
		parts[i+1] = name + "\n" + command + statusOf(t, o, "") + "```" + after
	}
	if len(parts) < 3 {
		t.Errorf("%s shows too little", path)
	}
	golden(t, path, strings.Join(parts, fence))
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string // piece of the error
	}{
		"Interval": {[]string{"--checkin-interval=1ms"}, "checkin-interval"},
		"Workers":  {[]string{"--workers=0"}, "workers"},
		"Unknown":  {[]string{"--nothing"}, "unknown flag"},
		"Format":   {[]string{"status", "-o", "xml"}, "no output format"},
		"Lines":    {[]string{"status", "--lines=-1"}, "--lines"},
		"Config":   {[]string{"--kubeconfig=/does/not/exist"}, "connect to this cluster"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			cmd := command(func(string) string { return "" }, &out, &errOut)
			cmd.SetArgs(c.args)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	if got := identity(func(string) string { return "uid-1" }); got != "uid-1" {
		t.Errorf("want the pod's UID, got %q", got)
	}
	if identity(func(string) string { return "" }) == "" {
		t.Error("a holder needs a name")
	}
}

// The JSON schema in docs/cli is that of what status prints. Run with -update after a
// change; fields are only ever added.
func TestSchema(t *testing.T) {
	comments, err := schema.Read(".", "../../pkg/plan/journal")
	if err != nil {
		t.Fatal(err)
	}
	text, err := comments.Document(reflect.TypeFor[AgentStatus](), documentVersion)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "docs", "cli", "AgentStatus.schema.json"), text)
}

// fill puts a text into all texts of a value.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	}
}

// No text of an object writes a control or format character, or begins a line.
func TestStatusIsPrintable(t *testing.T) {
	hostile := "x\x1b[2J\a\r\x1b]52;c;aGk=\a\u202e\u200b\u2028\nFORGED"
	for _, registered := range []bool{true, false} {
		for _, reached := range []bool{true, false} {
			var o agent.Overview
			fill(reflect.ValueOf(&o).Elem(), hostile)
			o.Registered, o.Reached = registered, reached
			for _, format := range []string{"", formatJSON, formatYAML} {
				var out bytes.Buffer
				if err := (statusOptions{output: format, lines: 10}).print(&out, o, now); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(out.String()) {
					if strings.ContainsAny(line, "\x1b\a\r\u202e\u200b\u2028") || strings.HasPrefix(line, "FORGED") {
						t.Errorf("%q: %q", format, line)
					}
				}
			}
		}
	}
}
