package rancher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// TestRulesNameTheirPlaces: a rule of this Rancher follows a place in the specification,
// and the page about Rancher's behaviour says where Rancher has it.
func TestRulesNameTheirPlaces(t *testing.T) {
	root, err := source.Root()
	check(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference-behaviour.md"))
	check(t, err)
	place := regexp.MustCompile(`^rancher-(integration|differences)\.md, (\d(\.\d+)+|[A-D]\b)`)
	for _, r := range table {
		if !place.MatchString(r.follows) {
			t.Errorf("rule %s follows %q, which is no place in the specification", r.id, r.follows)
		}
		if !strings.Contains(string(page), "| `"+r.id+"` |") {
			t.Errorf("docs/reference-behaviour.md does not say where Rancher has rule %s", r.id)
		}
	}
}
