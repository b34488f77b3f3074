package main

import (
	"strings"
	"testing"

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
		"NoTimes":  {args: "--checkin-mode=poll", error: "checkin-schedule: must be set"},
		"NoMode":   {args: "--checkin-schedule=0 3 * * *", error: "checkin-schedule: counts only with checkin-mode poll"},
		"BadMode":  {args: "--checkin-mode=sometimes", error: `checkin-mode: "sometimes" is neither`},
		"BadTimes": {args: "--checkin-mode=poll|--checkin-schedule=often", error: "checkin-schedule:"},
		"BadPlace": {args: "--checkin-mode=poll|--checkin-schedule=@hourly|--checkin-timezone=Atlantis", error: "checkin-timezone:"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var o touch
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
