package get

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// The message of clusters is shown without -o wide where an agent cannot work: its
// state alone does not say why.
func TestClusterInTroubleShowsItsMessage(t *testing.T) {
	for why, c := range map[string]struct {
		trouble string
		want    bool
	}{
		"nothing is wrong":      {"", false},
		"the agent cannot work": {"no rights", true},
	} {
		o := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"agent": map[string]any{"trouble": c.trouble}}}}
		columns := []printer.Column{{Title: "NAME"}, {Title: "MESSAGE", Wide: true}}
		opts := Options{All: true}
		e := tableEntry{object: &o, row: row{cells: []string{"c1", c.trouble}}}
		var out bytes.Buffer
		s := &client.Session{Std: printer.Stdio{Out: &out}}
		table, show := opts.tableOf(columns, []tableEntry{e}, s)
		table.Print([][]string{show(e.row)}, false)
		if got := strings.Contains(out.String(), "MESSAGE"); got != c.want {
			t.Errorf("%s: got %q", why, out.String())
		}
	}
}
