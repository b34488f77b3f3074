package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// reportEnd reports the error that ended a command: as text on stderr, and where the
// command was to print a document and has printed nothing, as a document on stdout.
// It returns the exit code.
func reportEnd(g *client.Globals, cmd *cobra.Command, std printer.Stdio, end client.CommandEnd, env func(string) string) int {
	err, code := end.Err, cli.ExitCode(end.Err, end.Interrupted)
	if err == nil || end.Interrupted || errors.As(err, new(cli.Reported)) {
		return code
	}
	client.ReportError(std.Err, err, env)
	if o := client.DocumentFormat(cmd); o != "" && !g.Answered {
		_ = o.Encode(printer.Guard(std, &g.Answered, g.Colored).Out, client.Failure(cmd, err, code, g.Ran), client.PrintsContinuously(cmd)) // there is no one left to say it to
	}
	return code
}
