package checkin

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// TestCheckIn runs all tests with one manager, whose agents check in every
// second.
func TestCheckIn(t *testing.T) {
	w := newWorld(t, "1s")
	for name, test := range map[string]func(*world, *member){
		"Missed": missed, "Schedule": schedule, "Refused": refused, "OwnInterval": ownInterval,
		"CredentialDeleted": credentialDeleted, "AccountDeleted": accountDeleted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(w, w.member(t, strings.ToLower(name)))
		})
	}
}

// An agent that stops is Offline after three missed check-ins. The manager sends an
// event for that, and one when the agent is back.
func missed(_ *world, m *member) {
	m.join()
	m.Until("the agent follows its manager", func() bool { return m.heartbeat() == time.Second })
	if c := m.cluster(); c.Annotations[fleet.AnnotationCheckInInterval] != "1s" {
		m.Errorf("the Cluster says %v", c.Annotations)
	}
	m.Stop()
	m.Until("it is Offline", func() bool { return m.cluster().Status.Display.State == fleet.Offline })
	if took := time.Since(m.cluster().Status.Agent.LastSeen.Time); took < 3*time.Second {
		m.Errorf("Offline %s after it was seen last", took)
	}
	m.Until("there is an event for it", func() bool { return strings.HasPrefix(m.events()[fleet.ReasonOffline], "the agent missed 3 check-ins") })
	connected := condition.Find(m.cluster().Status.Conditions, fleet.ConditionConnected)
	if connected == nil || connected.Status != corev1.ConditionFalse || connected.Reason != fleet.ReasonOffline {
		m.Errorf("the condition is %+v", connected)
	}
	m.Start()
	m.Until("it is back", func() bool {
		c := m.cluster()
		return c.Status.Display.State != fleet.Offline && condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected)
	})
	m.Until("there is an event for it", func() bool { return strings.HasPrefix(m.events()["Online"], "the agent reports again after ") })
}

// every is the time between two visits of the agents here.
const every = 12 * time.Second

// What a Cluster says of a schedule reaches its agent in its own bundle, and takes
// effect without a restart: the agent visits at once, says when it comes next, and
// hangs up. Until then it asks nothing and is not missed. Back in touch always it is
// as soon as that reaches it.
func schedule(_ *world, m *member) {
	m.join()
	m.Until("the agent is always connected", func() bool { return m.heartbeat() == time.Second })
	before := m.cluster().Status.Agent.Instance

	asked := time.Now()
	m.ask(&fleet.ClusterCheckIn{Mode: heartbeat.ModePoll, Schedule: "*/12 * * * * *"})
	m.Until("it has reached the agent", func() bool { return m.Contact()["next"] != "" })
	next := m.visited(asked)
	quiet := time.Now()
	for time.Until(next) > time.Second {
		if c := m.cluster(); c.Status.Display.State == fleet.Offline && time.Now().Before(next) {
			m.Fatalf("Offline between two visits: last seen %s, next %s", c.Status.Agent.LastSeen, c.Status.Agent.NextCheckIn)
		}
		time.Sleep(200 * time.Millisecond) // the stretch of time is what is looked at
	}
	for _, r := range m.requests(quiet) {
		if r.At.Before(next.Add(-time.Second)) {
			m.Errorf("asked in between: %s", r)
		}
	}
	m.visited(next)
	m.neverOffline(quiet, next)

	m.ask(nil)
	m.Until("it is always connected again", func() bool { return m.heartbeat() == time.Second })
	if after := m.cluster().Status.Agent.Instance; after != before || before == "" {
		m.Errorf("the agent was %q and is %q: it was started again", before, after)
	}
}

// visited waits until the agent has hung up after a visit that began after a moment,
// and returns when it comes next.
func (m *member) visited(since time.Time) time.Time {
	m.Helper()
	var next time.Time
	m.Until("a visit is over", func() bool {
		var err error
		if next, err = time.Parse(time.RFC3339, m.Contact()["next"]); err != nil || time.Until(next) < time.Second {
			return false
		}
		c := m.cluster()
		a := c.Status.Agent
		// While it was connected always it may have been late for that.
		return a.LastSeen.After(since.Add(-time.Second)) && a.NextCheckIn.Time.Equal(next) && c.Status.Display.State != fleet.Offline
	})
	if left := time.Until(next); left > every+every/10+time.Second {
		m.Errorf("it says that it comes in %s", left)
	}
	return next
}

// An order that makes no sense changes nothing, and is said.
func refused(_ *world, m *member) {
	m.join()
	m.Until("the agent is always connected", func() bool { return m.heartbeat() == time.Second })
	harness.Edit(m.TB, m.Down, m.Namespace, fleet.ConfigMapAgent, func(cm *corev1.ConfigMap) {
		cm.Data[heartbeat.KeyCheckIn] = `{"mode":"poll","schedule":"every night"}`
	})
	text := m.says("CheckInRefused")
	for _, want := range []string{`schedule "every night"`, "the agent is always connected"} {
		if !strings.Contains(text, want) {
			m.Errorf("it says %q, and not %q", text, want)
		}
	}
	seen := m.cluster().Status.Agent.LastSeen
	m.Until("it goes on", func() bool { return m.cluster().Status.Agent.LastSeen.After(seen.Time) })
}

// An agent that was given an interval of its own keeps it, and is not missed before
// it comes.
func ownInterval(_ *world, m *member) {
	m.Config.CheckinInterval = 8 * time.Second
	m.join()
	m.Until("it says how often it comes", func() bool { return m.heartbeat() > 4*time.Second })
	first := m.cluster().Status.Agent
	m.Until("and comes", func() bool { return m.cluster().Status.Agent.LastSeen.Sub(first.LastSeen.Time) > 6*time.Second })
	m.neverOffline(first.LastSeen.Time, first.NextCheckIn.Time)
}

// A change of the manager's setting reaches agents that run, and restarts none; the
// manager misses them accordingly.
func TestChange(t *testing.T) {
	w := newWorld(t, "1s")
	m := w.member(t, "changes").join()
	m.Until("it follows the first setting", func() bool { return m.heartbeat() == time.Second })
	before := m.cluster().Status.Agent.Instance
	w.halt()
	w.manage("5s")
	m.Until("it follows the second one", func() bool { return m.heartbeat() > time.Second })
	m.Until("the Cluster says so", func() bool { return m.cluster().Annotations[fleet.AnnotationCheckInInterval] == "5s" })
	w.halt()
	w.manage("auto")
	m.Until("the Cluster has the usual interval", func() bool { return m.cluster().Annotations[fleet.AnnotationCheckInInterval] == "1m" })
	if after := m.cluster().Status.Agent.Instance; after != before || before == "" {
		t.Errorf("the agent was %q and is %q: it was started again", before, after)
	}
}
