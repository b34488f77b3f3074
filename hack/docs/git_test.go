package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// docs/git.md has a row for each field of the spec of a GitRepo, and says "not
// yet" of exactly those that nothing acts on.
func TestGitRepoFields(t *testing.T) {
	var got, notYet []string
	for _, row := range rows(t, page(t, "git.md"), "## All fields") {
		name := strings.Trim(row[0], "`")
		got = append(got, name)
		if strings.HasPrefix(row[len(row)-1], "not yet") {
			notYet = append(notYet, name)
		}
	}
	var want []string
	for f := range reflect.TypeFor[fleet.GitRepoSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	slices.Sort(notYet)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of GitRepo.spec and of docs/git.md\n-API +page\n%s", diff)
	}
	if len(notYet) > 0 {
		t.Errorf("every field works, and the page says of %v that it does not", notYet)
	}
}

// docs/git.md has each reason why a repository cannot be read.
func TestGitReasons(t *testing.T) {
	code, err := os.ReadFile(filepath.Join(root, "pkg/git/errors.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tReason\w+ += "(\w+)"`).FindAllStringSubmatch(string(code), -1)
	if len(found) == 0 {
		t.Fatal("pkg/git/errors.go has no reasons")
	}
	text := page(t, "git.md")
	for _, reason := range found {
		if !strings.Contains(text, "`"+reason[1]+"`") {
			t.Errorf("docs/git.md does not explain the reason %s", reason[1])
		}
	}
}

// rows are the cells of the tables in the section of a heading, without the
// heads of the tables.
func rows(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, section, ok := strings.Cut("\n"+text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no heading %q", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+level+" ")
	var out [][]string
	body := false
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			body = false
		case strings.HasPrefix(line, "|---"):
			body = true
		case body:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out = append(out, cells)
		}
	}
	if len(out) == 0 {
		t.Fatalf("the section %q has no table", heading)
	}
	return out
}
