package agents_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// TestAgents is the life of a fleet's agents: they join, get their bundles, are
// updated in waves, fail and are called back, and get what single clusters ask
// for. Its parts build on each other.
func TestAgents(t *testing.T) {
	t.Parallel()
	w := open(t, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	w.manage("x/agent:v1.0.0")
	var sites []*site
	for _, name := range []string{"a", "b", "c", "d"} {
		values := map[string]any(nil)
		if name == "d" {
			values = map[string]any{
				"proxy": "http://proxy:3128", "orphanPolicy": "collect",
				"fleetAgent": map[string]any{"tolerations": []any{map[string]any{"key": "edge", "operator": "Exists"}}},
			}
		}
		sites = append(sites, w.join(name, "v1.0.0", values))
	}
	w.until("every agent has its bundle", func() bool {
		for _, s := range sites {
			if !s.deployed() {
				return false
			}
		}
		return w.state().UpToDate == len(sites)
	})
	before := templates(sites)

	t.Run("JoiningRestartsNothing", func(t *testing.T) {
		for _, s := range sites {
			d := s.deployment()
			if d.Labels[fleet.LabelManagerID] == "" {
				t.Errorf("%s: the bundle is not what is deployed: %v", s.key, d.Labels)
			}
			if got := d.Annotations["deployment.kubernetes.io/revision"]; got != "1" {
				t.Errorf("%s: the agent was started again when its bundle took it over: revision %s", s.key, got)
			}
		}
	})
	t.Run("EqualUpgradeChangesNothing", func(t *testing.T) {
		was := w.generations(sites)
		w.manage("x/agent:v1.0.0")
		c := kube.Key{Namespace: fleet.NamespaceDefault, Name: "a"}
		w.change(c, func(c *fleet.Cluster) { c.Labels = map[string]string{"seen": "again"} })
		w.later(time.Second)
		w.until("the manager has looked", func() bool { return w.state().UpToDate == len(sites) })
		if diff := cmp.Diff(was, w.generations(sites)); diff != "" {
			t.Errorf("bundles were written although nothing changed: -before +after\n%s", diff)
		}
		if diff := cmp.Diff(before, templates(sites)); diff != "" {
			t.Errorf("agents were changed: -before +after\n%s", diff)
		}
	})
	t.Run("Waves", func(t *testing.T) { w.upgrade(t, sites) })
	t.Run("OwnSettings", func(t *testing.T) { w.settings(t, sites) })
	t.Run("HaltAndReturn", func(t *testing.T) { w.haltAndReturn(t, sites) })
	t.Run("DeletedClusterKeepsItsAgent", func(t *testing.T) {
		s := sites[1]
		uid := s.deployment().UID
		if err := kube.StoreOf[*fleet.Cluster](w.admin).Delete(t.Context(), s.key, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		w.until("its bundle is gone", func() bool { return s.bundle() == nil })
		if s.deployment().UID != uid {
			t.Error("the agent was removed with its Cluster")
		}
	})
}

// upgrade: another version reaches the fleet agent by agent, and never more at
// once than have gone well before.
func (w *world) upgrade(t *testing.T, sites []*site) {
	ctx, stop := context.WithCancel(t.Context())
	var most atomic.Int64
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			moving, well := 0, 0
			for _, b := range w.agentBundles(ctx) { // all at one moment
				if m := agentrollout.ParseMove(b.Annotations[agentrollout.AnnotationMove]); m != nil && m.Image == "x/agent:v2.0.0" {
					if m.Settled {
						well++
					} else {
						moving++
					}
				}
			}
			if moving > max(well, 1) {
				most.Store(int64(moving))
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	w.manage("x/agent:v2.0.0")
	w.until("all agents have the new version", func() bool {
		s := w.state()
		return s.Phase == agentrollout.Current && s.Image == "x/agent:v2.0.0" && s.UpToDate == len(sites)
	})
	stop()
	<-watched
	if n := most.Load(); n > 0 {
		t.Errorf("%d agents were moved at once, more than had gone well", n)
	}
	for _, s := range sites {
		if got := s.cluster().Status.Agent.Version; got != "v2.0.0" {
			t.Errorf("%s: its agent says %q", s.key, got)
		}
	}
	if diff := cmp.Diff([]string{"x/agent:v2.0.0"}, images(sites)); diff != "" {
		t.Error(diff)
	}
}

// agentBundles are the Bundles of all agents, none if ctx has ended.
func (w *world) agentBundles(ctx context.Context) []*fleet.Bundle {
	list, err := kube.StoreOf[*fleet.Bundle](w.admin).List(ctx, fleet.NamespaceDefault, agentrollout.LabelBundle+"=true")
	if err != nil && ctx.Err() == nil {
		w.Error(err)
	}
	return list
}

// settings: what one Cluster asks for reaches its agent at once and no other, and
// what its chart has set stays.
func (w *world) settings(t *testing.T, sites []*site) {
	d := sites[3]
	others := templates(sites[:3])
	w.change(d.key, func(c *fleet.Cluster) {
		c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "NO_PROXY", Value: "internal"}, {Name: "EXTRA", Value: "1"}}
		c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{
			PriorityClass:       &fleet.PriorityClassSpec{Value: 1000},
			PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MinAvailable: "1"},
		}
	})
	w.until("the agent has what was asked for, and the Cluster says so", func() bool {
		c := d.cluster()
		said := condition.Find(c.Status.Conditions, fleet.ConditionReconciled)
		return envOf(d)["EXTRA"] == "1" && d.deployment().Spec.Template.Spec.PriorityClassName != "" && d.deployed() &&
			said != nil && said.ObservedGeneration == c.Generation && c.Status.AgentEnvVarsHash != ""
	})
	pod := d.deployment().Spec.Template.Spec
	env := envOf(d)
	if env["HTTP_PROXY"] != "http://proxy:3128" || env["NO_PROXY"] != "internal" {
		t.Errorf("the proxy of the site's own chart is lost, or the Cluster's wish: %v", env)
	}
	if args := fmt.Sprint(pod.Containers[0].Args); args != "[--checkin-interval=auto --orphan-policy=collect --orphan-grace-period=60m]" {
		t.Errorf("the command line of the site's own chart is not what it was: %s", args)
	}
	if len(pod.Tolerations) != 3 {
		t.Errorf("the tolerations of the site's own chart are lost: %v", pod.Tolerations)
	}
	classes := w.client.SchedulingV1().PriorityClasses()
	class, err := classes.Get(t.Context(), pod.PriorityClassName, metav1.GetOptions{})
	if err != nil || class.Value != 1000 || class.Labels[fleet.LabelManagerID] == "" {
		t.Errorf("priority class %v, %v", class, err)
	}
	if _, err := w.client.PolicyV1().PodDisruptionBudgets(d.namespace).Get(t.Context(), "fleet-agent-pod-disruption-budget", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	c := d.cluster()
	cond := condition.Find(c.Status.Conditions, fleet.ConditionReconciled)
	if c.Status.AgentEnvVarsHash == "" || c.Status.AgentSchedulingCustomizationHash == "" || cond == nil || cond.Status != corev1.ConditionTrue {
		t.Errorf("the Cluster does not say that its agent has it: %+v", cond)
	} else if cond.Message == "" {
		t.Error("a budget that blocks drains is worth a word")
	}
	// Another agent's class of the same name would be taken away with this one.
	foreign, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet-agent-priority-class"}, Value: 7,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.change(d.key, func(c *fleet.Cluster) {
		c.Spec.AgentEnvVars = nil
		c.Spec.AgentSchedulingCustomization.PriorityClass.Value = 2000
		c.Spec.AgentSchedulingCustomization.PodDisruptionBudget = nil
	})
	w.until("another priority is another class, and the old one goes", func() bool {
		_, err := classes.Get(t.Context(), class.Name, metav1.GetOptions{})
		return err != nil && d.deployment().Spec.Template.Spec.PriorityClassName != class.Name && envOf(d)["EXTRA"] == "" && d.deployed()
	})
	if now, err := classes.Get(t.Context(), foreign.Name, metav1.GetOptions{}); err != nil || now.UID != foreign.UID {
		t.Errorf("the class of another agent was touched: %v", err)
	}
	if env := envOf(d); env["NO_PROXY"] == "internal" {
		t.Errorf("what is not asked for any more stays: %v", env)
	}
	w.change(d.key, func(c *fleet.Cluster) {
		c.Spec.AgentSchedulingCustomization.PodDisruptionBudget = &fleet.PodDisruptionBudgetSpec{MinAvailable: "1", MaxUnavailable: "1"}
	})
	w.until("a wish that cannot be fulfilled is refused in words", func() bool {
		cond := condition.Find(d.cluster().Status.Conditions, fleet.ConditionReconciled)
		return cond != nil && cond.Reason == agentrollout.ReasonSettings
	})
	w.change(d.key, func(c *fleet.Cluster) { c.Spec.AgentSchedulingCustomization = nil })
	w.until("and taken back", func() bool {
		return d.deployed() && condition.IsTrue(d.cluster().Status.Conditions, fleet.ConditionReconciled)
	})
	if diff := cmp.Diff(others, templates(sites[:3])); diff != "" {
		t.Errorf("other agents were changed: -before +after\n%s", diff)
	}
}

