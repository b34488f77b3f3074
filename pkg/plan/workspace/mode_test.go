package workspace

import (
	"strings"
	"testing"
	"time"
)

func TestPlays(t *testing.T) {
	held := 45 * time.Second
	cases := map[string]struct {
		why  string
		mode Mode
		seen RancherSigns
		want Part
		text string // in the reason
	}{
		"NoKinds":         {"there is nothing to map", Standalone, RancherSigns{}, Sleep, "not in this cluster"},
		"NoRancher":       {"no other controller maps", Auto, RancherSigns{Kinds: true, Renewed: -1}, Map, "no lease"},
		"Lives":           {"two writers would fight", Auto, RancherSigns{Kinds: true, Renewed: time.Second, Held: held}, Observe, "renewed its lease 1s ago"},
		"Restarts":        {"it may be back in a minute", Auto, RancherSigns{Kinds: true, Renewed: 2 * time.Minute, Held: held}, Observe, "2m0s ago"},
		"Released":        {"a lease that was given back lasts a second, and Rancher is being started again", Auto, RancherSigns{Kinds: true, Renewed: time.Minute, Held: time.Second}, Observe, ""},
		"Gone":            {"clusters must not wait for ever", Auto, RancherSigns{Kinds: true, Renewed: 4 * held, Held: held}, Map, "for 3m0s"},
		"FeatureOff":      {"it lives, but does not map", Auto, RancherSigns{Kinds: true, Renewed: time.Second, Held: held, Off: true}, Map, "feature"},
		"ByHandRancher":   {"a user has set the mode", WithRancher, RancherSigns{Kinds: true, Renewed: -1, Off: true}, Observe, "workspace.mode"},
		"ByHandOurselves": {"a user has set the mode", Standalone, RancherSigns{Kinds: true, Renewed: time.Second, Held: held}, Map, "workspace.mode"},
	}
	for name, c := range cases {
		got, why := DecidePart(c.mode, c.seen)
		if got != c.want || !strings.Contains(why, c.text) {
			t.Errorf("%s: %s: got %s, %q", name, c.why, got, why)
		}
	}
}

func TestGivesRights(t *testing.T) {
	held := 45 * time.Second
	for name, c := range map[string]struct {
		why  string
		seen RancherSigns
		want bool
	}{
		"Lives":      {"two writers would undo each other's work", RancherSigns{Kinds: true, Renewed: time.Second, Held: held}, true},
		"FeatureOff": {"GlobalRoles do not belong to the feature fleet", RancherSigns{Kinds: true, Renewed: time.Second, Held: held, Off: true}, true},
		"Single":     {"without multi-cluster management Rancher has no handlers for them", RancherSigns{Kinds: true, Renewed: time.Second, Held: held, Single: true}, false},
		"Gone":       {"its lease is dead", RancherSigns{Kinds: true, Renewed: 4 * held, Held: held}, false},
		"NoRancher":  {"there is no lease", RancherSigns{Kinds: true, Renewed: -1}, false},
	} {
		if got := GivesRights(c.seen); got != c.want {
			t.Errorf("%s: %s: got %v", name, c.why, got)
		}
	}
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]Mode{"": Auto, "auto": Auto, "rancher": WithRancher, "standalone": Standalone, "Rancher": ""} {
		if got, err := ParseMode(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}
