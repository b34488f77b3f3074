package commands

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

// printTables prints the fleet's clusters and bundles. If the fleet has several managers, a
// column names the manager of each row.
func printTables(out io.Writer, s fleet.Snapshot) error {
	several := len(s.Managers()) > 1
	cells := func(manager string, more ...string) []string {
		if several {
			return append([]string{manager}, more...)
		}
		return more
	}
	var rows [][]string
	for _, c := range s.Clusters {
		rows = append(rows, cells(c.Manager, c.Workspace, c.Name, fleet.LabelText(c.Labels), count(c), c.State))
	}
	if err := printTable(out, cells("MANAGER", "WORKSPACE", "CLUSTER", "LABELS", "BUNDLES", "STATE"), rows); err != nil {
		return err
	}
	if len(s.Bundles) == 0 {
		return nil
	}
	rows = nil
	for _, b := range s.Bundles {
		rows = append(rows, cells(b.Manager, b.Workspace, b.Name, count(b), b.State))
	}
	fmt.Fprintln(out)
	return printTable(out, cells("MANAGER", "WORKSPACE", "BUNDLE", "CLUSTERS", "STATE"), rows)
}

func count(r fleet.Row) string { return fmt.Sprintf("%d/%d", r.Ready, r.Desired) }

func printTable(out io.Writer, head []string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}
