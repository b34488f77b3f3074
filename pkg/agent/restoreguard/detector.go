package restoreguard

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A detector detects that the manager's API server was restored from a backup.
type detector struct {
	mu       sync.Mutex
	manager  string // whose versions are compared: "<id>/<epoch>"
	highest  uint64 // that was seen
	restored uint64 // of the first list with a lower one; 0: there was none
	judged   List
	old      map[string]string // the requests in that list, by name; see requestText
	suspect  time.Time         // since when an object has a lower version than before
	kept     bool              // the versions of the agent's records were taken in
	doubted  map[string]bool   // new objects with lower versions than others before, by name
}

// suspectLimit is how long the list that brings older objects may take to be known
// as a whole.
const suspectLimit = 2 * time.Second

// observeVersion stores the resourceVersion of an object (now) after the one that it
// had before. A version that is lower than before shows a restore: then the list is
// judged again.
func (d *detector) observeVersion(manager string, before, now *fleet.BundleDeployment, at time.Time) {
	is, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	d.mu.Lock()
	if is <= d.restored {
		d.old[now.Name] = requestText(now)
	}
	if before == nil && d.judged != nil && manager == d.manager {
		d.addSuspect(now.Name, is)
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
	d.observeResourceVersion(manager, now.ResourceVersion)
}

// observeResourceVersion stores a resourceVersion of a manager. It ignores one that is
// not a number.
func (d *detector) observeResourceVersion(manager, version string) {
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

// isOlder compares the first list of a session with the versions that were seen before.
// It returns true once for a list that is older. It does not judge a list yet whose
// version is lower than that of one of its objects: an informer stores an event before
// it updates its version. A list that is not kept current receives no events.
func (d *detector) isOlder(l List, manager, version string, now time.Time) (older bool) {
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
	case err == nil && !l.Listed() && slices.ContainsFunc(list, func(bd *fleet.BundleDeployment) bool { return isAbove(bd, n) }):
		return false
	}
	d.judged, d.suspect, d.doubted = l, time.Time{}, nil
	if err != nil || manager != d.manager || n >= d.highest && !suspected {
		return false
	}
	d.restored, d.highest, d.old = n, n, map[string]string{}
	for _, bd := range list {
		if _, err := strconv.ParseUint(bd.ResourceVersion, 10, 64); err == nil {
			d.old[bd.Name] = requestText(bd)
		}
	}
	return true
}

// isAbove reports whether an object has a higher version than n.
func isAbove(bd *fleet.BundleDeployment, n uint64) bool {
	v, err := strconv.ParseUint(bd.ResourceVersion, 10, 64)
	return err == nil && v > n
}

// firstTime returns true the first time.
func (d *detector) firstTime() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.kept
	d.kept = true
	return first
}

// isJudged reports whether the first list of a session was judged.
func (d *detector) isJudged(l List) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.judged == l
}

// wasRestored reports whether the detector has found a restore since the agent's start.
func (d *detector) wasRestored() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.restored > 0
}

// wasInRestoredList reports whether a restored manager asked for exactly this with a
// deployment.
func (d *detector) wasInRestoredList(name, said string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, ok := d.old[name]
	return ok && old == said
}

// addSuspect records a new object if its version is lower than versions that were seen
// before: it came with a list, which may be of a restored manager. The caller holds
// d.mu.
func (d *detector) addSuspect(name string, version uint64) {
	if version >= d.highest {
		return
	}
	if d.doubted == nil {
		d.doubted = map[string]bool{}
	}
	d.doubted[name] = true
}

// isSuspect reports whether addSuspect has recorded a deployment.
func (d *detector) isSuspect(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doubted[name]
}

// text returns the highest version that was seen, "<id>/<epoch>/<version>", for the
// next run of the agent; empty if there is none.
func (d *detector) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.highest == 0 {
		return ""
	}
	return d.manager + "/" + strconv.FormatUint(d.highest, 10)
}

// parseText restores what text returned in an earlier run.
func (d *detector) parseText(text string) {
	if i := strings.LastIndex(text, "/"); i > 0 {
		d.observeResourceVersion(text[:i], text[i+1:])
	}
}
