package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

var (
	reasonConst = regexp.MustCompile(`Reason\w+ += "(\w+)"`)
	quoted      = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// The table of failures in docs/cli/explain.md gives each reason the state that
// the agent reports, and names all reasons that are NotReady.
func TestStatesOfFailures(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "pkg/plan/release/reasons.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(page(t, "cli/explain.md"), "\n## The state of a failure\n")
	text, _, _ = strings.Cut(text, "\n## ")
	if !found {
		t.Fatal("docs/cli/explain.md has no section about the states of failures")
	}
	states := map[string]string{}
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.Contains(cells[1], "`") {
			state := quoted.FindStringSubmatch(cells[2])
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				states[m[1]] = state[1]
			}
		}
	}
	for _, m := range reasonConst.FindAllStringSubmatch(string(source), -1) {
		reason := m[1]
		if release.Recorded(reason) != (states[reason] == "NotReady") {
			t.Errorf("docs/cli/explain.md: state %q of %s; counts as applied: %v", states[reason], reason, release.Recorded(reason))
		}
	}
}
