package imports

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// What a Cluster asks of its agent and takes back is taken back in the cluster too,
// whether the agent has deployed its own bundle by then or not. The cluster is the
// manager's own one.
func TestWishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.again(func(s *registration.Settings) { s.AgentsUnmanaged = false })
	w.secret("wishes", w.hub.Administrator(w, importer))
	w.cluster("wishes", wishes)
	w.installed("wishes")
	w.until("the wishes are fulfilled", func() bool { return w.fulfilled() == "env class budget affinity" })

	w.wish(func(c *fleet.Cluster) {
		c.Spec.AgentEnvVars, c.Spec.AgentAffinity, c.Spec.AgentSchedulingCustomization = nil, nil, nil
	})
	harness.AgentOf(w, w.hub, "agent-wishes")
	w.until("what was taken back before the agent came is gone", func() bool { return w.fulfilled() == "" })
	w.ready(naming.AgentBundle("wishes"))
	w.until("the agent knows what it was made of", func() bool { return clusterimport.RecordOf(w.read("wishes")).Own == "" })
	if left := w.fulfilled(); left != "" {
		w.Errorf("its own bundle has brought back: %s", left)
	}

	known := w.registrations("wishes")
	w.wish(wishes)
	w.until("the agent fulfils them itself", func() bool { return w.fulfilled() == "env class budget affinity" })
	w.wish(func(c *fleet.Cluster) {
		c.Spec.AgentEnvVars, c.Spec.AgentAffinity, c.Spec.AgentSchedulingCustomization = nil, nil, nil
	})
	w.until("the agent takes them back itself", func() bool { return w.fulfilled() == "" })
	for name := range w.registrations("wishes") {
		if known[name] == nil { // one of them may have ended
			w.Errorf("it has registered again: %s", name)
		}
	}
}

func wishes(c *fleet.Cluster) {
	c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "WISH", Value: "yes"}}
	c.Spec.AgentAffinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight:     1,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "wish", Operator: corev1.NodeSelectorOpExists}}},
		}},
	}}
	c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{
		PriorityClass: &fleet.PriorityClassSpec{Value: 7}, PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
	}
}

// wish changes what the Cluster asks of its agent.
func (w *world) wish(f func(*fleet.Cluster)) {
	w.Helper()
	harness.Edit(w, w.hub, fleet.NamespaceDefault, "wishes", f)
}

// fulfilled are the wishes that the agent's objects show.
func (w *world) fulfilled() (out string) {
	w.Helper()
	add := func(word string, there bool) {
		if there && out != "" {
			out += " "
		}
		if there {
			out += word
		}
	}
	d, ok := harness.Read[*appsv1.Deployment](w, w.hub, "agent-wishes", "fleet-agent")
	if !ok {
		return "no Deployment"
	}
	pod := d.Spec.Template.Spec
	for _, e := range pod.Containers[0].Env {
		add("env", e.Name == "WISH")
	}
	add("class", pod.PriorityClassName != "")
	_, budget := harness.Read[*policyv1.PodDisruptionBudget](w, w.hub, "agent-wishes", "fleet-agent-pod-disruption-budget")
	add("budget", budget)
	if a := pod.Affinity; a != nil && a.NodeAffinity != nil {
		for _, t := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			for _, e := range t.Preference.MatchExpressions {
				add("affinity", e.Key == "wish")
			}
		}
	}
	return out
}
