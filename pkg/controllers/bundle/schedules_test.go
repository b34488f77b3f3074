package bundle

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

// scheduledWorld is a workspace with a Cluster, a Bundle, and a manager that acts on
// Schedules. It begins on 1 January 2000, 00:00 UTC.
type scheduledWorld struct {
	*looptest.World
	stop func()
}

// scheduled runs f beside a manager that acts on Schedules.
func scheduled(t *testing.T, f func(w *scheduledWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.New(t)
		w := &scheduledWorld{World: &looptest.World{T: t, Server: s, User: s.Connect("user")}}
		givenCluster(w.World)
		makeWeb(w.World, nil)
		w.start(true)
		f(w)
		w.stop()
	})
}

// start starts a manager.
func (w *scheduledWorld) start(schedules bool) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	all := New(Config{Namespace: "system", ManagerID: "me", CheckinInterval: time.Minute, Schedules: schedules},
		w.Server.Connect("process"), logrus.NewEntry(log))
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- kube.Run(ctx, nil, all.Runnables()...) }()
	w.stop = func() {
		cancel()
		w.Must(<-done)
	}
}

// until lets time pass until a time of 1 January 2000.
func (w *scheduledWorld) until(hour, minute int) {
	pass(time.Until(time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC)))
}

// make makes a Schedule for clusters with a label, or for c1 if label is empty.
func (w *scheduledWorld) make(name, cron string, duration time.Duration, label string) {
	s := &fleet.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}}
	s.Spec.Schedule, s.Spec.Duration = cron, &metav1.Duration{Duration: duration}
	s.Spec.Targets.Clusters = []fleet.ScheduleTarget{{ClusterName: "c1"}}
	if label != "" {
		s.Spec.Targets.Clusters = []fleet.ScheduleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": label}}}}
	}
	looptest.Make(w.World, s)
}

// checkIn checks in as an agent that knows windows.
func (w *scheduledWorld) checkIn() {
	agent := &looptest.World{T: w.T, Server: w.Server, User: w.Server.Connect(fleet.FieldManagerAgentPrefix + strconv.Itoa(fleet.ProtocolWindows))}
	looptest.Change(agent, "ws", "c1", func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.Now() })
}

// is checks the state of the cluster, of its deployment and of one of its Schedules.
func (w *scheduledWorld) is(why string, scheduled, active bool) {
	w.Helper()
	bd, c := deployed(w.World), looptest.Read[*fleet.Cluster](w.World, "ws", "c1")
	if c.Status.Scheduled != scheduled || c.Status.ActiveSchedule != active {
		w.Errorf("%s: at %s the cluster is scheduled %t, active %t", why, time.Now().UTC(), c.Status.Scheduled, c.Status.ActiveSchedule)
	}
	if got := bd.Annotations[fleet.AnnotationWindows] != ""; got != scheduled {
		w.Errorf("%s: at %s the deployment has windows: %t", why, time.Now().UTC(), got)
	}
	if want := scheduled && !active; bd.Spec.OffSchedule != want {
		w.Errorf("%s: at %s offSchedule of the deployment, whose agent knows no windows, is %t", why, time.Now().UTC(), bd.Spec.OffSchedule)
	}
}

// A window opens and closes by the clock, and a restart of the manager changes nothing.
func TestWindowsOfADay(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		w.until(0, 5)
		w.is("no Schedule", false, false)
		w.make("morning", "0 0 6 * * ?", 2*time.Hour, "")
		w.until(0, 10)
		w.is("before the window", true, false)
		s := looptest.Read[*fleet.Schedule](w.World, "ws", "morning")
		if s.Status.Active || s.Status.NextStartTime.UTC().Hour() != 6 || len(s.Status.MatchingClusters) != 1 {
			t.Errorf("status %+v", s.Status)
		}
		w.until(6, 3)
		w.is("in the window", true, true)
		if s := looptest.Read[*fleet.Schedule](w.World, "ws", "morning"); !s.Status.Active || s.Status.NextStartTime.UTC().Day() != 2 {
			t.Errorf("status %+v", s.Status)
		}
		w.stop()
		w.start(true)
		w.until(6, 6)
		w.is("after a restart in the window", true, true)
		w.make("late", "0 0 7 * * ?", 3*time.Hour, "")
		w.until(8, 3)
		w.is("the window of another Schedule is still open", true, true)
		w.until(10, 3)
		w.is("both are closed", true, false)
		w.stop()
		w.until(30, 1) // the next day, 06:01
		w.start(true)
		w.until(30, 5)
		w.is("opened while the manager was away", true, true)
	})
}

