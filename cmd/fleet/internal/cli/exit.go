package cli

import (
	"errors"
	"fmt"
)

// How a command ended, where that is neither success nor a failure to do its work. Wrap
// them with %w; reported marks those that need no error line.
var (
	ErrDifferences = errors.New("there are differences")
	ErrNotReady    = errors.New("not ready")
	ErrInput       = errors.New("the input has errors")
	ErrRefused     = errors.New("refused")
	ErrPartly      = errors.New("done in part")
)

// Reported is an ending that the command's own output has explained already.
type Reported struct{ error }

// EndingWith is an ending without an error line.
func EndingWith(err error) error { return Reported{err} }

func (r Reported) Unwrap() error { return r.error }

// ExitCode is the one place where endings become numbers. docs/cli promises
// them.
func ExitCode(err error, interrupted bool) int {
	switch {
	case interrupted:
		return 130
	case err == nil:
		return 0
	case errors.Is(err, ErrDifferences):
		return 2
	case errors.Is(err, ErrNotReady):
		return 3
	case errors.Is(err, ErrInput):
		return 4
	case errors.Is(err, ErrRefused):
		return 5
	case errors.Is(err, ErrPartly):
		return 6
	}
	return 1
}

// PartialError returns the error of a command for so many objects, some of which failed:
// ErrPartly where others did not.
func PartialError(failed []error, of int) error {
	err := errors.Join(failed...)
	if err != nil && len(failed) < of {
		return fmt.Errorf("%w: %w", ErrPartly, err)
	}
	return err
}
