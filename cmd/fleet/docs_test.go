package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/approve"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/bundlediff"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/check"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cleanup"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/deletion"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/deploy"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/dryrun"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/explain"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/lint"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/logs"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/status"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/suspend"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/takeover"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/target"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/wait"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/workspace"
	"github.com/fleetworkspace/fleet/hack/docs/schema"
)

// documents are all that commands print as documents of their own.
var documents = []any{status.FleetStatus{}, wait.WaitResult{}, suspend.Suspension{}, approve.DeletionApproval{}, deletion.Deletion{}, Version{}, dryrun.Rendering{}, target.Targeting{}, deploy.Deployed{}, lint.LintReport{}, explain.Explanation{}, explain.BundleExplanation{}, logs.AgentLog{}, bundlediff.BundleDiff{}, check.CheckReport{}, check.LimitsReport{}, cluster.AgentRollout{}, workspace.WorkspaceList{}, takeover.TakeoverReport{}, takeover.TakeoverMove{}, cleanup.CleanupReport{}, client.Error{}}

const docs = "../../docs/cli"

// The JSON schemas in docs/cli are those of the documents' types, with the
// comments of their fields. Run with -update after a change; fields are only
// ever added.
func TestSchemas(t *testing.T) {
	dirs, err := filepath.Glob("internal/*")
	if err != nil {
		t.Fatal(err)
	}
	comments, err := schema.Read(append(dirs, ".", "../../pkg/plan/view", "../../pkg/plan/journal")...)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range documents {
		typ := reflect.TypeOf(doc)
		t.Run(typ.Name(), func(t *testing.T) {
			if !strings.Contains(string(page), "("+typ.Name()+".schema.json)") {
				t.Errorf("docs/cli/README.md does not list kind %s", typ.Name())
			}
			text, err := comments.Document(typ, printer.DocumentVersion)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join(docs, typ.Name()+".schema.json"), text)
		})
	}
}

// Every document in the transcripts has only fields that its type, and so its
// schema, knows.
func TestDocumentsInTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(data), "\n{\n")[1:] {
			text, _, _ := strings.Cut("{"+block, "\n}\n")
			text += "\n}"
			var head printer.Document
			if err := json.Unmarshal([]byte(text), &head); err != nil || head.APIVersion != printer.DocumentVersion {
				continue
			}
			for _, doc := range documents {
				typ := reflect.TypeOf(doc)
				if typ.Name() != head.Kind {
					continue
				}
				seen[head.Kind] = true
				decode := json.NewDecoder(strings.NewReader(text))
				decode.DisallowUnknownFields()
				if err := decode.Decode(reflect.New(typ).Interface()); err != nil {
					t.Errorf("%s: %s: %v", path, head.Kind, err)
				}
			}
		}
	}
	for _, kind := range []string{"FleetStatus", "WaitResult", "Suspension", "Explanation", "BundleExplanation"} {
		if !seen[kind] {
			t.Errorf("no transcript shows a %s", kind)
		}
	}
}

// console is a block of a page that is played like a transcript: in the examples,
// among the trees of the transcripts, or with one of their fleets.
var console = regexp.MustCompile("(?s)```console( trees| fleet=[a-z]+)?\n(.*?)```")

// What pages of docs/cli show is what the commands print. Run with -update after
// a change, and read the diff.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			got := console.ReplaceAllStringFunc(string(data), func(block string) string {
				played++
				parts := console.FindStringSubmatch(block)
				text := ""
				if name, ok := strings.CutPrefix(parts[1], " fleet="); ok {
					begin := "# fleet: " + name + ".yaml\n"
					t.Run("block", func(t *testing.T) { text = strings.TrimPrefix(play(t, begin+parts[2]), begin) })
					return "```console" + parts[1] + "\n" + text + "```"
				}
				dir := "../../examples"
				if parts[1] != "" {
					dir = "testdata/trees"
				}
				t.Run("block", func(t *testing.T) { t.Chdir(dir); text = play(t, parts[2]) })
				return "```console" + parts[1] + "\n" + text + "```"
			})
			golden(t, page, got)
		})
	}
	if played == 0 {
		t.Error("no page has a block to play")
	}
}

// docs/cli/reference.md is what --help says. Run with -update after a change.
func TestReference(t *testing.T) {
	var out bytes.Buffer
	root := newRootCommand(printer.Stdio{Out: io.Discard, Err: io.Discard})
	out.WriteString("# Commands\n\nThis is what `fleet COMMAND --help` says; a test keeps it so.\n\n## fleet\n\n" + rootText + "\n\nFlags of all commands:\n\n")
	flags(&out, root.PersistentFlags())
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		reference(&out, c)
	}
	golden(t, filepath.Join(docs, "reference.md"), out.String())
}

func reference(out io.Writer, c *cobra.Command) {
	if c.Hidden {
		return
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(out, "\n## %s\n\n```text\n%s\n```\n\n%s\n\n", c.CommandPath(), c.UseLine(), text)
	if c.Example != "" {
		fmt.Fprintf(out, "```text\n%s\n```\n\n", strings.TrimRight(c.Example, "\n"))
	}
	own := false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { own = own || f.Name != "help" })
	if own || !c.HasSubCommands() {
		flags(out, c.LocalFlags())
	}
	for _, sub := range c.Commands() {
		reference(out, sub)
	}
}

func flags(out io.Writer, fs *pflag.FlagSet) {
	fmt.Fprint(out, "| flag | meaning |\n|---|---|\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		placeholder, usage := pflag.UnquoteUsage(f)
		name := "`--" + f.Name
		if placeholder != "" {
			name += " " + placeholder
		}
		name += "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(out, "| %s | %s |\n", name, strings.ReplaceAll(usage, "|", "\\|"))
	})
}

// golden compares with a file, or rewrites it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}
