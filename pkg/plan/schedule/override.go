package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxOverride is how far ahead the end of an Override may be.
const MaxOverride = day

// maxReason is how much of the reason of an Override is kept, in bytes.
const maxReason = 256

// An Override opens a deployment outside of the windows of its cluster.
type Override struct {
	Until  time.Time
	Reason string
}

// ParseOverride parses the value of AnnotationOpenUntil: a time (RFC 3339), a space and a
// reason. An empty value is the zero Override.
func ParseOverride(text string) (Override, error) {
	if text == "" {
		return Override{}, nil
	}
	at, reason, _ := strings.Cut(strings.TrimSpace(text), " ")
	until, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return Override{}, errors.New(`does not begin with a time such as 2006-01-02T15:04:05Z`)
	}
	reason = strings.Join(strings.Fields(reason), " ")
	if reason == "" {
		return Override{}, errors.New("gives no reason after the time")
	}
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return Override{Until: until, Reason: reason}, nil
}

// Active reports whether the override opens a deployment at a time: it has not ended, and
// ends at most MaxOverride later.
func (o Override) Active(now time.Time) bool {
	return now.Before(o.Until) && o.Until.Sub(now) <= MaxOverride
}

// NextChange returns when an override becomes active or ends after a time; the zero Time if
// it does not.
func (o Override) NextChange(now time.Time) time.Time {
	switch {
	case o.Until.IsZero() || !now.Before(o.Until):
		return time.Time{}
	case o.Active(now):
		return o.Until
	}
	return o.Until.Add(-MaxOverride)
}

// String says in words what the override does.
func (o Override) String() string {
	return fmt.Sprintf("open until %s: %s", o.Until.UTC().Format(time.RFC3339), o.Reason)
}
