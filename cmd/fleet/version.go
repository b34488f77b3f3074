package main

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var versionFormats = []string{printer.FormatJSON, printer.FormatYAML}

// versionTimeout is how long the manager may take to say who it is.
const versionTimeout = 5 * time.Second

func newVersionCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o printer.Output
	cmd := &cobra.Command{
		Use: "version", Short: "Show the versions of this program and of the manager", Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(versionFormats...); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), versionTimeout)
			defer cancel()
			s, err := g.Connect(ctx, std, true)
			return runVersion(ctx, o, std, s, err)
		},
	}
	o.AddFlag(cmd.Flags(), versionFormats...)
	return cmd
}

// runVersion prints versions. A manager that cannot be asked, with why as the
// reason, is no failure.
func runVersion(ctx context.Context, o printer.Output, std printer.Stdio, s *client.Session, why error) error {
	doc := Version{Document: printer.NewDocument("Version"), Client: ClientVersion{
		Version: version.Version, Commit: version.Commit, Implementation: version.Implementation,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	now := time.Now()
	if why == nil {
		now, doc.Server = s.Now(), s.Server
		m, err := s.Manager(ctx)
		if err == nil {
			doc.Manager = &m
			err = s.Warn(ctx)
		}
		why = err
	}
	if why != nil {
		doc.Error = why.Error()
	}
	if o.IsMachineReadable() {
		return o.Print(std, doc, false)
	}
	printer.Fprintf(std.Out, "client   %s (%s)\n", doc.Client.Version, doc.Client.Commit)
	switch {
	case doc.Manager == nil:
		std.Note("manager  not asked: %s", doc.Error)
	case doc.Manager.Text(now) == "" && doc.Manager.Hidden:
		std.Note("manager  not known: this user may not read what is of the manager in %s at %s", s.System, doc.Server)
	case doc.Manager.Text(now) == "":
		std.Note("manager  none to be seen at %s", doc.Server)
		s.NoteManager(ctx, *doc.Manager)
	default:
		printer.Fprintf(std.Out, "%-8s %s\n", "manager", managerLine(doc, now))
	}
	return nil
}

func managerLine(doc Version, now time.Time) string {
	text := doc.Manager.Text(now)[len("manager"):]
	return text[1:] + ", at " + doc.Server
}

// Version is what fleet version prints.
type Version struct {
	printer.Document
	// Client is this program.
	Client ClientVersion `json:"client"`
	// Server is the address of the API server that was asked.
	Server string `json:"server,omitempty"`
	// Manager is the manager there; left out where it could not be asked.
	Manager *view.Manager `json:"manager,omitempty"`
	// Error is why it could not be asked.
	Error string `json:"error,omitempty"`
}

// ClientVersion is which build of the command line this is.
type ClientVersion struct {
	// Version of the release.
	Version string `json:"version"`
	// Commit it was built from.
	Commit string `json:"commit"`
	// Implementation tells implementations of the same API apart.
	Implementation string `json:"implementation"`
	// Go is the version of Go it was built with.
	Go string `json:"go"`
	// Platform is operating system and architecture.
	Platform string `json:"platform"`
}
