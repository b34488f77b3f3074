// Package fault names the kinds of failure that a loop treats differently: a
// Permanent one waits until somebody changes something, a Wait comes again
// after its time, and every other error is transient and is tried again with
// a growing delay.
package fault

import (
	"errors"
	"time"
)

// A Permanent failure stays until someone changes the specification or the
// repository. The loop reports it on the object and waits for that change.
type Permanent struct {
	Reason string // one PascalCase word; becomes the condition's reason
	Err    error
}

// Error is the text of the cause.
func (p *Permanent) Error() string { return p.Err.Error() }

// Unwrap is the cause.
func (p *Permanent) Unwrap() error { return p.Err }

// A Wait is not a failure yet: something that is expected to come is not there.
type Wait struct {
	Reason string        // one PascalCase word; becomes the condition's reason
	After  time.Duration // when to look again; 0 means only when woken up
	Err    error
}

// Error is the text of the cause.
func (w *Wait) Error() string { return w.Err.Error() }

// Unwrap is the cause.
func (w *Wait) Unwrap() error { return w.Err }

// PermanentError makes err permanent. It is nil where err is.
func PermanentError(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &Permanent{Reason: reason, Err: err}
}

// WaitError makes err a wait. It is nil where err is.
func WaitError(reason string, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &Wait{Reason: reason, After: after, Err: err}
}

// IsPermanent tells whether err waits for somebody's change.
func IsPermanent(err error) bool {
	var p *Permanent
	return errors.As(err, &p)
}

// IsWait tells whether err only waits for something expected.
func IsWait(err error) bool {
	var w *Wait
	return errors.As(err, &w)
}

// ReasonOf is the reason that the outermost Permanent or Wait in err's chain
// carries, and "Error" where there is none.
func ReasonOf(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) { //nolint:errorlint // the chain is walked by hand, outermost first
		case *Permanent:
			return e.Reason
		case *Wait:
			return e.Reason
		}
	}
	return "Error"
}
