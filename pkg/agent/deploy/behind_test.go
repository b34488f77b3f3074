package deploy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// said is a deployment at a version, with an order.
func said(version, order string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "web", UID: "u", Generation: 1, ResourceVersion: version, Annotations: map[string]string{fleet.AnnotationWithdrawn: order},
	}}
}

// A manager's API server that counts from a lower version on than it had reached was
// restored: what it says then is old, until it says something else.
func TestPast(t *testing.T) {
	first, second, third := &Session{}, &Session{}, &Session{}
	p, now := &past{}, time.Now()
	covers := func(bd *fleet.BundleDeployment) bool { return p.covers(bd.Name, wordOf(bd)) }
	p.seen("m/1", "100")
	p.seen("m/1", "90")
	p.seen("m/1", "word")
	if p.knows(first) || p.judge(first, "m/1", "100", now) || !p.knows(first) {
		t.Error("the same version is not older")
	}
	if covers(said("1", "")) {
		t.Error("nothing is old yet")
	}
	if !p.judge(second, "m/1", "70", now) || p.judge(second, "m/1", "60", now) {
		t.Error("a lower one is, and is told once")
	}
	p.changed("m/1", nil, said("70", "o1"), now)
	p.changed("m/1", said("70", "o1"), said("75", "o1"), now)
	if !covers(said("75", "o1")) {
		t.Error("a report of how it is makes an old order no new one")
	}
	if covers(said("76", "o2")) {
		t.Error("another order is one of the present")
	}
	if p.judge(third, "m/1", "85", now) || !covers(said("75", "o1")) {
		t.Error("a list that goes on from there is no other restore, and what was old stays old")
	}
	p.seen("m/2", "3")
	if p.judge(first, "m/2", "4", now) || covers(said("75", "o1")) {
		t.Error("versions of another manager, or of its copy, cannot be compared")
	}
}

// An object never becomes older by itself: whether a list that brought one is old as
// a whole is found out as soon as it is known.
func TestPastWithinASession(t *testing.T) {
	s := &Session{}
	p, now := &past{}, time.Now()
	p.changed("m/1", said("90", ""), said("100", ""), now)
	if p.judge(s, "m/1", "100", now) || !p.knows(s) {
		t.Error("an object that became newer is no reason")
	}
	p.changed("m/1", said("100", ""), said("60", ""), now)
	if p.knows(s) || p.judge(s, "m/1", "100", now) || p.knows(s) {
		t.Error("the list that brought an older object is not known yet")
	}
	if !p.judge(s, "m/1", "70", now) || !p.knows(s) {
		t.Error("now it is")
	}
	p.changed("m/1", said("80", ""), said("65", ""), now)
	if p.judge(s, "m/1", "120", now) || !p.judge(s, "m/1", "120", now.Add(suspectLimit)) {
		t.Error("a list that has caught up since is judged all the same, a little later")
	}
}
