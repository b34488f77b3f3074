package deploy

import (
	"slices"
	"sync"
	"time"
)

// removalDelay is the delay after which a removal that found no room asks again, if no
// other removal has called it before.
const removalDelay = 5 * time.Second

// A removalGate admits a few removals at once, and keeps the order of the others: many
// removals must not occupy all workers of the controller.
type removalGate struct {
	room int

	mu      sync.Mutex
	inside  map[string]bool
	waiting []string
}

// newRemovalGate makes a gate for a controller with a number of workers: most of them
// stay free.
func newRemovalGate(workers int) *removalGate {
	return &removalGate{room: max(workers/4, 1), inside: map[string]bool{}}
}

// enter reports whether a removal may begin. If not, leave returns its name later.
func (g *removalGate) enter(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, name)
	if len(g.inside) >= g.room {
		if at < 0 {
			g.waiting = append(g.waiting, name)
		}
		return false
	}
	if at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
	}
	g.inside[name] = true
	return true
}

// leave ends a removal, and returns the name of the next; empty if none waits, or if
// name had not entered.
func (g *removalGate) leave(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.inside[name] {
		return ""
	}
	delete(g.inside, name)
	if len(g.waiting) == 0 {
		return ""
	}
	next := g.waiting[0]
	g.waiting = g.waiting[1:]
	return next
}
