package printer

import (
	"bufio"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// Stdio is what a command reads and writes: the answer goes to out, all else
// to err.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	Columns int // of the terminal that out is; 0: found out
}

// Note writes a line to err.
func (s Stdio) Note(format string, args ...any) { Fprintf(s.Err, format+"\n", args...) }

// Fprintf prints for people. Texts among the values stay in their line, for a
// repository or a cluster may have written them.
func Fprintf(w io.Writer, format string, args ...any) { printable.Fprintf(w, format, args...) }

// Guard returns std for a command: it keeps control and format characters of all
// output from a terminal, and notes in answered whether the command has written its
// answer. colored reports whether the answer has colours, on a terminal or elsewhere.
func Guard(std Stdio, answered *bool, colored func(terminal bool) bool) Stdio {
	_, terminal := terminalOf(std.Out)
	terminal = terminal || std.Columns > 0
	to := noticingWriter{writer: std.Out, written: answered}
	std.Out = guardedOutput{
		Writer: printable.NewWriter(to), writer: to, terminal: terminal, colored: func() bool { return colored(terminal) },
	}
	std.Err = printable.NewWriter(std.Err)
	return std
}

// noticingWriter notes that something was written.
type noticingWriter struct {
	writer  io.Writer
	written *bool
}

func (w noticingWriter) Write(p []byte) (int, error) {
	*w.written = *w.written || len(p) > 0
	return w.writer.Write(p)
}

// guardedOutput is where the answer of a command goes.
type guardedOutput struct {
	*printable.Writer
	writer   io.Writer
	terminal bool
	colored  func() bool
}

// colorWriter is where a line goes that may have colours, and whether it has. Its
// writer escapes what others have written, for there is no guard.
func colorWriter(w io.Writer) (io.Writer, bool) {
	if g, ok := w.(guardedOutput); ok && g.colored() {
		return g.writer, true
	}
	return w, false
}

// DocumentWriter is where a document goes that a program reads: as it is, unless it is
// shown on a terminal. JSON needs no such way, for its escapes are the same text.
func DocumentWriter(w io.Writer) io.Writer {
	if g, ok := w.(guardedOutput); ok && !g.terminal {
		return g.writer
	}
	return w
}

// terminalOf returns the file that a writer is, if it is a terminal.
func terminalOf(w io.Writer) (*os.File, bool) {
	if g, ok := w.(guardedOutput); ok {
		w = g.writer
	}
	if n, ok := w.(noticingWriter); ok {
		w = n.writer
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// Width is how many columns the answer may take: 0, without limit, where it
// does not go to a terminal.
func (s Stdio) Width() int {
	if s.Columns > 0 {
		return s.Columns
	}
	f, ok := terminalOf(s.Out)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Ask asks a person a question, and returns the answer. Without a terminal on both
// sides nothing is asked.
func (s Stdio) Ask(question string) (answer string, asked bool) {
	in, ok := s.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
		return "", false
	}
	Fprintf(s.Err, "%s", question)
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	return strings.TrimSpace(line), err == nil
}

// QuietableWriter returns a writer that drops what is written while quiet is set.
func QuietableWriter(to io.Writer, quiet *bool) io.Writer { return quietable{to, quiet} }

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
