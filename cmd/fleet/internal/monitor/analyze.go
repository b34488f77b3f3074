package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/monitor"
)

// AnalyzeOptions are what the user asks for.
type AnalyzeOptions struct {
	File     string // - is stdin
	All      bool
	Diff     bool
	Issues   bool
	Detailed bool
	JSON     bool
	Compare  string // a file
}

// maxKept is how many bytes of snapshots --json keeps, to print their number first.
const maxKept = 256 << 20

// Check is an error for flags that do not go together.
func (o *AnalyzeOptions) Check() error {
	for _, pair := range []struct {
		both  bool
		names string
	}{
		{o.Diff && o.Compare != "", "--diff and --compare"},
		{o.Diff && o.JSON, "--diff and --json"},
		{o.Compare != "" && o.JSON, "--compare and --json"},
		{o.All && o.Diff, "--all and --diff"},
		{o.All && o.Compare != "", "--all and --compare"},
	} {
		if pair.both {
			return fmt.Errorf("%s do not go together", pair.names)
		}
	}
	if o.Compare == "-" && o.File == "-" {
		return errors.New("only one of FILE and --compare can be stdin")
	}
	return nil
}

// Analyze reads snapshots and prints what the user asks for.
func Analyze(o AnalyzeOptions, std printer.Stdio) error {
	if err := o.Check(); err != nil {
		return err
	}
	p := presenter{std: std, o: o}
	switch {
	case o.JSON:
		return p.document()
	case o.Diff:
		return p.differences()
	case o.Compare != "":
		return p.compareFiles()
	case o.All:
		return p.all()
	}
	last, n, err := p.last(o.File)
	if err != nil {
		return err
	}
	if n > 1 {
		std.Note("the last of %d snapshots; --all shows all, --diff compares them", n)
	}
	p.snapshot(&last.Snapshot)
	return nil
}

// A presenter prints snapshots.
type presenter struct {
	std printer.Stdio
	o   AnalyzeOptions
}

// each visits the snapshots of a file, and returns how many there are.
func (p *presenter) each(file string, visit func(*monitor.Line) error) (int, error) {
	in := p.std.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		in = f
	}
	n := 0
	for lines := monitor.NewReader(in); ; n++ {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, fmt.Errorf("%w: %s: %w", cli.ErrInput, cli.ShownFile(file), err)
		}
		if err := visit(line); err != nil {
			return n, err
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: no snapshot in %s", cli.ErrInput, cli.ShownFile(file))
	}
	return n, nil
}

// last returns the last snapshot of a file, and how many there are.
func (p *presenter) last(file string) (*monitor.Line, int, error) {
	var last *monitor.Line
	n, err := p.each(file, func(line *monitor.Line) error {
		last = line
		return nil
	})
	return last, n, err
}

// all prints each snapshot.
func (p *presenter) all() error {
	first := true
	_, err := p.each(p.o.File, func(line *monitor.Line) error {
		if !first {
			printer.Fprintf(p.std.Out, "\n")
		}
		first = false
		p.snapshot(&line.Snapshot)
		return nil
	})
	return err
}

// differences prints what changes from each snapshot to the next one.
func (p *presenter) differences() error {
	var before *monitor.Line
	n, err := p.each(p.o.File, func(line *monitor.Line) error {
		if before != nil {
			p.changes(&before.Snapshot, &line.Snapshot)
		}
		before = line
		return nil
	})
	if err == nil && n < 2 {
		return fmt.Errorf("%w: --diff needs two snapshots at least, %s has 1", cli.ErrInput, cli.ShownFile(p.o.File))
	}
	return err
}

// compareFiles prints what changes from the last snapshot of --compare to that of FILE.
func (p *presenter) compareFiles() error {
	before, _, err := p.last(p.o.Compare)
	if err != nil {
		return err
	}
	after, _, err := p.last(p.o.File)
	if err != nil {
		return err
	}
	p.changes(&before.Snapshot, &after.Snapshot)
	return nil
}

// An analysis is what --json prints. The snapshots are as they were read.
type analysis struct {
	SnapshotCount int               `json:"snapshotCount"`
	Latest        json.RawMessage   `json:"latest"`
	All           []json.RawMessage `json:"all"`
}

// document prints the snapshots as one document.
func (p *presenter) document() error {
	var doc analysis
	kept := 0
	_, err := p.each(p.o.File, func(line *monitor.Line) error {
		if kept += len(line.Raw); kept > maxKept {
			return fmt.Errorf("%w: --json reads at most %d MiB", cli.ErrInput, maxKept>>20)
		}
		doc.Latest, doc.SnapshotCount = line.Raw, doc.SnapshotCount+1
		doc.All = append(doc.All, bytes.Clone(line.Raw))
		return nil
	})
	if err != nil {
		return err
	}
	return printer.PrintJSON(p.std.Out, doc, false)
}
