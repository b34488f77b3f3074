package fleetstate

import "k8s.io/apimachinery/pkg/types"

// maxDeparted is how many objects are remembered to be gone: more than answers
// to requests can be under way.
const maxDeparted = 4096

// departed remembers which objects the watches have reported as deleted. The answer to
// one of our requests may arrive later. It is outdated, and must not bring the object
// back.
type departed struct {
	known map[types.UID]bool
	order []types.UID // a ring, the oldest at next
	next  int
}

func (d *departed) add(uid types.UID) {
	if uid == "" || d.known[uid] {
		return
	}
	if d.known == nil {
		d.known = map[types.UID]bool{}
	}
	if len(d.order) < maxDeparted {
		d.order = append(d.order, uid)
	} else {
		delete(d.known, d.order[d.next])
		d.order[d.next], d.next = uid, (d.next+1)%maxDeparted
	}
	d.known[uid] = true
}

// OnReappeared handles an object that a watch reports as new. An object that was
// deleted may appear again with the same UID: the API server was restored from a
// backup.
func (t *core) OnReappeared(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.departed.known, uid)
}
