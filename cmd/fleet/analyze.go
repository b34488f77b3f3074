package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/monitor"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const analyzeText = `Reads snapshots of fleet monitor from a file or stdin, and shows the last one: how many objects there are, what could not be read, and each fault with
its objects. It also reads those of rancher/fleet; their diagnostics are shown as they are. It sends no request.

Exit codes: 0 the snapshots are shown, whatever they say; 4 a line is no snapshot, is longer than 10 MiB, or --diff has less than two; 1 other failures.`

func newAnalyzeCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := monitor.AnalyzeOptions{File: "-"}
	plain := false
	cmd := &cobra.Command{
		Use: "analyze [FILE]", Short: "Show and compare snapshots of fleet monitor", Long: analyzeText, Args: cobra.MaximumNArgs(1),
		Example: "  fleet monitor | fleet analyze --issues\n  fleet analyze --diff fleet.jsonl\n  fleet analyze --compare before.json after.json",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.File = args[0]
			}
			if plain {
				g.Color = printer.ColorNever
			}
			return monitor.Analyze(o, std)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.All, "all", false, "show each snapshot, not only the last one")
	fs.BoolVar(&o.Diff, "diff", false, "show what changes from each snapshot to the next one")
	fs.BoolVar(&o.Issues, "issues", false, "only faults, and what could not be read")
	fs.BoolVar(&o.Detailed, "detailed", false, "all objects of each fault, and events")
	fs.BoolVar(&o.JSON, "json", false, "print one document: snapshotCount, latest, all")
	fs.StringVar(&o.Compare, "compare", "", "show what changes from the last snapshot of this `file` to that of FILE")
	fs.BoolVar(&plain, "no-color", false, "no colours, as --color=never")
	return cmd
}
