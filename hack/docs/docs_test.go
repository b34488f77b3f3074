package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
)

// root is the top of the repository, as seen from this package.
const root = "../.."

// states are the words of the README's status tables.
var states = []string{"works", "partly", "not yet"}

// README's status table names every kind of the API, and says "not yet" of
// exactly those that nothing acts on.
func TestKindsInReadme(t *testing.T) {
	listed := table(t, "kind")
	var want, got []string
	for _, info := range fleet.Kinds() {
		want = append(want, info.Kind)
	}
	var notYet []string
	for kind, state := range listed {
		got = append(got, kind)
		if state == "not yet" {
			notYet = append(notYet, kind)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	slices.Sort(notYet)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds of the API and of the README\n-API +README\n%s", diff)
	}
	if diff := cmp.Diff(support.Kinds(), notYet); diff != "" {
		t.Errorf("kinds that nothing acts on\n-code +README\n%s", diff)
	}
}

// README's status table names every command that there is.
func TestCommandsInReadme(t *testing.T) {
	var got []string
	for command, state := range table(t, "command") {
		if state != "not yet" {
			got = append(got, strings.TrimPrefix(command, "fleet "))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(commands(t), got); diff != "" {
		t.Errorf("commands of fleet and of the README\n-code +README\n%s", diff)
	}
}

// commands asks fleet itself for its commands, as a shell's completion does.
func commands(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/fleet", "__complete", "")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask fleet for its commands: %v\n%s", err, out)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if ok && name != "help" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// table reads the README's table with this first heading: from its first
// column to its second.
func table(t *testing.T, heading string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	inside := false
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 || !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		name, state := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])
		switch {
		case name == heading && state == "state":
			inside = true
		case !inside || strings.HasPrefix(name, "---"):
		case !slices.Contains(states, state):
			t.Errorf("README says %q of %s; there are %q", state, name, states)
		case rows[name] != "":
			t.Errorf("README lists %s twice", name)
		default:
			rows[name] = state
		}
	}
	if len(rows) == 0 {
		t.Fatalf("README has no table of each %s and its state", heading)
	}
	return rows
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every link in a Markdown file to another file of the repository leads
// somewhere.
func TestLinks(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(string(data), -1) {
			target, _, _ := strings.Cut(found[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s: link to %s: %v", path, target, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Error("no link found: the test looks in the wrong place")
	}
}
