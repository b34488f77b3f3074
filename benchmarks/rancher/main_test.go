package rancher

import (
	"errors"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	cases := map[string]struct {
		args []string
		err  error
	}{
		"Default":    {nil, nil},
		"Small":      {[]string{"-clusters", "100", "-workspaces", "10", "-quiet", "1s"}, nil},
		"TooSparse":  {[]string{"-clusters", "100", "-workspaces", "11"}, errUsage},
		"NoPlace":    {[]string{"-workspaces", "0"}, errUsage},
		"NoClusters": {[]string{"-clusters", "0"}, errUsage},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parseOptions(c.args); !errors.Is(err, c.err) {
				t.Errorf("want %v, got %v", c.err, err)
			}
		})
	}
	if o, _ := parseOptions(nil); o.clusters != 5000 || o.workspaces != 200 || o.quiet != 10*time.Minute {
		t.Errorf("not what is asked for: %+v", o)
	}
}
