package fleetstate

import "k8s.io/apimachinery/pkg/types"

// maxDeletedUIDs is how many deleted objects are remembered: more than requests can be
// in progress.
const maxDeletedUIDs = 4096

// deletedUIDs remembers which objects the watches have reported as deleted. The answer
// to an earlier request of the manager may arrive later: it is outdated, and the table
// ignores it.
type deletedUIDs struct {
	known map[types.UID]bool
	order []types.UID // a ring, the oldest at next
	next  int
}

func (d *deletedUIDs) add(uid types.UID) {
	if uid == "" || d.known[uid] {
		return
	}
	if d.known == nil {
		d.known = map[types.UID]bool{}
	}
	if len(d.order) < maxDeletedUIDs {
		d.order = append(d.order, uid)
	} else {
		delete(d.known, d.order[d.next])
		d.order[d.next], d.next = uid, (d.next+1)%maxDeletedUIDs
	}
	d.known[uid] = true
}

// OnReappeared handles an object that a watch reports as new. An object that was
// deleted may appear again with the same UID: the API server was restored from a
// backup.
func (cr *core) OnReappeared(uid types.UID) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	delete(cr.departed.known, uid)
}
