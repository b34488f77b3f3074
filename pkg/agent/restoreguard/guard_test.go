package restoreguard

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// list is the list of a session.
type list struct {
	version string
	objects []*fleet.BundleDeployment
	unknown bool // it has not synced
	listed  bool // it is read once
}

func (l *list) HasSynced() bool { return !l.unknown }

func (l *list) Version() string { return l.version }

func (l *list) Listed() bool { return l.listed }

func (l *list) List(string) []*fleet.BundleDeployment { return l.objects }

// guardAt makes a guard with the clock of a test.
func guardAt(now *time.Time, records ...store.Record) *Guard {
	return New(Config{Now: func() time.Time { return *now }, Records: func() []store.Record { return records }})
}

// said is a deployment at a version, with an order.
func said(version, order string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "web", UID: "u", Generation: 1, ResourceVersion: version, Annotations: map[string]string{fleet.AnnotationWithdrawn: order},
	}}
}

// Another object that asks for something else than was accepted waits until its
// manager has answered a check-in since: it may have been restored elsewhere.
func TestAnotherObjectWaitsForAnAnswer(t *testing.T) {
	calls, now := 0, time.Now()
	g := guardAt(&now)
	checkIn := func() { calls++ }
	waits := func(uid types.UID, id, order string) bool {
		return g.MustWait(Request{
			Name: "web", Judged: true, Answers: g.Answers(), Known: true, Order: order, CheckIn: checkIn,
			Object: &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: fleet.BundleDeploymentSpec{DeploymentID: id}},
			Record: &store.Record{UID: "a", Applied: "one"},
		})
	}
	if waits("a", "two", "") || waits("a", "one", "o1") || waits("b", "one", "") || calls != 0 {
		t.Errorf("what is known and what was accepted does not wait, but the manager was asked %d times", calls)
	}
	first, again := waits("b", "two", ""), waits("b", "two", "")
	if !first || !again || calls != 1 {
		t.Errorf("another object waits, and asks once; asked %d times", calls)
	}
	g.Answered()
	if waits("b", "two", "") || waits("b", "one", "o1") || calls != 1 {
		t.Errorf("the manager has answered; asked %d times", calls)
	}
	if !waits("c", "one", "o1") || calls != 2 {
		t.Errorf("the order of yet another object waits for an answer of its own; asked %d times", calls)
	}
	unjudged := Request{Object: said("1", "o1"), Order: "o1", Known: true, Record: &store.Record{UID: "u"}}
	if !g.MustWait(unjudged) {
		t.Error("an order waits until the list that it came with was judged")
	}
	if !g.MustWait(Request{Missing: true}) || g.MustWait(Request{Missing: true, Judged: true}) {
		t.Error("absence is no order before the list was judged")
	}
	checkIn = nil
	if waits("d", "two", "") {
		t.Error("a manager that cannot be asked is not waited for")
	}
}

// An order that was taken back is from the past when it comes again, and another
// one is not.
func TestStaleOrder(t *testing.T) {
	for name, c := range map[string]struct {
		why   string
		order string
		want  bool
	}{
		"Revoked": {"a backup repeats what was taken back", "o1", true},
		"Another": {"the manager orders another removal", "o2", false},
		"None":    {"nothing is ordered", "", false},
	} {
		now, bd := time.Now(), said("70", c.order)
		g := guardAt(&now)
		q := Request{Name: "web", Object: bd, Order: c.order, Known: true, Record: &store.Record{UID: bd.UID, Generation: bd.Generation}}
		g.ObserveOrder("web", "o1")
		g.Assess(Request{Name: "web", Object: said("60", ""), Known: true, Record: q.Record})
		if q.Record.Revoked != "o1" {
			t.Fatalf("%s: the order that was taken back is not recorded", name)
		}
		if g.Assess(q).Stale != c.want {
			t.Errorf("%s: %s", name, c.why)
		}
	}
}