// A change of labels moves a cluster into a Schedule and out of it, and closes no window of
// another one.
func TestWindowsFollowLabels(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		w.make("day", "0 0 1 * * ?", 20*time.Hour, "")
		w.make("prod", "0 0 22 * * ?", time.Hour, "prod")
		w.until(2, 0)
		w.is("in a window", true, true)
		looptest.Change(w.World, "ws", "c1", func(c *fleet.Cluster) { c.Labels = map[string]string{"env": "prod"} })
		w.until(2, 5)
		w.is("a closed Schedule closes no window of another", true, true)
		w.Must(kube.StoreOf[*fleet.Schedule](w.User).Delete(w.Context(), kube.Key{Namespace: "ws", Name: "day"}, kube.Precondition{}))
		w.until(2, 10)
		w.is("only the closed one is left", true, false)
		looptest.Change(w.World, "ws", "c1", func(c *fleet.Cluster) { c.Labels = nil })
		w.until(2, 15)
		w.is("no Schedule selects the cluster", false, false)
	})
}

// A Schedule with an error opens no window, and says why.
func TestBrokenSchedule(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		w.make("always", "0 0 * * * ?", 2*time.Hour, "")
		w.until(2, 30)
		w.is("it cannot be used", true, false)
		c := condition.Find(looptest.Read[*fleet.Schedule](w.World, "ws", "always").Status.Conditions, fleet.ConditionReady)
		if c == nil || c.Status != "False" || c.Message != schedule.ErrOverlap.Error() {
			t.Errorf("condition %+v", c)
		}
		looptest.Change(w.World, "ws", "always", func(s *fleet.Schedule) { s.Spec.Duration.Duration = 50 * time.Minute })
		w.until(2, 40)
		w.is("it was corrected", true, true)
		if s := looptest.Read[*fleet.Schedule](w.World, "ws", "always"); condition.Find(s.Status.Conditions, fleet.ConditionReady) != nil {
			t.Errorf("condition %+v", s.Status.Conditions)
		}
	})
}

// A manager where Schedules are switched off takes windows back.
func TestSchedulesSwitchedOff(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		w.make("morning", "0 0 6 * * ?", 2*time.Hour, "")
		w.until(1, 0)
		w.is("before the window", true, false)
		w.stop()
		w.start(false)
		w.until(1, 5)
		w.is("switched off", false, false)
	})
}

// A Schedule of another shard applies to the clusters of this one. Only the manager of its
// shard writes its status.
func TestScheduleOfOtherShard(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		s := &fleet.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "theirs", Labels: map[string]string{fleet.LabelShardRef: "theirs"}}}
		s.Spec.Schedule, s.Spec.Duration = "0 0 6 * * ?", &metav1.Duration{Duration: time.Hour}
		s.Spec.Targets.Clusters = []fleet.ScheduleTarget{{ClusterName: "c1"}}
		looptest.Make(w.World, s)
		w.until(1, 0)
		w.is("before the window", true, false)
		w.until(6, 5)
		w.is("in the window", true, true)
		if s := looptest.Read[*fleet.Schedule](w.World, "ws", "theirs"); !s.Status.NextStartTime.IsZero() {
			t.Errorf("status %+v", s.Status)
		}
	})
}

// An override opens a deployment until its end.
func TestWindowOverridden(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		w.make("morning", "0 0 6 * * ?", 2*time.Hour, "")
		w.until(1, 0)
		looptest.Change(w.World, onC1.Namespace, onC1.Name, func(bd *fleet.BundleDeployment) {
			bd.Annotations[fleet.AnnotationOpenUntil] = "2000-01-01T02:00:00Z fix"
		})
		w.until(1, 5)
		if deployed(w.World).Spec.OffSchedule {
			t.Error("the override has no effect")
		}
		if n := looptest.Events(w.World, onC1.Namespace, eventOverridden); n != 1 {
			t.Errorf("%d events about the override", n)
		}
		w.until(2, 5)
		if !deployed(w.World).Spec.OffSchedule {
			t.Error("the override has not ended")
		}
	})
}

// The manager sets offSchedule only for agents that do not know windows.
func TestOffScheduleByProtocol(t *testing.T) {
	for protocol, want := range map[int]bool{0: true, 2: true, fleet.ProtocolWindows: false} {
		now := start
		e, _ := controllersAt(t, &now)
		e.withAgent(protocol)
		s := &fleet.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "x"}}
		s.Spec.Targets.Clusters = []fleet.ScheduleTarget{{ClusterName: "c1"}}
		e.table.SetSchedule(kube.KeyOf(s), schedule.NewRule(s, ""))
		c, ok := e.table.Candidate(kube.Key{Namespace: "ws", Name: "c1"})
		if !ok || c.Place.Closed == "" || c.Place.OffSchedule != want {
			t.Errorf("protocol %d: %+v", protocol, c.Place)
		}
	}
}

