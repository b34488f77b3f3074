package takeover

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestMove(t *testing.T) {
	to, back := Move{Shard: "x"}, Move{Shard: "x", Back: true}
	in := func(shard string) map[string]string { return map[string]string{fleet.LabelShardRef: shard} }
	cases := map[string]struct {
		why     string
		move    Move
		labels  map[string]string
		relabel bool
		refused string
	}{
		"Start":             {"the default's object is passed on", to, nil, true, ""},
		"StartAgain":        {"a second run writes nothing", to, in("x"), false, ""},
		"StartOfAnother":    {"a third manager would lose it without knowing", to, in("y"), false, `it belongs to shard "y"`},
		"StartOfEmptyShard": {"an empty label is a decision of a user, too", to, in(""), false, `it belongs to shard ""`},
		"Undo":              {"and back", back, in("x"), true, ""},
		"UndoAgain":         {"a second run writes nothing", back, nil, false, ""},
		"UndoOfAnother":     {"only what this shard has goes back", back, in("y"), false, `it belongs to shard "y"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			relabel, refused := c.move.NeedsRelabel(c.labels)
			if relabel != c.relabel || refused != c.refused {
				t.Errorf("%s: got %v, %q", c.why, relabel, refused)
			}
		})
	}
	if to.Label() != "x" || back.Label() != nil {
		t.Errorf("labels are %v and %v", to.Label(), back.Label())
	}
}
