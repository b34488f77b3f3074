package main

import (
	"fmt"
	"time"
	_ "time/tzdata" // an image from scratch has no time zones

	"github.com/spf13/pflag"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// connectionFlags is what the command line says about the agent's connection to its manager. What
// the manager writes into the agent's ConfigMap takes precedence.
type connectionFlags struct{ fleet.ClusterCheckIn }

func (c *connectionFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Mode, "checkin-mode", heartbeat.ModeWatch, "`watch`: always be connected to the manager; poll: connect at the times of checkin-schedule alone")
	fs.StringVar(&c.Schedule, "checkin-schedule", "", "when to connect with checkin-mode poll, as `cron` has it: minute, hour, day, month, day of week")
	fs.StringVar(&c.TimeZone, "checkin-timezone", heartbeat.DefaultTimeZone, "time `zone` of checkin-schedule, for example Europe/Berlin")
}

// schedule is when the agent connects; nil: it is always connected.
func (c *connectionFlags) schedule() (*heartbeat.Schedule, error) {
	s, err := heartbeat.Read(&c.ClusterCheckIn, time.LoadLocation, time.Now())
	if err != nil {
		return nil, fmt.Errorf("checkin-mode, checkin-schedule and checkin-timezone: %w", err)
	}
	return s, nil
}

// An interval is a flag for a duration, or auto.
type interval struct{ d *time.Duration }

// Set reads the text of the flag.
func (i interval) Set(text string) (err error) {
	*i.d, err = heartbeat.ParseInterval(text)
	return err
}

// String returns the text of the flag.
func (i interval) String() string {
	if i.d == nil {
		return heartbeat.Auto
	}
	return heartbeat.FormatInterval(*i.d)
}

// Type returns what the help calls it.
func (i interval) Type() string { return "time" }
