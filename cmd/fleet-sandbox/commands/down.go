package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newDown(std stdio, at locate) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the sandbox and remove everything but the build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			return runDown(cmd.Context(), p, std.out)
		},
	}
}

// runDown ends the running launcher, or removes what a crashed one left, and
// says what it did.
func runDown(ctx context.Context, p place, out io.Writer) error {
	size := sizeBytes(p.Run)
	r, err := p.read()
	switch {
	case errors.Is(err, errNoSandbox) && p.held():
		return errors.New("a sandbox is just being started or stopped; try again in a moment")
	case errors.Is(err, errNoSandbox):
		return p.sweep(size, out)
	case err != nil:
		return err
	}
	processes := 0
	if a, err := r.ask(ctx, request{Verb: "status"}); err == nil && a.Document != nil {
		processes = a.Document.Processes
	}
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", r.PID, err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.held() {
		select {
		case <-ctx.Done():
			return errInterrupted
		case <-tick.C:
		}
	}
	fmt.Fprintf(out, "stopped %d processes, removed %d MiB from %s\n", processes, size>>20, short(p.Run))
	return nil
}

// sweep removes what a launcher left that crashed together with its janitor.
func (p place) sweep(size int64, out io.Writer) error {
	if _, err := os.Stat(p.Run); err != nil {
		fmt.Fprintln(out, "nothing is running")
		return nil
	}
	release, err := p.take()
	if err != nil {
		return err
	}
	defer release()
	if err := p.clean(); err != nil {
		return err
	}
	fmt.Fprintf(out, "nothing is running; removed %d MiB of an earlier run from %s\n", size>>20, short(p.Run))
	return nil
}