// The list of each session is judged once, after it is known as a whole, and against
// what the records and the last run of the agent say.
func TestJudge(t *testing.T) {
	mark := registration.Mark{ID: "m", Epoch: 1}
	record := store.Record{Key: store.Key{Manager: "m"}, Epoch: 1, Version: "100"}
	other := store.Record{Key: store.Key{Manager: "n"}, Epoch: 1, Version: "900"}
	for name, c := range map[string]struct {
		why      string
		last     string
		records  []store.Record
		list     *list
		judged   bool
		restored bool
	}{
		"Unsynced":     {"the list is not there", "", []store.Record{record}, &list{unknown: true, version: "1"}, false, false},
		"NoVersion":    {"the version of the list is not there", "", []store.Record{record}, &list{}, false, false},
		"Newer":        {"the list is newer than the records", "", []store.Record{record, other}, &list{version: "101"}, true, false},
		"Older":        {"the list is older than a record", "", []store.Record{other, record}, &list{version: "99"}, true, true},
		"OlderVersion": {"the list is older than the last run of the agent saw", "m/1/100", nil, &list{version: "99"}, true, true},
		"OtherManager": {"versions of two managers cannot be compared", "n/1/900", []store.Record{other}, &list{version: "99"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			g := New(Config{
				Now: time.Now, Records: func() []store.Record { return c.records },
				LastVersion: func() string { return c.last }, OnRestored: func() { found++ },
			})
			g.Judge(nil, mark)
			for range 2 {
				g.Judge(c.list, mark)
			}
			if g.Judged(c.list) != c.judged || g.Restored() != c.restored || (found == 1) != c.restored {
				t.Errorf("%s: judged %t, restored %t, reported %d times", c.why, g.Judged(c.list), g.Restored(), found)
			}
		})
	}
}

// The time for which a request is held is that of the running agent: it is written down
// in steps, a restart of the agent continues it, and a request that is not held ends it.
func TestHold(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rec := store.Record{UID: "u", Generation: 2}
	stale := Request{Name: "web", Object: said("70", ""), Known: true, Record: &rec}
	g := guardAt(&now)
	if a := g.Assess(stale); !a.Stale || a.HeldFor != 0 {
		t.Fatalf("an object of a lower generation is stale, got %+v", a)
	}
	if !g.Hold(stale) || rec.HeldSince == nil || !rec.HeldSince.Equal(now) || rec.Held != requestText(stale.Object) {
		t.Errorf("the record has to say what is held, and since when: %+v", rec)
	}
	now = now.Add(HoldStep / 2)
	if g.Hold(stale); rec.HeldFor != 0 || g.Assess(stale).HeldFor != HoldStep/2 {
		t.Errorf("half a step is measured and not written down: %s, %s", rec.HeldFor, g.Assess(stale).HeldFor)
	}
	now = now.Add(HoldStep / 2)
	if g.Hold(stale); rec.HeldFor != HoldStep || g.Assess(stale).HeldFor != HoldStep {
		t.Errorf("a whole step is written down: %s", rec.HeldFor)
	}
	now = now.Add(24 * time.Hour)
	restarted := guardAt(&now)
	if got := restarted.Assess(stale).HeldFor; got != HoldStep {
		t.Errorf("time in which the agent did not run does not count, got %s", got)
	}
	current := stale
	current.Object = said("80", "")
	current.Object.Generation = 2
	if a := g.Assess(current); a.Stale || a.HeldFor != 0 {
		t.Errorf("the manager has caught up, got %+v", a)
	}
	rec.HeldFor = 0
	if got := g.Assess(stale).HeldFor; got != 0 {
		t.Errorf("what is held again is measured from the start, got %s", got)
	}
	g.Forget("web")
	if len(g.deployments) != 0 {
		t.Error("a forgotten deployment is still known")
	}
	unknown := Request{Name: "new", Object: said("70", ""), Record: &store.Record{}}
	if g.Hold(unknown) {
		t.Error("a deployment without a record has nothing to save")
	}
}

// A manager that was restored into another cluster is held until it asks for something
// else than it asked for first; what was accepted before is not held.
func TestCopiedManager(t *testing.T) {
	now := time.Now()
	g := guardAt(&now)
	request := func(id, order string) Request {
		bd := said("5", order)
		bd.UID, bd.Spec.DeploymentID = "new", id
		rec := store.Record{Key: store.Key{Manager: "m"}, Epoch: 1, UID: "u", HeldFor: time.Hour}
		rec.Spec.DeploymentID = "one"
		return Request{Name: "web", Object: bd, Order: order, Known: true, Record: &rec, Mark: registration.Mark{ID: "m", Epoch: 2}}
	}
	if g.Assess(request("one", "")).Stale {
		t.Error("what was accepted before is not stale")
	}
	for _, q := range []Request{request("two", ""), request("one", "o1")} {
		if a := g.Assess(q); !a.Stale || a.HeldFor != 0 {
			t.Errorf("the first request of the copy is stale, and is measured from the start: %+v", a)
		}
		g.Hold(q)
		if a := g.Assess(q); !a.Stale {
			t.Error("the same request is held further")
		}
		next := request("three", "")
		next.Record = q.Record
		if g.Assess(next).Stale {
			t.Error("another request is one of the present")
		}
	}
	own := request("two", "")
	own.Agent = true
	if g.Assess(own).Stale {
		t.Error("the agent's own deployment follows the present settings of the manager")
	}
}
