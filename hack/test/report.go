package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action     string
	Package    string
	ImportPath string // instead of Package, for what the compiler prints
	Test       string
	Output     string
}

// report reads what `go test -json` prints. It writes to out what go test prints
// without -v: the output of tests that fail, of packages and of the compiler. With
// verbose it writes the output of every test.
type report struct {
	out     io.Writer
	verbose bool
	output  map[testID]*strings.Builder // of tests that have not ended
	skipped []testID
}

// testID names one test or subtest of one package.
type testID struct{ pkg, test string }

func (id testID) String() string { return id.pkg + " " + id.test }

func newReport(out io.Writer, verbose bool) *report {
	return &report{out: out, verbose: verbose, output: map[testID]*strings.Builder{}}
}

// read reads events until the stream ends. A line that is no event is copied to out.
func (r *report) read(stream io.Reader) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(r.out, "%s", line)
			} else {
				r.add(e)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

func (r *report) add(e event) {
	id := testID{pkg: e.Package, test: e.Test}
	switch {
	case e.Test == "" && e.Action == "fail":
		r.flush(e.Package)
	case e.Test == "" && e.Output != "PASS\n":
		fmt.Fprint(r.out, e.Output)
	case e.Test == "":
	case e.Action == "output":
		if r.verbose {
			fmt.Fprint(r.out, e.Output)
			return
		}
		if r.output[id] == nil {
			r.output[id] = &strings.Builder{}
		}
		r.output[id].WriteString(e.Output)
	case e.Action == "fail":
		r.print(id)
	case e.Action == "skip":
		r.skipped = append(r.skipped, id)
		delete(r.output, id)
	case e.Action == "pass":
		delete(r.output, id)
	}
}

// flush prints the output of tests that were still running when their package ended.
func (r *report) flush(pkg string) {
	for id := range r.output {
		if id.pkg == pkg {
			r.print(id)
		}
	}
}

func (r *report) print(id testID) {
	if text := r.output[id]; text != nil {
		fmt.Fprint(r.out, text.String())
		delete(r.output, id)
	}
}
