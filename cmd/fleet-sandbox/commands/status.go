package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newStatus(std stdio, at locate) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say what runs, and how the fleet is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: want json", output)
			}
			return runStatus(cmd.Context(), p, output == "json", std)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json: print one document")
	return cmd
}

// runStatus prints the tables of the running sandbox, or that none runs.
func runStatus(ctx context.Context, p place, asJSON bool, std stdio) error {
	r, err := p.read()
	if errors.Is(err, errNoSandbox) && !asJSON {
		fmt.Fprintln(std.out, "nothing is running")
		return nil
	}
	if err != nil {
		return err
	}
	a, err := r.ask(ctx, request{Verb: "status"})
	if err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(std.out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(a.Document)
	}
	d := a.Document
	fmt.Fprintf(std.err, "%s since %s (pid %d), %d processes, %d MiB in %s\n", d.State, age(time.Since(r.Since)), r.PID, d.Processes, sizeBytes(p.Run)>>20, short(p.Run))
	if d.Repository != nil {
		fmt.Fprintf(std.err, "repository %s, %s\n", d.Repository.URL, d.Repository.Branch)
	}
	for _, line := range d.Faults {
		fmt.Fprintln(std.err, line)
	}
	if len(a.Snapshot.Clusters) == 0 {
		return nil
	}
	fmt.Fprintln(std.err)
	return printTables(std.out, *a.Snapshot)
}

// age writes a duration as screens do: 41s, 6m, 3h, 19d.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
