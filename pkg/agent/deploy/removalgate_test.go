package deploy

import "testing"

// A few removals run at once, in the order in which they came; room that one
// makes is offered to the next.
func TestGate(t *testing.T) {
	g := newRemovalGate(8)
	if !g.enter("a") || !g.enter("b") || g.enter("c") || g.enter("d") || g.enter("c") {
		t.Fatal("two of eight workers may remove")
	}
	if next := g.leave("a"); next != "c" {
		t.Errorf("c came first, got %q", next)
	}
	if g.leave("a") != "" {
		t.Error("who is not inside makes no room")
	}
	if !g.enter("e") || g.enter("c") {
		t.Error("room belongs to who takes it first")
	}
	if next := g.leave("b"); next != "d" {
		t.Errorf("want d, got %q", next)
	}
	if !g.enter("d") || g.leave("d") != "c" || !g.enter("c") {
		t.Error("who was turned away again waits again")
	}
	if small := newRemovalGate(1); !small.enter("a") || small.enter("b") {
		t.Error("there is always room for one")
	}
}