// haltAndReturn: a version whose pods never come up halts after two agents, and
// is called back by one order.
func (w *world) haltAndReturn(t *testing.T, sites []*site) {
	const bad = "x/agent:v3.0.0"
	w.breaks(bad)
	w.manage(bad)
	w.until("the first agent is moved", func() bool { return w.state().Wave == 1 })
	w.later(agentrollout.Timeout + time.Minute)
	w.until("it has failed, and the next is moved", func() bool { s := w.state(); return s.FailedCount == 1 && s.Wave == 1 })
	w.later(agentrollout.Timeout + time.Minute)
	w.until("two have failed", func() bool { return w.state().Phase == agentrollout.Halted })
	s := w.state()
	if len(s.Failed) != 2 || s.Failed[0].Cluster != "fleet-default/a" || s.Failed[1].Cluster != "fleet-default/b" {
		t.Errorf("it does not say which: %+v", s)
	}
	if diff := cmp.Diff([]string{"x/agent:v2.0.0"}, images(sites[2:])); diff != "" {
		t.Errorf("others were moved: %s", diff)
	}
	w.order(agentrollout.Order{Image: bad, To: s.From, By: "ana", At: time.Now()})
	w.until("all have what they had", func() bool {
		s := w.state()
		return s.Phase == agentrollout.Returned && s.UpToDate == len(sites) && slices.Equal(images(sites), []string{"x/agent:v2.0.0"})
	})
	w.manage("x/agent:v4.0.0")
	w.until("the order ends with the version that it was about", func() bool {
		s := w.state()
		return s.Image == "x/agent:v4.0.0" && s.Phase == agentrollout.Current && s.UpToDate == len(sites)
	})
}

// order writes an order as the command does.
func (w *world) order(o agentrollout.Order) {
	w.Helper()
	key := kube.Key{Namespace: fleet.NamespaceSystem, Name: agentrollout.ConfigMapName}
	harness.Revise(w, w.admin, key, func(cm *corev1.ConfigMap) { cm.Data[agentrollout.KeyOrder] = o.String() }) // the manager writes there too
}

// templates are the pods that agents run in, as generations of their Deployments.
func templates(sites []*site) map[string]string {
	out := map[string]string{}
	for _, s := range sites {
		out[s.key.Name] = s.deployment().Annotations["deployment.kubernetes.io/revision"]
	}
	return out
}

// generations are those of the agents' bundles.
func (w *world) generations(sites []*site) map[string]int64 {
	out := map[string]int64{}
	for _, s := range sites {
		out[s.key.Name] = s.bundle().Generation
	}
	return out
}

func envOf(s *site) map[string]string {
	out := map[string]string{}
	for _, v := range s.deployment().Spec.Template.Spec.Containers[0].Env {
		out[v.Name] = v.Value
	}
	return out
}
