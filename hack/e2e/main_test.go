package main

import (
	"errors"
	"testing"
)

func TestSkip(t *testing.T) {
	cases := map[string]struct {
		why  string
		env  map[string]string
		exit int
	}{
		"Laptop":   {why: "a laptop without root fails nothing"},
		"CI":       {why: "CI must not pass without real pods unnoticed", env: map[string]string{"CI": "true"}, exit: 1},
		"Optional": {why: "the variable says that this is meant", env: map[string]string{"CI": "true", "FLEET_E2E": "optional"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := skip(errors.New("no root"), func(key string) string { return c.env[key] }); got != c.exit {
				t.Errorf("%s: exit code %d, want %d", c.why, got, c.exit)
			}
		})
	}
}
