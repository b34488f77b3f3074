package registration

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The local agent moves where the settings say, and what it leaves is known from
// the moment on in which it begins to.
func TestLocalMove(t *testing.T) {
	for name, c := range map[string]struct {
		why            string
		was            LocalMove
		at, seen, want string
		there          string
		move           LocalMove
	}{
		"New":     {why: "there was none", want: "a", there: "a"},
		"Stays":   {why: "nothing has changed", at: "a", seen: "a", want: "a", there: "a"},
		"Arrived": {why: "what it has left is still to be removed", was: LocalMove{From: "b", Leaves: []string{"b"}}, at: "a", seen: "a", want: "a", there: "a", move: LocalMove{From: "b", Leaves: []string{"b"}}},
		"Moves":   {why: "the settings say something else", at: "a", seen: "a", want: "b", there: "b", move: LocalMove{From: "a", Leaves: []string{"a"}}},
		"Silent":  {why: "it has never spoken, and may have left something all the same", at: "a", want: "b", there: "b", move: LocalMove{From: "a", Leaves: []string{"a"}}},
		"Again":   {why: "nothing is left of the move before", was: LocalMove{From: "x"}, at: "a", seen: "a", want: "b", there: "b", move: LocalMove{From: "a", Leaves: []string{"a"}}},
		"OneByOne": {
			why: "what it has deployed may still be that of the agent in x, from which it takes over first",
			was: LocalMove{From: "x", Leaves: []string{"x"}}, at: "a", seen: "a", want: "b", there: "a", move: LocalMove{From: "x", Leaves: []string{"x"}},
		},
		"NeverThere": {
			why: "the agent never came up in a: what is deployed is still that of x, and both are left",
			was: LocalMove{From: "x", Leaves: []string{"x"}}, at: "a", seen: "x", want: "b", there: "b", move: LocalMove{From: "x", Leaves: []string{"x", "a"}},
		},
		"Back": {
			why: "the agent never came up in a, and is to be where it has been all the time",
			was: LocalMove{From: "x", Leaves: []string{"x"}}, at: "a", seen: "x", want: "x", there: "x", move: LocalMove{Leaves: []string{"a"}},
		},
		"Elsewhere": {
			why: "an agent may write what it likes into the status: it is asked only whether it is where it was put",
			at:  "a", seen: "kube-system", want: "b", there: "b", move: LocalMove{From: "a", Leaves: []string{"a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			there, move := c.was.nextLocal(c.at, c.seen, c.want)
			if len(move.Leaves) == 0 {
				move.Leaves = nil
			}
			if diff := cmp.Diff(c.move, move); diff != "" || there != c.there {
				t.Errorf("%s: in %q, want %q\n%s", c.why, there, c.there, diff)
			}
			noted := move.Annotate(&fleet.Cluster{})
			if diff := cmp.Diff(move, LocalMoveOf(noted)); diff != "" {
				t.Errorf("not read as it was written\n%s", diff)
			}
		})
	}
	if m := LocalMoveOf(LocalMove{}.Annotate(LocalMove{From: "a"}.Annotate(&fleet.Cluster{}))); m.From != "" {
		t.Error("a move that is none leaves no annotation")
	}
}

// The old agent is removed when the new one works and no manager would install
// the old one again.
func TestLocalMayLeave(t *testing.T) {
	m := LocalMove{From: "a", Leaves: []string{"a"}}
	for name, c := range map[string]struct {
		why  string
		s    LocalState
		want bool
	}{
		"Silent":    {why: "the new agent has not spoken", s: LocalState{At: "b", Seen: "a", Ordered: true}},
		"Unordered": {why: "the present order would install the old agent again", s: LocalState{At: "b", Seen: "b"}},
		"Arrived":   {why: "the old agent is not needed any more", s: LocalState{At: "b", Seen: "b", Ordered: true}, want: true},
	} {
		if wait := m.MayLeave(c.s); (wait == "") != c.want {
			t.Errorf("%s: %s: waits with %q", name, c.why, wait)
		}
	}
}

// Two agents with one identity are as it should be while one takes the place of
// the other, and at no other time and place.
func TestLocalMoveExpects(t *testing.T) {
	moves, moved := LocalMove{From: "a", Leaves: []string{"a"}}, LocalMove{From: "a"}
	for name, c := range map[string]struct {
		move LocalMove
		in   string
		want bool
	}{
		"Before":    {move: moves, in: "a", want: true},
		"After":     {move: moves, in: "b", want: true},
		"Elsewhere": {move: moves, in: "c"},
		"Moved":     {move: moved, in: "b"},
		"Never":     {in: "b"},
	} {
		if got := c.move.ExpectsOtherAgent(c.in, "b"); got != c.want {
			t.Errorf("%s: expects another: %v", name, got)
		}
	}
}
