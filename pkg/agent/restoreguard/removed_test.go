package restoreguard

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func wanted(name, version, order string) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", Generation: 1, ResourceVersion: version},
		Spec:       fleet.BundleDeploymentSpec{DeploymentID: "one"},
	}
	if order != "" {
		bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: order}
	}
	return bd
}

func TestMayBeRemoved(t *testing.T) {
	g := &Guard{detector: detector{manager: "m/1", highest: 100, restored: 60, old: map[string]string{"old": requestText(wanted("old", "50", ""))}}}
	cases := map[string]struct {
		why  string
		q    Request
		want bool
	}{
		"Old":       {why: "the restored manager said so, and there is no record", q: Request{Object: wanted("old", "50", "")}, want: true},
		"Known":     {why: "it is deployed", q: Request{Object: wanted("old", "50", ""), Known: true}},
		"New":       {why: "it was made after the restore", q: Request{Object: wanted("new", "70", "")}},
		"Withdrawn": {why: "there is nothing to install", q: Request{Object: wanted("old", "50", "o1")}},
		"Missing":   {why: "the manager has it no more", q: Request{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := g.mayBeRemoved(c.q); got != c.want {
				t.Errorf("%s: got %t", c.why, got)
			}
		})
	}
	held := func(generation int64) *fleet.BundleDeployment {
		bd := wanted("new", "170", "")
		bd.Status.Conditions = []fleet.Condition{{
			Type: fleet.ConditionDeployed, Status: corev1.ConditionUnknown, Reason: release.ReasonManagerBehind, ObservedGeneration: generation,
		}}
		return bd
	}
	if !g.mayBeRemoved(Request{Object: held(1)}) {
		t.Error("what an earlier run of the agent held is held after a restart, whatever its version is")
	}
	if g.mayBeRemoved(Request{Object: held(0)}) {
		t.Error("the manager has said something else since that was held")
	}
	changed := wanted("old", "70", "")
	changed.Generation = 2
	if g.mayBeRemoved(Request{Object: changed}) {
		t.Error("what the manager has written since the restore counts")
	}
}

// What is not known waits until the list that it came with was judged; within a
// session it waits for an answer only if its version is lower than others were.
func TestUnknownWaitsForTheJudgement(t *testing.T) {
	calls, now := 0, time.Now()
	g, mark := guardAt(&now), registration.Mark{ID: "m", Epoch: 1}
	waits := func(bd *fleet.BundleDeployment, judged bool) bool {
		return g.MustWait(Request{
			Name: bd.Name, Object: bd, Judged: judged, Answers: g.Answers(), Record: &store.Record{}, CheckIn: func() { calls++ },
		})
	}
	if !waits(wanted("a", "90", ""), false) {
		t.Error("the first list was not judged yet")
	}
	if g.Judge(&list{version: "100"}, mark); waits(wanted("a", "90", ""), true) || calls != 0 {
		t.Error("the first list is no older one")
	}
	g.Observe(mark, wanted("newer", "90", ""), wanted("newer", "100", ""))
	g.Observe(mark, nil, wanted("newer", "110", ""))
	g.Observe(mark, nil, wanted("older", "60", ""))
	if waits(wanted("newer", "110", ""), true) || calls != 0 {
		t.Error("a new object does not wait")
	}
	if !waits(wanted("older", "60", ""), true) || calls != 1 {
		t.Errorf("an object that is older than others waits for an answer; asked %d times", calls)
	}
	g.Answered()
	if waits(wanted("older", "60", ""), true) {
		t.Error("the manager has answered")
	}
}

// The highest version is known after a restart, also if no record holds it.
func TestVersionSurvivesARestart(t *testing.T) {
	before, after := &detector{}, &detector{}
	before.observeResourceVersion("m/1", "100")
	after.parseText(before.text())
	if s := (&list{}); !after.isOlder(s, "m/1", "60", time.Now()) {
		t.Error("a list of a lower version is an older one")
	}
	empty := &detector{}
	for _, text := range []string{"", "garbage", "/", "m/1/x", before.text()[:0]} {
		empty.parseText(text)
	}
	if empty.text() != "" {
		t.Errorf("garbage was taken for a version: %q", empty.text())
	}
}
