package fleetstate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A stage is a table with one Bundle on two clusters whose agents have checked
// in once.
type stage struct {
	*State
	time    *clock
	version int
}

func newStage() *stage {
	tab, clock := newTable()
	s := &stage{State: tab, time: clock}
	tab.SetBundle(bundleOf("app", "", s.next()))
	for _, c := range []string{"c1", "c2"} {
		s.beat(c)
		s.report("app", c, "s-1:x")
	}
	tab.SetPlan(key("app"), planFor("c1", "c2"))
	return s
}

func (s *stage) next() int { s.version++; return s.version }

// wait lets time pass.
func (s *stage) wait(d time.Duration) { s.time.now = s.time.now.Add(d) }

// beat is a check-in.
func (s *stage) beat(cluster string) (Changes, ClusterChange) {
	c := signed(s.next(), s.time.now)
	c.Name, c.UID = cluster, clusterOf(cluster, 1).UID
	c.Labels, c.Status.Namespace = clusterOf(cluster, 1).Labels, "c-"+cluster
	c.Annotations["management.cattle.io/x"] = "y"
	return s.SetCluster(c)
}

// report is a status write: the version that runs.
func (s *stage) report(bundle, cluster, applied string) Changes {
	bd := deploymentOf(bundle, cluster, applied, true, s.next())
	if old, ok := s.Deployment(kube.KeyOf(bd)); ok {
		bd.Spec = old.Spec
	}
	return s.SetDeployment(bd)
}

// promote writes another current version.
func (s *stage) promote(bundle, cluster, id string) Changes {
	old, _ := s.Deployment(kube.Key{Namespace: "c-" + cluster, Name: bundle})
	bd := old.DeepCopy()
	bd.ResourceVersion = fmt.Sprint(s.next())
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = id, id
	return s.SetDeployment(bd)
}

func (s *stage) overdue() (names string, after time.Duration) {
	list, after := s.Overdue(key("app"))
	for _, o := range list {
		names += o.Cluster.Name + " "
	}
	return names, after
}

func (s *stage) silentOnes() (names string) {
	for _, c := range s.Candidates(workspaceName) {
		if c.Silent {
			names += c.Key.Name + " "
		}
	}
	return names
}

func TestSilence(t *testing.T) {
	s := newStage()
	if names, after := s.overdue(); names != "" || after != 0 {
		t.Fatalf("nothing was promoted, but %q after %s", names, after)
	}
	if changed := s.promote("app", "c1", "s-2:x"); len(changed.Promoted) != 1 {
		t.Fatalf("no later check is due: %+v", changed)
	}
	s.wait(30 * time.Second)
	if changed := s.promote("app", "c2", "s-2:x"); len(changed.Promoted) != 0 {
		t.Errorf("one timer for each Bundle is enough: %+v", changed)
	}
	if names, after := s.overdue(); names != "" || after != 90*time.Second {
		t.Errorf("30 s: %q, %s", names, after)
	}
	s.wait(90 * time.Second)
	if names, _ := s.overdue(); names != "c1 " {
		t.Fatalf("two minutes after its promotion: %q", names)
	}
	if s.silentOnes() != "" {
		t.Error("it was not confirmed")
	}
	if names, _ := s.overdue(); names != "c1 " {
		t.Error("it is asked again until it is confirmed")
	}
	moves := s.Moves()
	if changed := s.SetSilent(key("c1")); !changed.Status[Subject{KindBundle, key("app")}] && len(changed.Status) != 1 || s.Moves() == moves {
		t.Errorf("who shows it has to know: %+v", changed)
	}
	if s.silentOnes() != "c1 " {
		t.Error("c1 is silent")
	}
	if _, f, _, ok := s.BundleFacts(key("app")); !ok || f.Rollout.Unavailable != 1 || f.Rollout.Deferred != 1 {
		t.Errorf("counted apart: %+v", f.Rollout)
	}
	if names, after := s.overdue(); names != "" || after != 30*time.Second {
		t.Errorf("c2 has 30 s: %q, %s", names, after)
	}
	if changed := s.report("app", "c1", "s-2:x"); s.silentOnes() != "" || len(changed.Plan) == 0 {
		t.Errorf("it is heard of again: %+v", changed)
	}
	s.report("app", "c2", "s-2:x")
	s.wait(time.Hour)
	if names, after := s.overdue(); names != "" || after != 0 {
		t.Errorf("all have answered: %q, %s", names, after)
	}
	if changed := s.promote("app", "c1", "s-3:x"); len(changed.Promoted) != 1 {
		t.Error("the next promotion starts from zero")
	}
}

