package deploy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
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
	p, now := &restoreDetector{}, time.Now()
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
	p, now := &restoreDetector{}, time.Now()
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

// Another object that asks for something else than was accepted waits until its
// manager has answered a check-in since: it may have been restored elsewhere.
func TestUnknownNames(t *testing.T) {
	calls := 0
	r := &Reconciler{}
	r.SetManager(registration.Mark{ID: "m", Epoch: 1})
	st, session := &state{}, &Session{CheckIn: func() { calls++ }}
	waits := func(uid types.UID, id, order string) bool {
		return r.mustJudge(&snapshot{
			session: session, judged: true, answers: r.answers.Load(), state: st, known: true,
			bd:  &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: fleet.BundleDeploymentSpec{DeploymentID: id}},
			rec: store.Record{UID: "a", Applied: "one"}, wanted: release.Wanted{Order: order},
		})
	}
	if waits("a", "two", "") || waits("a", "one", "o1") || waits("b", "one", "") || calls != 0 {
		t.Errorf("what is known and what was accepted waits for nobody, but the manager was asked %d times", calls)
	}
	first, again := waits("b", "two", ""), waits("b", "two", "")
	if !first || !again || calls != 1 {
		t.Errorf("another object waits, and asks once; asked %d times", calls)
	}
	r.SetManager(registration.Mark{ID: "m", Epoch: 1})
	if !waits("b", "two", "") {
		t.Error("what was remembered of the manager is no answer")
	}
	r.Answered(registration.Mark{ID: "m", Epoch: 2})
	if waits("b", "two", "") || waits("b", "one", "o1") || calls != 1 {
		t.Errorf("the manager has answered; asked %d times", calls)
	}
	if !waits("c", "one", "o1") || calls != 2 {
		t.Errorf("the order of yet another object waits for an answer of its own; asked %d times", calls)
	}
	session.CheckIn = nil
	if waits("d", "two", "") {
		t.Error("where nobody can be asked nobody waits")
	}
}

// An order that was taken back is from the past when it comes again, and another
// one is not.
func TestStaleOrder(t *testing.T) {
	r := &Reconciler{}
	for name, c := range map[string]struct {
		why   string
		order string
		want  bool
	}{
		"Revoked": {"a backup gives again what was taken back", "o1", true},
		"Another": {"the manager orders a removal anew", "o2", false},
		"None":    {"nothing is ordered", "", false},
	} {
		bd := said("70", c.order)
		s := &snapshot{bd: bd, known: true, rec: store.Record{UID: bd.UID, Generation: bd.Generation, Revoked: "o1"}}
		if r.stale(s, c.order) != c.want {
			t.Errorf("%s: %s", name, c.why)
		}
	}
}
