package main

import (
	"fmt"
	"time"
	_ "time/tzdata" // an image from scratch has no time zones

	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
)

// How an agent keeps in touch with its manager.
const (
	modeWatch = "watch" // it is always connected
	modePoll  = "poll"  // it connects at the times of a schedule
)

// touch is what the command line says about that.
type touch struct {
	mode  string
	times string
	place string
}

func (t *touch) flags(fs *pflag.FlagSet) {
	fs.StringVar(&t.mode, "checkin-mode", modeWatch, "`watch`: always be connected to the manager; poll: connect at the times of checkin-schedule alone")
	fs.StringVar(&t.times, "checkin-schedule", "", "when to connect with checkin-mode poll, as `cron` has it: minute, hour, day, month, day of week")
	fs.StringVar(&t.place, "checkin-timezone", "UTC", "time `zone` of checkin-schedule, for example Europe/Berlin")
}

// schedule is when the agent connects; nil: it is always connected.
func (t *touch) schedule() (*checkin.Schedule, error) {
	switch {
	case t.mode == modeWatch && t.times == "":
		return nil, nil //nolint:nilnil // none is a way to be in touch, too
	case t.mode == modeWatch:
		return nil, fmt.Errorf("checkin-schedule: counts only with checkin-mode %s", modePoll)
	case t.mode != modePoll:
		return nil, fmt.Errorf("checkin-mode: %q is neither %s nor %s", t.mode, modeWatch, modePoll)
	case t.times == "":
		return nil, fmt.Errorf("checkin-schedule: must be set with checkin-mode %s", modePoll)
	}
	place, err := time.LoadLocation(t.place)
	if err != nil {
		return nil, fmt.Errorf("checkin-timezone: %w", err)
	}
	s, err := checkin.ParseSchedule(t.times, place)
	if err != nil {
		return nil, fmt.Errorf("checkin-schedule: %w", err)
	}
	return s, nil
}
