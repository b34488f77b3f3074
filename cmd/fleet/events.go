package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/events"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const eventsText = `Shows what happened to objects of Fleet, oldest first: all of them, or one.

-o json prints the Kubernetes events as a List.`

func newEventsCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o events.Options
	cmd := &cobra.Command{
		Use: "events [KIND/NAME]", Short: "Show what happened", Long: eventsText,
		ValidArgsFunction: g.CompleteObjects(std, events.Grammar()),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Output.Check(events.Formats...); err != nil {
				return err
			}
			if len(args) > 0 {
				ref, err := events.Grammar().ParseOne(args)
				if err != nil {
					return err
				}
				o.Kind, o.Name = ref.Kind, ref.Name
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return events.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, events.Formats...)
	fs.BoolVarP(&o.Watch, "watch", "w", false, "then show every new one")
	fs.BoolVar(&o.Bare, "no-headers", false, "no titles")
	return cmd
}
