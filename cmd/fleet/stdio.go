package main

import (
	"bufio"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// stdio is what a command reads and writes: the answer goes to out, all else
// to err.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer

	columns int // of the terminal that out is; 0: found out
}

// note writes a line to err.
func (s stdio) note(format string, args ...any) { say(s.err, format+"\n", args...) }

// say prints for people. Texts among the values stay in their line, for a
// repository or a cluster may have written them.
func say(w io.Writer, format string, args ...any) { printable.Fprintf(w, format, args...) }

// guard returns std for a command: it keeps control and format characters of all
// output from a terminal, and notes in answered whether the command has written its
// answer. colored reports whether the answer has colours, on a terminal or elsewhere.
func guard(std stdio, answered *bool, colored func(terminal bool) bool) stdio {
	_, terminal := terminalOf(std.out)
	terminal = terminal || std.columns > 0
	to := noticed{to: std.out, any: answered}
	std.out = guardedOutput{
		Writer: printable.NewWriter(to), to: to, terminal: terminal, colored: func() bool { return colored(terminal) },
	}
	std.err = printable.NewWriter(std.err)
	return std
}

// noticed notes that something was written.
type noticed struct {
	to  io.Writer
	any *bool
}

func (w noticed) Write(p []byte) (int, error) {
	*w.any = *w.any || len(p) > 0
	return w.to.Write(p)
}

// guardedOutput is where the answer of a command goes.
type guardedOutput struct {
	*printable.Writer
	to       io.Writer
	terminal bool
	colored  func() bool
}

// paintable is where a line goes that may have colours, and whether it has. Its
// writer escapes what others have written, for there is no guard.
func paintable(w io.Writer) (io.Writer, bool) {
	if g, ok := w.(guardedOutput); ok && g.colored() {
		return g.to, true
	}
	return w, false
}

// exact is where a document goes that a program reads: as it is, unless it is
// shown on a terminal. JSON needs no such way, for its escapes are the same text.
func exact(w io.Writer) io.Writer {
	if g, ok := w.(guardedOutput); ok && !g.terminal {
		return g.to
	}
	return w
}

// terminalOf returns the file that a writer is, if it is a terminal.
func terminalOf(w io.Writer) (*os.File, bool) {
	if g, ok := w.(guardedOutput); ok {
		w = g.to
	}
	if n, ok := w.(noticed); ok {
		w = n.to
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// width is how many columns the answer may take: 0, without limit, where it
// does not go to a terminal.
func (s stdio) width() int {
	if s.columns > 0 {
		return s.columns
	}
	f, ok := terminalOf(s.out)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// ask asks a person a question, and returns the answer. Without a terminal on both
// sides nothing is asked.
func (s stdio) ask(question string) (answer string, asked bool) {
	in, ok := s.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
		return "", false
	}
	say(s.err, "%s", question)
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	return strings.TrimSpace(line), err == nil
}

// quieted returns a writer that drops what is written while quiet is set.
func quieted(to io.Writer, quiet *bool) io.Writer { return quietable{to, quiet} }

// quietable drops what is written while quiet is set.
type quietable struct {
	to    io.Writer
	quiet *bool
}

func (q quietable) Write(p []byte) (int, error) {
	if *q.quiet {
		return len(p), nil
	}
	return q.to.Write(p)
}
