package heartbeat

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Modes of keeping in touch.
const (
	ModeWatch = "watch" // the agent is always connected
	ModePoll  = "poll"  // it connects at the times of a schedule
)

// DefaultTimeZone is that of a schedule that names none.
const DefaultTimeZone = "UTC"

// KeyCheckIn is the key of an agent's ConfigMap that says how the agent keeps in
// touch: a ClusterCheckIn as JSON. A change of it takes effect without a restart.
const KeyCheckIn = "checkIn"

// Errors of Read.
var (
	errNoSchedule = errors.New("schedule: must be set with mode poll")
	errNoPoll     = errors.New("schedule: counts only with mode poll")
)

// Read returns the times at which an agent connects; nil: it is always connected, as it is
// for a nil c. zone finds time zones, for example time.LoadLocation.
//
// Errors name the field that they are about.
func Read(c *fleet.ClusterCheckIn, zone func(string) (*time.Location, error), now time.Time) (*Schedule, error) {
	switch {
	case c == nil, (c.Mode == "" || c.Mode == ModeWatch) && c.Schedule == "":
		return nil, nil //nolint:nilnil // none is a way to be in touch, too
	case c.Mode == "" || c.Mode == ModeWatch:
		return nil, errNoPoll
	case c.Mode != ModePoll:
		return nil, fmt.Errorf("mode: %q is neither %s nor %s", c.Mode, ModeWatch, ModePoll)
	case c.Schedule == "":
		return nil, errNoSchedule
	}
	name := c.TimeZone
	if name == "" {
		name = DefaultTimeZone
	}
	place, err := zone(name)
	if err != nil {
		return nil, fmt.Errorf("timeZone: %w", err)
	}
	return ParseSchedule(c.Schedule, place, now)
}

// Encode returns a ClusterCheckIn as it stands under KeyCheckIn; empty for nil.
func Encode(c *fleet.ClusterCheckIn) (string, error) {
	if c == nil {
		return "", nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write checkIn: %w", err)
	}
	return string(text), nil
}

// Decode reads what Encode wrote; nil for an empty text.
func Decode(text string) (*fleet.ClusterCheckIn, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nothing was said
	}
	var c fleet.ClusterCheckIn
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyCheckIn, err)
	}
	return &c, nil
}
