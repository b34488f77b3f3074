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
)

// root is the top of the repository, as seen from this package.
const root = "../.."

// states are the words of the README's status tables.
var states = []string{"works", "partly", "not yet"}

// README's status table names every kind of the API. There is none that nothing acts on.
func TestKindsInReadme(t *testing.T) {
	listed := table(t, "kind")
	var want, got []string
	for _, info := range fleet.Kinds() {
		want = append(want, info.Kind)
	}
	for kind, state := range listed {
		got = append(got, kind)
		if state == "not yet" {
			t.Errorf("the README says %q of %s", state, kind)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds of the API and of the README\n-API +README\n%s", diff)
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
	fleet, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), fleet, "__complete", "").Output()
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

// notInAnchor is what a heading's anchor leaves out.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchors are the names of the headings of a Markdown file in links, as GitHub
// makes them.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	code := false
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		text, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if code || !isHeading || !strings.HasPrefix(line, "#") {
			continue
		}
		name := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
		out = append(out, name)
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every link in a Markdown file to another file of the repository, or to a heading
// of a Markdown file, leads somewhere.
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
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: link to %s: %v", path, target, err)
			} else if anchor != "" && filepath.Ext(file) == ".md" && !slices.Contains(anchors(t, file), anchor) {
				t.Errorf("%s: link to %s: %s has no such heading", path, found[1], file)
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

// README says of each kind that works partly what is left out.
func TestPartlyInReadme(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for kind, state := range table(t, "kind") {
		_, _, found := strings.Cut(string(data), "\n* "+kind+": ")
		if found != (state == "partly") {
			t.Errorf("README says %q of %s, and that it leaves something out: %v", state, kind, found)
		}
	}
}

// README leads to every page of docs, below five headings.
func TestPagesInReadme(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, further, _ := strings.Cut(text, "\n## Further\n")
	further, _, _ = strings.Cut(further, "\n## ")
	if n := strings.Count(further, "\n### "); n != 5 {
		t.Errorf("Further has %d headings", n)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, path := range pages {
		if !strings.Contains(text, "](docs/"+filepath.Base(path)) {
			t.Errorf("README has no link to docs/%s", filepath.Base(path))
		}
	}
}

// docs/glossary.md explains each term once, in order.
func TestGlossary(t *testing.T) {
	var terms []string
	for _, row := range rows(t, page(t, "glossary.md"), "# Glossary") {
		if len(row) != 2 || row[1] == "" {
			t.Errorf("row %q", row)
		}
		terms = append(terms, strings.ToLower(row[0]))
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(terms))); !slices.Equal(sorted, terms) {
		t.Errorf("terms are not in order, or twice:\n%s", cmp.Diff(sorted, terms))
	}
}
