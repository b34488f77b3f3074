package restoreguard

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// detector notices that the manager's API server was restored from a backup.
type detector struct {
	mu       sync.Mutex
	manager  string // whose versions are compared: "<id>/<epoch>"
	highest  uint64 // that was seen
	restored uint64 // of the first list with a lower one; 0: there was none
	judged   List
	old      map[string]string // what that list said, by name; see wordOf
	suspect  time.Time         // since when an object has a lower version than before
	kept     bool              // the versions of the agent's records were taken in
	doubted  map[string]bool   // new objects with lower versions than others before, by name
}

// suspectLimit is how long the list that brings older objects may take to be known
// as a whole.
const suspectLimit = 2 * time.Second

// changed stores the version of an object, after the one that it had before. An
// object's version never decreases otherwise, so the list has to be judged again.
func (d *detector) changed(manager string, before, now *fleet.BundleDeployment, at time.Time) {
	is, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	d.mu.Lock()
	if is <= d.restored {
		d.old[now.Name] = wordOf(now)
	}
	if before == nil && d.judged != nil && manager == d.manager {
		d.doubt(now.Name, is)
	}
	d.mu.Unlock()
	if before != nil {
		if was, err := strconv.ParseUint(before.ResourceVersion, 10, 64); err == nil && is < was {
			d.mu.Lock()
			d.judged, d.suspect = nil, at
			d.mu.Unlock()
			return
		}
	}
	d.seen(manager, now.ResourceVersion)
}

// seen stores a resourceVersion of a manager. It ignores one that is no number.
func (d *detector) seen(manager, version string) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if manager != d.manager {
		d.manager, d.highest, d.restored, d.old = manager, 0, 0, nil
	}
	d.highest = max(d.highest, n)
}

// judge compares the first list of a session with what was seen before. It is
// true once for a list that is older. A list whose version is lower than that of one of its
// objects is not judged yet: an informer stores an event before it notes its version.
func (d *detector) judge(l List, manager, version string, now time.Time) (older bool) {
	list := l.List("")
	n, err := strconv.ParseUint(version, 10, 64)
	d.mu.Lock()
	defer d.mu.Unlock()
	suspected := !d.suspect.IsZero()
	switch {
	case d.judged == l:
		return false
	case suspected && n >= d.highest && now.Sub(d.suspect) < suspectLimit:
		return false // the version of the list before
	case err == nil && slices.ContainsFunc(list, func(bd *fleet.BundleDeployment) bool { return isAbove(bd, n) }):
		return false
	}
	d.judged, d.suspect, d.doubted = l, time.Time{}, nil
	if err != nil || manager != d.manager || n >= d.highest && !suspected {
		return false
	}
	d.restored, d.highest, d.old = n, n, map[string]string{}
	for _, bd := range list {
		if _, err := strconv.ParseUint(bd.ResourceVersion, 10, 64); err == nil {
			d.old[bd.Name] = wordOf(bd)
		}
	}
	return true
}

// isAbove reports whether an object has a higher version than n.
func isAbove(bd *fleet.BundleDeployment, n uint64) bool {
	v, err := strconv.ParseUint(bd.ResourceVersion, 10, 64)
	return err == nil && v > n
}

// once is true the first time.
func (d *detector) once() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.kept
	d.kept = true
	return first
}

// knows reports whether the first list of a session was judged.
func (d *detector) knows(l List) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.judged == l
}

// wasRestored reports whether the manager was found to be restored from a backup since
// the agent's start.
func (d *detector) wasRestored() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.restored > 0
}

// covers reports whether a manager that had just been restored said this of a
// deployment.
func (d *detector) covers(name, said string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, ok := d.old[name]
	return ok && old == said
}

// doubt notes a new object that has a lower version than what was seen before it: it
// came with a list, and that list may be of a manager that was restored. The caller
// holds d.mu.
func (d *detector) doubt(name string, version uint64) {
	if version >= d.highest {
		return
	}
	if d.doubted == nil {
		d.doubted = map[string]bool{}
	}
	d.doubted[name] = true
}

// doubts reports whether a new object came with a lower version than others before.
func (d *detector) doubts(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doubted[name]
}

// text is the highest version that was seen, "<id>/<epoch>/<version>", for the next
// run of the agent; empty: none was.
func (d *detector) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.highest == 0 {
		return ""
	}
	return d.manager + "/" + strconv.FormatUint(d.highest, 10)
}

// recall parses what text returned in an earlier run.
func (d *detector) recall(text string) {
	if i := strings.LastIndex(text, "/"); i > 0 {
		d.seen(text[:i], text[i+1:])
	}
}
