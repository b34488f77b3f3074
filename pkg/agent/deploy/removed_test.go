package deploy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	r := &Reconciler{}
	r.restores = restoreDetector{manager: "m/1", highest: 100, restored: 60, old: map[string]string{"old": wordOf(wanted("old", "50", ""))}}
	cases := map[string]struct {
		why  string
		s    *snapshot
		want bool
	}{
		"Old":       {why: "the restored manager said so, and there is no record", s: &snapshot{bd: wanted("old", "50", "")}, want: true},
		"Known":     {why: "it is deployed", s: &snapshot{bd: wanted("old", "50", ""), known: true}},
		"New":       {why: "it was made after the restore", s: &snapshot{bd: wanted("new", "70", "")}},
		"Withdrawn": {why: "there is nothing to install", s: &snapshot{bd: wanted("old", "50", "o1")}},
		"Missing":   {why: "the manager has it no more", s: &snapshot{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := r.mayBeRemoved(c.s); got != c.want {
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
	if !r.mayBeRemoved(&snapshot{bd: held(1)}) {
		t.Error("what an earlier run of the agent held is held after a restart, whatever its version is")
	}
	if r.mayBeRemoved(&snapshot{bd: held(0)}) {
		t.Error("the manager has said something else since that was held")
	}
	changed := wanted("old", "70", "")
	changed.Generation = 2
	if r.mayBeRemoved(&snapshot{bd: changed}) {
		t.Error("what the manager has written since the restore counts")
	}
}

// What is not known waits until the list that it came with was judged; within a
// session it waits for an answer only if its version is lower than others were.
func TestUnknownWaitsForTheJudgement(t *testing.T) {
	calls, now := 0, time.Now()
	r, states := &Reconciler{}, map[string]*state{"a": {}, "newer": {}, "older": {}}
	r.SetManager(registration.Mark{ID: "m", Epoch: 1})
	session := &Session{CheckIn: func() { calls++ }}
	waits := func(bd *fleet.BundleDeployment, judged bool) bool {
		return r.mustJudge(&snapshot{session: session, judged: judged, answers: r.answers.Load(), state: states[bd.Name], bd: bd})
	}
	if !waits(wanted("a", "90", ""), false) {
		t.Error("the first list was not judged yet")
	}
	if r.restores.judge(session, "m/1", "100", now); waits(wanted("a", "90", ""), true) || calls != 0 {
		t.Error("the first list is no older one")
	}
	r.restores.seen("m/1", "100")
	r.restores.changed("m/1", nil, wanted("newer", "110", ""), now)
	r.restores.changed("m/1", nil, wanted("older", "60", ""), now)
	if waits(wanted("newer", "110", ""), true) || calls != 0 {
		t.Error("a new object waits for nobody")
	}
	if !waits(wanted("older", "60", ""), true) || calls != 1 {
		t.Errorf("an object that is older than others waits for an answer; asked %d times", calls)
	}
	r.Answered(registration.Mark{ID: "m", Epoch: 1})
	if waits(wanted("older", "60", ""), true) {
		t.Error("the manager has answered")
	}
}

// The highest version is known after a restart, also if no record holds it.
func TestVersionSurvivesARestart(t *testing.T) {
	before, after := &restoreDetector{}, &restoreDetector{}
	before.seen("m/1", "100")
	after.recall(before.text())
	if s := (&Session{}); !after.judge(s, "m/1", "60", time.Now()) {
		t.Error("a list of a lower version is an older one")
	}
	empty := &restoreDetector{}
	for _, text := range []string{"", "garbage", "/", "m/1/x", before.text()[:0]} {
		empty.recall(text)
	}
	if empty.text() != "" {
		t.Errorf("garbage was taken for a version: %q", empty.text())
	}
}
