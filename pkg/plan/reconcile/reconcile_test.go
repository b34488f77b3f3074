package reconcile_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestReasonOf(t *testing.T) {
	permanent := reconcile.TerminalError("BadPath", io.EOF)
	wait := reconcile.RequeueError("Busy", time.Minute, io.EOF)
	tests := map[string]struct {
		err  error
		want string
		why  string
	}{
		"Nothing":   {nil, "Error", "the reason of a condition is never empty"},
		"Plain":     {io.EOF, "Error", "the reason of a condition is never empty"},
		"Permanent": {permanent, "BadPath", "the reason goes to a condition"},
		"Wait":      {wait, "Busy", "the reason goes to a condition"},
		"Wrapped":   {fmt.Errorf("read a: %w", permanent), "BadPath", "callers add context"},
		"Outermost": {reconcile.RequeueError("Later", 0, permanent), "Later", "who wraps last knows best"},
		"Joined":    {errors.Join(io.EOF, wait), "Busy", "several errors are joined"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := reconcile.ReasonOf(c.err); got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

func TestOutermostCounts(t *testing.T) {
	permanent, wait := reconcile.TerminalError("Damaged", io.EOF), reconcile.RequeueError("Later", 0, io.EOF)
	cases := map[string]struct {
		why             string
		err             error
		permanent, wait bool
	}{
		"None":            {"neither", io.EOF, false, false},
		"Permanent":       {"with context around it", fmt.Errorf("read a: %w", permanent), true, false},
		"Wait":            {"with context around it", fmt.Errorf("read a: %w", wait), false, true},
		"WaitAround":      {"who wraps last knows that it will be mended", reconcile.RequeueError("Later", 0, fmt.Errorf("read a: %w", permanent)), false, true},
		"PermanentAround": {"or that it will not", reconcile.TerminalError("Bad", wait), true, false},
		"Joined":          {"any of several", errors.Join(io.EOF, wait, permanent), true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if p, w := reconcile.IsTerminal(c.err), reconcile.IsRequeue(c.err); p != c.permanent || w != c.wait {
				t.Errorf("%s: permanent %t, wait %t", c.why, p, w)
			}
		})
	}
}

func TestKinds(t *testing.T) {
	if reconcile.TerminalError("R", nil) != nil || reconcile.RequeueError("R", 0, nil) != nil {
		t.Error("no error must stay no error")
	}
	var p *reconcile.Terminal
	if err := fmt.Errorf("outer: %w", reconcile.TerminalError("R", io.EOF)); !errors.As(err, &p) || !errors.Is(err, io.EOF) {
		t.Error("a permanent fault is found below other errors, and what it wraps too")
	}
	var w *reconcile.RequeueAfter
	err := reconcile.RequeueError("R", time.Minute, io.EOF)
	if !errors.As(err, &w) || w.After != time.Minute || err.Error() != io.EOF.Error() {
		t.Error("a wait carries its time and the text of its cause")
	}
}
