package restoreguard

import (
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A manager's API server that counts from a lower version on than it had reached was
// restored: what it says then is old, until it says something else.
func TestPast(t *testing.T) {
	first, second, third := &list{}, &list{}, &list{}
	d, now := &detector{}, time.Now()
	covers := func(bd *fleet.BundleDeployment) bool { return d.wasInRestoredList(bd.Name, requestText(bd)) }
	d.observeResourceVersion("m/1", "100")
	d.observeResourceVersion("m/1", "90")
	d.observeResourceVersion("m/1", "word")
	if d.isJudged(first) || d.isOlder(first, "m/1", "100", now) || !d.isJudged(first) {
		t.Error("the same version is not older")
	}
	if covers(said("1", "")) {
		t.Error("nothing is old yet")
	}
	if !d.isOlder(second, "m/1", "70", now) || d.isOlder(second, "m/1", "60", now) {
		t.Error("a lower one is, and is reported once")
	}
	d.observeVersion("m/1", nil, said("70", "o1"), now)
	d.observeVersion("m/1", said("70", "o1"), said("75", "o1"), now)
	if !covers(said("75", "o1")) {
		t.Error("a report of how it is makes an old order no new one")
	}
	if covers(said("76", "o2")) {
		t.Error("another order is one of the present")
	}
	if d.isOlder(third, "m/1", "85", now) || !covers(said("75", "o1")) {
		t.Error("a list that goes on from there is no other restore, and what was old stays old")
	}
	d.observeResourceVersion("m/2", "3")
	if d.isOlder(first, "m/2", "4", now) || covers(said("75", "o1")) {
		t.Error("versions of another manager, or of its copy, cannot be compared")
	}
}

// An object never becomes older by itself: whether a list that brought one is old as
// a whole is found out as soon as it is known.
func TestPastWithinASession(t *testing.T) {
	s := &list{}
	d, now := &detector{}, time.Now()
	d.observeVersion("m/1", said("90", ""), said("100", ""), now)
	if d.isOlder(s, "m/1", "100", now) || !d.isJudged(s) {
		t.Error("an object that became newer is no reason")
	}
	d.observeVersion("m/1", said("100", ""), said("60", ""), now)
	if d.isJudged(s) || d.isOlder(s, "m/1", "100", now) || d.isJudged(s) {
		t.Error("the list that brought an older object is not known yet")
	}
	if !d.isOlder(s, "m/1", "70", now) || !d.isJudged(s) {
		t.Error("now it is")
	}
	d.observeVersion("m/1", said("80", ""), said("65", ""), now)
	if d.isOlder(s, "m/1", "120", now) || !d.isOlder(s, "m/1", "120", now.Add(suspectLimit)) {
		t.Error("a list that has caught up since is judged all the same, a little later")
	}
}

// An informer stores an event, and tells of it, before it notes the event's version: a list
// that is behind one of its own objects is not older, and is judged a moment later.
func TestVersionBehindItsObjects(t *testing.T) {
	d, now := &detector{}, time.Now()
	fresh := said("100", "")
	d.observeVersion("m/1", nil, fresh, now)
	s := &list{objects: []*fleet.BundleDeployment{fresh}}
	if d.isOlder(s, "m/1", "90", now) || d.isJudged(s) {
		t.Error("the version comes in a moment")
	}
	if d.isOlder(s, "m/1", "100", now) || !d.isJudged(s) {
		t.Error("now it is here, and the list is not older")
	}
}

// A list that is read once has the objects that the agent has written since. It is judged all
// the same: otherwise an agent that connects by a schedule would carry out no order.
func TestVersionBehindOwnWrites(t *testing.T) {
	d, now := &detector{}, time.Now()
	s := &list{listed: true, objects: []*fleet.BundleDeployment{said("100", "")}}
	d.observeVersion("m/1", nil, said("80", ""), now)
	if d.isOlder(s, "m/1", "90", now) || !d.isJudged(s) {
		t.Error("want it judged, and not older")
	}
	restored := &list{listed: true, objects: []*fleet.BundleDeployment{said("75", "")}}
	if !d.isOlder(restored, "m/1", "70", now) || !d.isJudged(restored) {
		t.Error("want a list of a restored manager found in spite of a write")
	}
}

// A version that is no number cannot be compared: the list is judged, and is not older.
func TestVersionThatIsNoNumber(t *testing.T) {
	d, now := &detector{}, time.Now()
	fresh := said("100", "")
	d.observeVersion("m/1", nil, fresh, now)
	s := &list{objects: []*fleet.BundleDeployment{fresh}}
	if d.isOlder(s, "m/1", "word", now) || !d.isJudged(s) {
		t.Error("want it judged, and not older")
	}
}
