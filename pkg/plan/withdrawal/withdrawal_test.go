package withdrawal

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		why   string
		facts Facts
		want  Action
	}{
		"First":           {"an order is the only thing that makes an agent uninstall", Facts{Orders: true}, Mark},
		"SiblingsFirst":   {"new before old, so that a rename does not lose data", Facts{Orders: true, Blocked: "bundle b first"}, Wait},
		"Ordered":         {"an online agent is waited for as long as it takes", Facts{Orders: true, Order: "1"}, Wait},
		"OrderedBlocked":  {"an order that was given is not taken back by waiting", Facts{Orders: true, Order: "1", Blocked: "x"}, Wait},
		"Answered":        {"now nothing runs there", Facts{Orders: true, Order: "1", Answered: true}, Delete},
		"Abandoned":       {"a person decides that it stays behind", Facts{Orders: true, Order: "1", Abandoned: true}, Delete},
		"AbandonedEarly":  {"giving up needs an order first", Facts{Orders: true, Abandoned: true}, Mark},
		"ReferenceAgent":  {"it knows deletion only", Facts{}, Delete},
		"ReferenceBlocks": {"but not before what is new", Facts{Blocked: "x"}, Wait},
		"ClusterGone":     {"no agent is there to answer", Facts{Orders: true, Orphaned: true, Blocked: "x"}, Delete},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, reason := Decide(c.facts); got != c.want {
				t.Errorf("%s: got %d (%s), want %d", c.why, got, reason, c.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationWithdrawn: "b7"}}}
	bd.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionWithdrawn, Status: "True", Message: "a1"}}
	if Read(bd).Answered {
		t.Error("an answer to an earlier order is none to this one")
	}
	bd.Status.Conditions[0].Message = "b7"
	if !Read(bd).Answered {
		t.Error("the answer names the order")
	}
	bd.Status.AppliedDeploymentID = "s-1:2"
	if Read(bd).Answered {
		t.Error("an agent that still reports a release has not uninstalled it")
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(0, 0)
	if n, _, again := (Pace{}).Take(3, 3, now); n != 3 || again != 0 {
		t.Errorf("few go at once: %d, %s", n, again)
	}
	left, steps := 400, 0
	for p := (Pace{}); left > 0; steps++ {
		n, next, again := p.Take(left, 400, now)
		left -= n
		if n > atOnce {
			t.Fatalf("%d at once", n)
		}
		if p, now = next, now.Add(again); steps > 1000 {
			t.Fatal("it never ends")
		}
	}
	if took := now.Sub(time.Unix(0, 0)); took < 9*time.Minute || took > 10*time.Minute {
		t.Errorf("400 took %s; 10 at once, then 40 a minute", took)
	}
}

func TestRelease(t *testing.T) {
	cases := map[string]struct {
		why  string
		list []Remnant
		age  time.Duration
		want bool
	}{
		"Nothing":          {"nothing remains", nil, 0, true},
		"Offline":          {"an offline cluster keeps its order", []Remnant{{Ordered: true, Offline: true}}, 0, true},
		"NotOrdered":       {"without an order no agent would ever uninstall it", []Remnant{{Offline: true}}, time.Hour, false},
		"NotOrderedSilent": {"a silent cluster without an order keeps the Bundle, however old", []Remnant{{Silent: true}}, time.Hour, false},
		"Online":           {"an agent that reports is waited for", []Remnant{{Ordered: true}}, time.Hour, false},
		"SilentYoung":      {"perhaps it is only slow", []Remnant{{Ordered: true, Silent: true}}, time.Minute, false},
		"SilentOld":        {"five minutes are enough", []Remnant{{Ordered: true, Silent: true}}, 5 * time.Minute, true},
		"OneOfTwo":         {"all must agree", []Remnant{{Ordered: true, Offline: true}, {Ordered: true}}, time.Hour, false},
		"SilentOnline":     {"an online one is decisive", []Remnant{{Ordered: true, Silent: true}, {Ordered: true}}, 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, reason, _ := Release(c.list, c.age)
			if got != c.want || got != (reason == "") {
				t.Errorf("%s: got %v, %q", c.why, got, reason)
			}
		})
	}
}
