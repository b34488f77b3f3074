package sources

import (
	"fmt"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// ReportFindings says what was found, and fails if any of it is an error, or with
// strict anything at all.
func ReportFindings(std printer.Stdio, set bundle.Set, strict, printing bool) error {
	n := ReportFound(std, set.AllFindings(), strict)
	if n == 0 {
		return nil
	}
	done := "written or removed"
	if printing {
		done = "printed"
	}
	return fmt.Errorf("%w: %s, nothing is %s", cli.ErrInput, printer.Plural(n, "error"), done)
}

// ReportFound says what was found, and returns how much of it is an error: with strict all
// of it.
func ReportFound(std printer.Stdio, found []finding.Finding, strict bool) int {
	n := 0
	for _, f := range found {
		if strict {
			f.Severity = finding.Error
		}
		if f.Severity == finding.Error {
			n++
		}
		ReportFinding(std, f)
	}
	return n
}

// ReportFinding says one thing that is wrong, and what would help.
func ReportFinding(std printer.Stdio, f finding.Finding) {
	std.Note("%s", f)
	if f.Hint != "" {
		std.Note("    %s", f.Hint)
	}
}
