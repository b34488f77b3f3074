package fault

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestReasonOf(t *testing.T) {
	cause := errors.New("cause")
	cases := map[string]struct {
		err       error
		want      string
		permanent bool
		wait      bool
	}{
		"Plain":            {err: cause, want: "Error"},
		"Permanent":        {err: PermanentError("Broken", cause), want: "Broken", permanent: true},
		"WrappedWait":      {err: fmt.Errorf("outer: %w", WaitError("Later", time.Second, cause)), want: "Later", wait: true},
		"OutermostCounts":  {err: PermanentError("Outer", WaitError("Inner", 0, cause)), want: "Outer", permanent: true, wait: true},
		"NothingIsNothing": {err: PermanentError("Broken", nil), want: "Error"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ReasonOf(c.err); got != c.want {
				t.Errorf("reason: want %q, got %q", c.want, got)
			}
			if IsPermanent(c.err) != c.permanent || IsWait(c.err) != c.wait {
				t.Errorf("want permanent %v and wait %v", c.permanent, c.wait)
			}
		})
	}
}