// What is a sign of life after a promotion, and what is not.
func TestSignsAfterAPromotion(t *testing.T) {
	cases := map[string]struct {
		why  string
		do   func(*stage)
		want string
	}{
		"Nothing":      {"it says nothing", func(*stage) {}, "c1 "},
		"CheckIn":      {"it lives, and is at work", func(s *stage) { s.beat("c1") }, ""},
		"Report":       {"a report says so too, whatever it says", func(s *stage) { s.report("app", "c1", "s-0:x") }, ""},
		"OtherBundle":  {"and a report on something else", func(s *stage) { s.report("other", "c1", "s-9:x") }, ""},
		"OtherCluster": {"but not another's", func(s *stage) { s.beat("c2"); s.report("app", "c2", "s-0:x") }, "c1 "},
		"OwnWrite":     {"what the manager writes proves nothing", func(s *stage) { s.promote("app", "c1", "s-3:x") }, "c1 "},
		"Label": {"nor a label", func(s *stage) {
			c := signed(s.next(), s.time.now.Add(-time.Minute)) // as it was
			c.Labels["new"] = "yes"
			s.SetCluster(c)
		}, "c1 "},
		"Offline": {"one that is offline is deferred anyway", func(s *stage) { s.SetOffline(key("c1")) }, ""},
		"Paused": {"nothing is expected of it", func(s *stage) {
			old, _ := s.Deployment(kube.Key{Namespace: "c-c1", Name: "app"})
			bd := old.DeepCopy()
			bd.ResourceVersion, bd.Spec.Paused = fmt.Sprint(s.next()), true
			s.SetDeployment(bd)
		}, ""},
		"Ordered": {"nor of one that leaves", func(s *stage) {
			old, _ := s.Deployment(kube.Key{Namespace: "c-c1", Name: "app"})
			bd := old.DeepCopy()
			bd.ResourceVersion, bd.Annotations = fmt.Sprint(s.next()), map[string]string{fleet.AnnotationWithdrawn: "x"}
			s.SetDeployment(bd)
		}, ""},
		"Unpaused": {"now something is expected", func(s *stage) {
			old, _ := s.Deployment(kube.Key{Namespace: "c-c1", Name: "app"})
			bd := old.DeepCopy()
			bd.ResourceVersion, bd.Spec.Paused = fmt.Sprint(s.next()), true
			s.SetDeployment(bd)
			s.beat("c1")
			s.wait(time.Hour)
			bd = bd.DeepCopy()
			bd.ResourceVersion, bd.Spec.Paused = fmt.Sprint(s.next()), false
			s.SetDeployment(bd)
			s.wait(time.Minute)
		}, "c1 "},
		"Excused": {"the API server was away", func(s *stage) { s.ResetAck(key("c1")) }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			s.SetDeployment(deploymentOf("other", "c1", "s-1:x", true, s.next()))
			s.promote("app", "c1", "s-2:x")
			s.wait(time.Minute)
			c.do(s)
			s.wait(time.Minute)
			if got, _ := s.overdue(); got != c.want {
				t.Errorf("%s: overdue %q, want %q", c.why, got, c.want)
			}
			s.wait(time.Hour)
			if later, _ := s.overdue(); later != c.want && name != "Excused" {
				t.Errorf("%s: an hour later overdue %q, want %q", c.why, later, c.want)
			}
		})
	}
}

// A manager that starts gives everybody two minutes, in whatever order its
// caches fill.
func TestSilenceAfterARestart(t *testing.T) {
	for _, clusterFirst := range []bool{true, false} {
		tab, clock := newTable()
		s := &stage{State: tab, time: clock}
		s.SetBundle(bundleOf("app", "", s.next()))
		changed := Changes{}
		put := func() { changed = s.SetDeployment(deploymentOf("app", "c1", "s-0:x", true, s.next())) }
		if clusterFirst {
			s.beat("c1")
			put()
		} else {
			put()
			s.beat("c1")
		}
		s.SetPlan(key("app"), planFor("c1"))
		if len(changed.Promoted) != 1 {
			t.Errorf("cluster first %v: no later check is due", clusterFirst)
		}
		s.wait(rollout.SilentAfter - time.Second)
		if names, after := s.overdue(); names != "" || after != time.Second {
			t.Errorf("cluster first %v: too early: %q, %s", clusterFirst, names, after)
		}
		s.wait(time.Second)
		if names, _ := s.overdue(); names != "c1 " {
			t.Errorf("cluster first %v: never", clusterFirst)
		}
	}
}

