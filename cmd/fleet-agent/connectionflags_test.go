package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestTouch(t *testing.T) {
	cases := map[string]struct {
		args  string
		want  string // the schedule, "" for none
		error string
	}{
		"Default":  {},
		"Watch":    {args: "--checkin-mode=watch"},
		"Poll":     {args: "--checkin-mode=poll|--checkin-schedule=0 3 * * *", want: "0 3 * * * (UTC)"},
		"Place":    {args: "--checkin-mode=poll|--checkin-schedule=@hourly|--checkin-timezone=Europe/Berlin", want: "@hourly (Europe/Berlin)"},
		"NoTimes":  {args: "--checkin-mode=poll", error: "checkin-timezone: schedule: must be set"},
		"NoMode":   {args: "--checkin-schedule=0 3 * * *", error: "schedule: counts only with mode poll"},
		"BadMode":  {args: "--checkin-mode=sometimes", error: `mode: "sometimes" is neither`},
		"BadTimes": {args: "--checkin-mode=poll|--checkin-schedule=often", error: `schedule "often":`},
		"BadPlace": {args: "--checkin-mode=poll|--checkin-schedule=@hourly|--checkin-timezone=Atlantis", error: "timeZone: unknown time zone"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var o connectionFlags
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.flags(fs)
			if err := fs.Parse(strings.Split(c.args, "|")); err != nil {
				t.Fatal(err)
			}
			s, err := o.schedule()
			if err != nil || c.error != "" {
				if err == nil || c.error == "" || !strings.Contains(err.Error(), c.error) {
					t.Errorf("want error %q, got %v", c.error, err)
				}
				return
			}
			got := ""
			if s != nil {
				got = s.String()
			}
			if got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}

// The interval is a time, or left to the manager.
func TestInterval(t *testing.T) {
	for text, want := range map[string]string{"auto": "auto", "0": "auto", "90s": "1m30s", "1h": "1h", "1ms": "", "2h": "", "often": ""} {
		var d time.Duration
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SetOutput(io.Discard)
		fs.Var(interval{&d}, "checkin-interval", "")
		err := fs.Parse([]string{"--checkin-interval=" + text})
		if (err != nil) != (want == "") {
			t.Errorf("%s: %v", text, err)
		}
		if got := (interval{&d}).String(); err == nil && got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
