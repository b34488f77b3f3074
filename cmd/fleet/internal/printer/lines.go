package printer

import (
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// PrintLines prints what happened, with the time since the command began.
func PrintLines(out interface{ Write([]byte) (int, error) }, prefix string, lines []view.EventLine, elapsed time.Duration) {
	for _, l := range lines {
		Say(out, "%s  %-6s  %s%s\n", view.Elapsed(elapsed), l.Word, prefix, l.Text)
	}
}
