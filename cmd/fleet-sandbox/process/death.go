package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Death is the error of a child that ended without Stop or Kill.
type Death struct {
	Name     string        // as in its Spec
	After    time.Duration // since its start
	Status   string        // e.g. "exit status 1" or "signal: killed"
	LastLine string        // the last line of its log, possibly empty
	Log      string        // path of its log
}

func newDeath(p *Process, err error) *Death {
	status := "exit status 0"
	if err != nil {
		status = err.Error()
	}
	return &Death{
		Name:     p.spec.Name,
		After:    time.Since(p.started),
		Status:   status,
		LastLine: LastLine(p.spec.Log),
		Log:      p.spec.Log,
	}
}

// Error is one line: who ended, when and how.
func (d *Death) Error() string {
	return fmt.Sprintf("%s ended %s after its start (%s)", d.Name, d.After.Round(time.Second), d.Status)
}

// Details are the lines to print below Error.
func (d *Death) Details() []string {
	var lines []string
	if d.LastLine != "" {
		lines = append(lines, fmt.Sprintf("its last line: %q", d.LastLine))
	}
	return append(lines, "whole log: "+d.Log)
}

// tailBytes is how much of a log's end is searched for its last line.
const tailBytes = 16 << 10

// LastLine returns the last line of a file that is not blank, and at most 300
// bytes of it; empty if there is none or the file cannot be read.
func LastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	last := strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "")
	return last[:min(len(last), 300)]
}
