package main

import (
	"errors"
)

// How a command ended, where that is neither success nor a failure to do its work. Wrap
// them with %w; reported marks those that need no error line.
var (
	errDifferences = errors.New("there are differences")
	errNotReady    = errors.New("not ready")
	errInput       = errors.New("the input has errors")
	errRefused     = errors.New("refused")
	errPartly      = errors.New("done in part")
)

// reported is an ending that the command's own output has explained already.
type reported struct{ error }

// endingWith is an ending without an error line.
func endingWith(err error) error { return reported{err} }

func (t reported) Unwrap() error { return t.error }

// exitCode is the one place where endings become numbers. docs/cli promises
// them.
func exitCode(err error, interrupted bool) int {
	switch {
	case interrupted:
		return 130
	case err == nil:
		return 0
	case errors.Is(err, errDifferences):
		return 2
	case errors.Is(err, errNotReady):
		return 3
	case errors.Is(err, errInput):
		return 4
	case errors.Is(err, errRefused):
		return 5
	case errors.Is(err, errPartly):
		return 6
	}
	return 1
}