// A report of an offline cluster counts like a check-in. A report of an agent
// that has never checked in is not enough to count it as online.
func TestReportRevives(t *testing.T) {
	s := newStage()
	s.wait(3 * time.Minute)
	s.SetOffline(key("c1"))
	changed := s.report("app", "c1", "s-0:x")
	if a, _ := s.AgentOf(key("c1")); a.Life != summary.Online || len(changed.BackOnline) != 1 {
		t.Errorf("%v, %+v", a.Life, changed)
	}
	if silent, after := s.MissedDeadline(key("c1")); silent || after != 3*time.Minute {
		t.Errorf("it has three minutes again: %v, %s", silent, after)
	}
	s.SetCluster(clusterOf("c3", s.next()))
	s.report("app", "c3", "")
	changed = s.report("app", "c3", "s-1:x")
	if a, _ := s.AgentOf(key("c3")); a.Life != summary.NeverSeen || len(changed.BackOnline) != 0 {
		t.Errorf("%v, %+v", a.Life, changed)
	}
}

// The manager writes status.display for agents of the reference. That is no report.
func TestDisplayIsNoReport(t *testing.T) {
	s := newStage()
	s.wait(3 * time.Minute)
	s.SetOffline(key("c1"))
	old, _ := s.Deployment(kube.Key{Namespace: "c-c1", Name: "app"})
	bd := old.DeepCopy()
	bd.ResourceVersion = fmt.Sprint(s.next())
	bd.Status.Display.State = "WaitApplied"
	changed := s.SetDeployment(bd)
	if a, _ := s.AgentOf(key("c1")); a.Life != summary.Offline || len(changed.BackOnline) != 0 {
		t.Errorf("%v, %+v", a.Life, changed)
	}
}

// A silent cluster is one for all its Bundles; those that wait are planned.
func TestSilenceIsOfTheCluster(t *testing.T) {
	s := newStage()
	s.SetBundle(bundleOf("other", "", s.next()))
	s.report("other", "c1", "s-1:x")
	p := planFor("c1")
	p.Waiting = true
	s.SetPlan(key("other"), p)
	s.promote("app", "c1", "s-2:x")
	s.wait(rollout.SilentAfter)
	s.overdue()
	if changed := s.SetSilent(key("c1")); len(changed.Plan) != 1 || changed.Plan[0] != key("other") {
		t.Errorf("app waits for nothing, other may: %+v", changed.Plan)
	}
	if changed, _ := s.beat("c1"); len(changed.Plan) < 2 {
		t.Errorf("Bundles that held a version back from it are planned again: %+v", changed.Plan)
	}
	if changed := s.SetSilent(key("c1")); len(changed.Status) != 0 {
		t.Errorf("it was heard of meanwhile: %+v", changed)
	}
	s.promote("app", "c1", "s-3:x")
	if changed := s.SetSilent(key("c1")); len(changed.Status) != 0 {
		t.Errorf("it was heard of meanwhile, and owes another answer: %+v", changed)
	}
}

// Facts are in the order of the last plan, whatever the one before was.
func TestFactsFollowThePlan(t *testing.T) {
	s := newStage()
	for _, order := range [][]string{{"c1", "c2"}, {"c2", "c1"}, {"c2"}, {"c2", "c3", "c1"}} {
		s.SetPlan(key("app"), planFor(order...))
		for range 2 {
			_, f, _, ok := s.BundleFacts(key("app"))
			var got []string
			for _, d := range f.Deployments {
				got = append(got, strings.TrimPrefix(d.Cluster, workspaceName+"/"))
			}
			if !ok || !slices.Equal(got, order) {
				t.Errorf("got %v, want %v", got, order)
			}
		}
	}
}

// A cluster that was deleted and created again is another row.
func TestFactsOfRecreatedCluster(t *testing.T) {
	s := newStage()
	s.promote("app", "c1", "s-2:x")
	s.BundleFacts(key("app"))
	s.RemoveCluster(key("c1"))
	c := signed(s.next(), s.time.now.Add(-time.Hour))
	c.UID, c.Status.Display.State = "another", fleet.Offline
	s.SetCluster(c)
	if _, f, _, _ := s.BundleFacts(key("app")); f.Rollout.Deferred != 1 || f.Rollout.Unavailable != 0 {
		t.Errorf("it is offline: %+v", f.Rollout)
	}
}
