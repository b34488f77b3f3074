package values

import (
	"errors"
	"fmt"
	"time"
)

const (
	// maxMadeBytes limits the output of the templates of one rendering in all:
	// the results of their functions, and their text.
	maxMadeBytes = 16 << 20
	// maxSteps is how much one rendering may do. A step is about a microsecond:
	// an action, a turn of a loop, a call of a function or of a template, or 100
	// bytes or 10 values that a function works on.
	maxSteps = 200_000
	// maxTime is how long one rendering may take. Steps end it earlier, unless
	// the machine is very busy.
	maxTime = time.Second
	// maxCalls is how deep templates may call each other.
	maxCalls = 200
)

// limits are the limits of one rendering.
type limits struct {
	bytes, steps int
	time         time.Duration
}

var (
	full = limits{bytes: maxMadeBytes, steps: maxSteps, time: maxTime}
	// small is enough for nearly all renderings. The others wait for each
	// other, so that only a few of them are in memory at once.
	small = limits{bytes: maxMadeBytes / 16, steps: maxSteps / 20, time: maxTime}
)

// Faults of templates that need more than they may. All of them are ErrLimit.
var (
	// ErrLimit: a template needs more memory, time or depth than it may.
	ErrLimit = errors.New("templates of values may make 16 MiB and take 1 second for one cluster: make the template simpler")
	// ErrTime is an ErrLimit that another try may not meet: the machine may have
	// been busy.
	ErrTime = fmt.Errorf("the template takes longer than 1 second: %w", ErrLimit)

	errText  = fmt.Errorf("the template writes more than 4 MiB: %w", ErrLimit)
	errSteps = fmt.Errorf("the template takes too many steps: %w", ErrLimit)
	errCalls = fmt.Errorf("templates call each other more than 200 deep: %w", ErrLimit)
	errDeep  = fmt.Errorf("a list or map is nested more than 64 deep, or contains itself: %w", ErrLimit)
)

// A meter measures what one rendering does and ends it at its limits. Nothing
// can end a template from outside, so everything that it does comes by here.
type meter struct {
	limits
	usedBytes, usedSteps int
	calls                int       // of templates, that have not returned
	offset               int       // offset of the action that is executed in its text
	start                time.Time // of the template that is executed
}

func newMeter(l limits) *meter { return &meter{limits: l} }

// addSteps takes steps.
func (m *meter) addSteps(steps int) error {
	if steps < 0 || steps > m.steps-m.usedSteps {
		m.usedSteps = m.steps
		return errSteps
	}
	m.usedSteps += steps
	if time.Since(m.start) > m.time {
		return ErrTime
	}
	return nil
}

// bytesLeft is how many bytes may still be made.
func (m *meter) bytesLeft() int { return m.bytes - m.usedBytes }

// addBytes counts bytes that a function has made or a template has written. by names the
// function or template for the error, which says that the limit is exceeded.
func (m *meter) addBytes(by string, bytes int) error {
	if err := m.checkRoom(by, bytes); err != nil {
		return err
	}
	m.usedBytes += bytes
	return nil
}

// checkRoom returns ErrLimit if the limit does not allow so many more bytes.
func (m *meter) checkRoom(by string, bytes int) error {
	if bytes >= 0 && bytes <= m.bytesLeft() {
		return nil
	}
	return fmt.Errorf("%s makes too much: %w", by, ErrLimit)
}

// sizeOf is how large values are, for a function that works on them or returns
// them.
func (m *meter) sizeOf(by string, list ...any) (int, error) {
	s := sizeOf(m.bytesLeft(), list...)
	switch {
	case s.deep:
		return 0, fmt.Errorf("%s: %w", by, errDeep)
	case s.bytes > m.bytesLeft():
		return 0, m.checkRoom(by, s.bytes)
	}
	return s.bytes, m.addSteps(s.values/10 + s.bytes/100)
}

// addStep is called before each action and turn, with its offset in the text.
func (m *meter) addStep(at int) (string, error) {
	m.offset = at
	return "", m.addSteps(1)
}

// enterTemplate and leaveTemplate enclose each template that is called.
func (m *meter) enterTemplate() (string, error) {
	if m.calls++; m.calls > maxCalls {
		return "", errCalls
	}
	return "", m.addSteps(1)
}

func (m *meter) leaveTemplate() string {
	m.calls--
	return ""
}

// printed returns what an action is about to print, if it may be printed.
func (m *meter) printed(v any) (any, error) {
	_, err := m.sizeOf("the text", v)
	return v, err
}

// checkResult returns what a method has returned, as the result of a function.
func (m *meter) checkResult(v any) (any, error) {
	n, err := m.sizeOf("a method", v)
	if err != nil {
		return nil, err
	}
	return v, m.addBytes("a method", n)
}
