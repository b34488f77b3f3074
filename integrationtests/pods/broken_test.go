package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// allLives are the lives of the workload on all clusters.
func (w *world) allLives() []string {
	w.Helper()
	var lives []string
	for _, s := range w.sites() {
		lives = append(lives, w.lives(s, "shop")...)
	}
	return lives
}

// agentLives are the lives of all agents.
func (w *world) agentLives() []string {
	w.Helper()
	var lives []string
	for _, at := range w.agents() {
		lives = append(lives, w.lives(at.site, at.namespace)...)
	}
	return lives
}

// unharmed compares lives with what they were.
func (w *world) unharmed(whose string, before, now []string) {
	w.Helper()
	if diff := cmp.Diff(before, now); diff != "" {
		w.Errorf("%s: -before +after\n%s", whose, diff)
	}
}

// The manager is upgraded to agents whose image holds no agent. It halts after two,
// names them, and goes back when it is set to. The old agents work all the time, and
// no workload is restarted.
func (w *world) brokenAgent() {
	began, workloads, agentsBefore := time.Now(), w.allLives(), w.agentLives()
	w.upgrade(w.local, "fleet", map[string]any{"agentImage": imageOf(broken)})
	for i, at := range w.agents()[:2] {
		w.fails(at)
		w.rollout(fmt.Sprintf("the wave with %s is under way", at.cluster), func(s agentrollout.State) bool { return s.FailedCount == i && s.Wave == 1 })
		w.outOfTimeout(at)
	}
	w.rollout("the wave halts", func(s agentrollout.State) bool { return s.Phase == agentrollout.Halted })
	says := w.fleet("cluster", "agents")
	for _, words := range []string{"Halted: 2 agents", "fleet-local/local", "fleet-default/east", "fleet cluster agents rollback"} {
		if !strings.Contains(says, words) {
			w.Errorf("fleet cluster agents does not say %q:\n%s", words, says)
		}
	}
	w.Logf("fleet cluster agents says:\n%s", says)
	for _, at := range w.agents()[:2] {
		w.said(w.local, at.workspace, "AgentUpdateFailed")
	}
	if why := w.running(w.west, fleet.NamespaceSystem, after, "fleet-agent"); why != "" {
		w.Errorf("west, whose turn has not come: %s", why)
	}

	back := time.Now()
	w.fleet("cluster", "agents", "rollback", "--reason", "it does not start")
	for _, at := range w.agents() {
		w.until("the agent of "+at.cluster+" is the one of before", func(context.Context) string {
			return w.running(at.site, at.namespace, after, "fleet-agent")
		})
	}
	w.rollout("all have what they had", func(s agentrollout.State) bool { return s.Phase == agentrollout.Returned && s.UpToDate == 3 })
	w.allCheckIn(time.Now(), after)
	w.Logf("NUMBER broken agents: halted after %s (without the 10 minutes of each), all back %s after the order", back.Sub(began).Round(100*time.Millisecond), w.since(back))
	w.unharmed("workloads", workloads, w.allLives())
	w.unharmed("agents", agentsBefore, w.agentLives())

	w.upgrade(w.local, "fleet", map[string]any{"agentImage": imageOf(after)})
	w.rollout("the manager wants what all have", func(s agentrollout.State) bool { return s.Phase == agentrollout.Current && s.UpToDate == 3 })
	w.unharmed("agents", agentsBefore, w.agentLives())
}

// fails returns when a pod of an agent has the broken image, and does not start.
func (w *world) fails(at agent) {
	w.Helper()
	w.until("the broken agent of "+at.cluster+" does not start", func(context.Context) string {
		for _, p := range w.pods(at.site, at.namespace) {
			if !strings.HasSuffix(p.Spec.Containers[0].Image, ":"+broken) {
				continue
			}
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount > 0 || c.State.Waiting != nil && c.State.Waiting.Reason != "ContainerCreating" {
					return ""
				}
			}
			return "it is there: " + text(p.Status.ContainerStatuses)
		}
		return "there is none"
	})
}

// outOfTimeout lets the time pass that an agent has for its update, by what is
// written about its beginning.
func (w *world) outOfTimeout(at agent) {
	w.Helper()
	change(w, w.local, at.workspace, naming.AgentBundle(at.cluster), func(b *fleet.Bundle) {
		m := agentrollout.ParseMove(b.Annotations[agentrollout.AnnotationMove])
		if m == nil {
			w.Fatalf("the bundle of %s says of no move: %v", at.cluster, b.Annotations)
		}
		m.At = m.At.Add(-agentrollout.Timeout - time.Minute)
		b.Annotations[agentrollout.AnnotationMove] = m.String()
	})
}

// rollout returns when the manager says something of its agents.
func (w *world) rollout(what string, holds func(agentrollout.State) bool) {
	w.Helper()
	w.until(what, func(context.Context) string {
		m, gone := get[*corev1.ConfigMap](w, w.local, fleet.NamespaceSystem, agentrollout.ConfigMapName)
		if gone != "" {
			return gone
		}
		s, err := agentrollout.ParseState(m.Data[agentrollout.KeyState])
		if err != nil {
			return err.Error()
		}
		if !holds(s) {
			return m.Data[agentrollout.KeyState]
		}
		return ""
	})
}

// allCheckIn returns when all agents have checked in since a moment.
func (w *world) allCheckIn(since time.Time, version string) {
	w.Helper()
	for _, at := range w.agents() {
		w.checksIn(w.local, at.workspace, at.cluster, since, version)
	}
}

// checksIn returns when an agent has checked in with its manager since a moment.
func (w *world) checksIn(manager *site, workspace, name string, since time.Time, version string) {
	w.Helper()
	w.until("the agent of "+name+" checks in", func(context.Context) string {
		c, gone := get[*fleet.Cluster](w, manager, workspace, name)
		if gone != "" {
			return gone
		}
		if c.Status.Agent.LastSeen.Time.Before(since) || c.Status.Agent.Version != version {
			return fmt.Sprintf("agent %s, last seen %s", c.Status.Agent.Version, c.Status.Agent.LastSeen)
		}
		return ""
	})
}
