package deploy

import (
	"slices"
	"sync"
	"time"
)

// removalDelay is the delay after which a removal that found no room asks again, if no
// other removal has called it before.
const removalDelay = 5 * time.Second

// A gate admits a few deployments at once and remembers the order of the others: many
// removals must not block the loop for other work.
type gate struct {
	room int

	mu      sync.Mutex
	inside  map[string]bool
	waiting []string
}

// newGate is a gate for a loop with a number of workers: most of them stay free.
func newGate(workers int) *gate {
	return &gate{room: max(workers/4, 1), inside: map[string]bool{}}
}

// enter reports whether there is room for name. If not, leave returns it when there is
// room.
func (g *gate) enter(name string) bool {
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

// leave makes room again, and returns the next in turn; empty if none waits or name was
// not inside.
func (g *gate) leave(name string) string {
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
