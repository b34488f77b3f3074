// Package reconcile classifies errors by what resolves them. A Terminal error stays until a
// user or a program changes something; a RequeueAfter passes at a known time; every other
// error may pass by itself and is worth another try.
package reconcile

import (
	"errors"
	"slices"
	"time"
)

// A Terminal fault stays until the spec or the repository changes. The loop
// reports it on the object and waits for that change.
type Terminal struct {
	Reason string // CamelCase; becomes the reason of a condition
	Err    error
}

func (t *Terminal) Error() string  { return t.Err.Error() }
func (t *Terminal) Unwrap() error  { return t.Err }
func (t *Terminal) reason() string { return t.Reason }

// A RequeueAfter is over at a known time; until then another try is of no use.
type RequeueAfter struct {
	Reason string        // CamelCase; becomes the reason of a condition
	After  time.Duration // when to look again; 0 means only when woken up
	Err    error
}

func (r *RequeueAfter) Error() string  { return r.Err.Error() }
func (r *RequeueAfter) Unwrap() error  { return r.Err }
func (r *RequeueAfter) reason() string { return r.Reason }

// TerminalError makes err a Terminal. No error stays no error.
func TerminalError(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &Terminal{Reason: reason, Err: err}
}

// RequeueError makes err a RequeueAfter. No error stays no error.
func RequeueError(reason string, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &RequeueAfter{Reason: reason, After: after, Err: err}
}

// ReasonOf returns the reason of the outermost fault in err, and "Error" if
// there is none.
func ReasonOf(err error) string {
	var f interface {
		error
		reason() string
	}
	if errors.As(err, &f) {
		return f.reason()
	}
	return "Error"
}

// IsTerminal reports whether err stays until something is changed. Of several wrapped
// faults the outermost decides; of several joined ones, any Terminal one does.
func IsTerminal(err error) bool {
	return outermost(err, func(f error) bool { _, ok := f.(*Terminal); return ok }) //nolint:errorlint // one link at a time
}

// IsRequeue reports whether err only waits for something that is expected to come,
// by the same rule.
func IsRequeue(err error) bool {
	return outermost(err, func(f error) bool { _, ok := f.(*RequeueAfter); return ok }) //nolint:errorlint // one link at a time
}

// outermost reports whether the outermost fault in err is of a kind.
func outermost(err error, is func(fault error) bool) bool {
	switch e := err.(type) { //nolint:errorlint // one link at a time
	case *Terminal, *RequeueAfter:
		return is(err)
	case interface{ Unwrap() error }:
		return outermost(e.Unwrap(), is)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(one error) bool { return outermost(one, is) })
	}
	return false
}
