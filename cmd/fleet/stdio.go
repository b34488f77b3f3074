package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
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
func (s stdio) note(format string, args ...any) { fmt.Fprintf(s.err, format+"\n", args...) }

// width is how many columns the answer may take: 0, without limit, where it
// does not go to a terminal.
func (s stdio) width() int {
	if s.columns > 0 {
		return s.columns
	}
	f, ok := s.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

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
