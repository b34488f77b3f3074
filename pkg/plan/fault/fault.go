// Package fault sorts errors by what helps against them. A Permanent fault
// stays until somebody changes something; a Wait passes at a known time; every
// other error may pass by itself and is worth another try.
package fault

import (
	"errors"
	"slices"
	"time"
)

// A Permanent fault stays until the spec or the repository changes. The loop
// reports it on the object and waits for that change.
type Permanent struct {
	Reason string // CamelCase; becomes the reason of a condition
	Err    error
}

func (p *Permanent) Error() string  { return p.Err.Error() }
func (p *Permanent) Unwrap() error  { return p.Err }
func (p *Permanent) reason() string { return p.Reason }

// A Wait is over at a known time; until then another try is of no use.
type Wait struct {
	Reason string        // CamelCase; becomes the reason of a condition
	After  time.Duration // when to look again; 0 means only when woken up
	Err    error
}

func (w *Wait) Error() string  { return w.Err.Error() }
func (w *Wait) Unwrap() error  { return w.Err }
func (w *Wait) reason() string { return w.Reason }

// PermanentError makes err a Permanent fault. No error stays no error.
func PermanentError(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &Permanent{Reason: reason, Err: err}
}

// WaitError makes err a Wait. No error stays no error.
func WaitError(reason string, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &Wait{Reason: reason, After: after, Err: err}
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

// IsPermanent tells whether err waits for somebody's change. Of several faults
// around each other the outermost counts; of several that are joined, any.
func IsPermanent(err error) bool {
	return outermost(err, func(f error) bool { _, ok := f.(*Permanent); return ok }) //nolint:errorlint // one link at a time
}

// IsWait tells whether err only waits for something that is expected to come,
// by the same rule.
func IsWait(err error) bool {
	return outermost(err, func(f error) bool { _, ok := f.(*Wait); return ok }) //nolint:errorlint // one link at a time
}

// outermost tells whether the outermost fault in err is of a kind.
func outermost(err error, is func(fault error) bool) bool {
	switch e := err.(type) { //nolint:errorlint // one link at a time
	case *Permanent, *Wait:
		return is(err)
	case interface{ Unwrap() error }:
		return outermost(e.Unwrap(), is)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(one error) bool { return outermost(one, is) })
	}
	return false
}
