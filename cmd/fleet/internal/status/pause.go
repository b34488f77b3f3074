package status

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// paused prints what users hold back: since when, who and why.
func (o Options) paused(s *client.Session, rows []view.PausedObject, names rowNames) {
	more := 0
	if !o.Output.IsWide() && len(rows) > client.MaxPaused {
		more = len(rows) - client.MaxPaused
		rows = rows[:client.MaxPaused]
	}
	t := printer.Table{Out: s.Std.Out, Columns: []printer.Column{{Title: "PAUSED"}, {Title: "SINCE"}, {Title: "BY"}, {Title: "REASON"}}}
	if !o.Output.IsWide() {
		t.Width = s.Std.Width()
	}
	var cells [][]string
	for _, p := range rows {
		since := ""
		if p.Since != nil {
			since = view.Ago(*p.Since, s.Now())
		}
		cells = append(cells, []string{"  " + names.text(p.Label(), p.Name), printer.OrDash(since), printer.OrDash(p.By), p.ReasonText()})
	}
	t.Print(cells, false)
	if more > 0 {
		printer.Fprintf(s.Std.Out, "  and %d more: fleet status -o wide\n", more)
	}
}