// startScheduled starts a manager that acts on Schedules.
func startScheduled(c *kube.Client) []kube.Runner {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(Config{Namespace: "system", ManagerID: "me", CheckinInterval: time.Minute, Schedules: true}, c, logrus.NewEntry(log)).Runnables()
}

// spareOthers lets only requests about Schedules, Clusters and BundleDeployments fail.
func spareOthers(_ string, m kubetest.Match) bool {
	return !slices.Contains([]string{"schedules", "clusters", "bundledeployments"}, m.Resource)
}

// Whatever request fails and whenever the manager ends, a window is open for its duration
// and no longer, and a manager at rest writes nothing.
func TestWindowsSurviveFaults(t *testing.T) {
	for name, at := range map[string]struct {
		minutes int // before the Schedule is made
		active  bool
	}{
		"Closed": {5, false}, "Open": {70, true},
	} {
		t.Run(name, func(t *testing.T) {
			looptest.Run(t, looptest.Loop{
				Start: startScheduled, Spare: spareOthers, Rests: 30 * time.Minute,
				// A new process gives a cluster that has never reported its time again.
				Regular: func(r kubetest.Request) bool { return r.Resource == "bundles" && r.Subresource == "status" },
				Given: func(w *looptest.World) {
					givenCluster(w)
					makeWeb(w, nil)
				},
				When: func(w *looptest.World) {
					w.Pass(time.Duration(at.minutes) * time.Minute)
					(&scheduledWorld{World: w}).make("hourly", "0 0 1 * * ?", 3*time.Hour, "")
				},
				Then: func(w *looptest.World) {
					(&scheduledWorld{World: w}).is("a fault", true, at.active)
					s := looptest.Read[*fleet.Schedule](w, "ws", "hourly")
					if s.Status.Active != at.active || s.Status.NextStartTime.IsZero() || len(s.Status.MatchingClusters) != 1 {
						w.Errorf("status %+v", s.Status)
					}
				},
			})
		})
	}
}

// The status of a Bundle says when the next window opens, also while the agent has not
// reported it.
func TestBundleNamesNextWindow(t *testing.T) {
	for name, knows := range map[string]bool{"OldAgent": false, "Agent": true} {
		t.Run(name, func(t *testing.T) { bundleNamesNextWindow(t, knows) })
	}
}

func bundleNamesNextWindow(t *testing.T, knows bool) {
	t.Helper()
	scheduled(t, func(w *scheduledWorld) {
		if knows {
			w.checkIn()
		}
		w.make("morning", "0 0 6 * * ?", 2*time.Hour, "")
		for _, at := range []struct {
			hour int
			want string
		}{{1, "the next one opens at 2000-01-01T06:00:00Z"}, {7, ""}, {9, "the next one opens at 2000-01-02T06:00:00Z"}} {
			w.until(at.hour, 0)
			list := looptest.Read[*fleet.Bundle](w.World, web.Namespace, web.Name).Status.Summary.NonReadyResources
			if len(list) != 1 || strings.Contains(list[0].Message, "opens at") != (at.want != "") || !strings.Contains(list[0].Message, at.want) {
				t.Errorf("at %d: %+v, want %q", at.hour, list, at.want)
			}
		}
	})
}

// A window that opens and closes costs one write for the Schedule and one for each
// Cluster, and none for deployments whose agents know the windows.
func TestWindowsWriteNoDeployments(t *testing.T) {
	scheduled(t, func(w *scheduledWorld) {
		w.checkIn()
		w.make("morning", "0 0 6 * * ?", 2*time.Hour, "")
		w.until(1, 0)
		before := len(w.Server.Writes())
		w.until(7, 0)
		w.until(9, 0)
		got := map[string]int{}
		for _, r := range w.Server.Writes()[before:] {
			got[r.Resource]++
		}
		if bd := deployed(w.World); bd.Spec.OffSchedule || bd.Annotations[fleet.AnnotationWindows] == "" {
			t.Errorf("want windows, and not offSchedule: %+v", bd)
		}
		if got["bundledeployments"] > 0 || got["schedules"] != 2 {
			t.Errorf("written: %v", got)
		}
	})
}
