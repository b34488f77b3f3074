package local

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

const in = "agent-namespace"

func settings() registration.Settings {
	return registration.Settings{
		AgentImage: "fleet-agent:v1", AgentTLSMode: registration.TLSSystemStore,
		Bootstrap: registration.Bootstrap{Namespace: "fleet-local", AgentNamespace: in},
	}
}

// someAgents are agents that are as the settings say, and whose brake is on or off.
type someAgents struct {
	settings registration.Settings
	brake    bool
}

func (a someAgents) Suspended() bool                                       { return a.brake }
func (someAgents) OnSuspension(func())                                     {}
func (someAgents) OnBundle(func(old, b *fleet.Bundle))                     {}
func (someAgents) IsCurrent(context.Context, *fleet.Cluster) (bool, error) { return true, nil }
func (a someAgents) DesiredAgent(_ context.Context, c *fleet.Cluster) (registration.Agent, error) {
	return agentrollout.Manager{Settings: a.settings, System: managertest.System}.DesiredAgent(c)
}

// start returns what a process runs.
func start(a someAgents) func(*kube.Client) []kube.Runner {
	return managertest.Start(func(p managertest.Ports) []kube.Runner {
		return New(Config{
			System: managertest.System, Settings: a.settings, Agents: a, Now: time.Now,
			Connect: func(kube.Access) (*kube.Client, error) { return p.Client, nil },
		}, p.Client, p.Caches, p.Log).Runnables()
	})
}

// given makes what the chart brings.
func given(w *looptest.World) {
	w.Server.MakeNamespace(managertest.System.Namespace)
	looptest.Make(w, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: managertest.System.Namespace, Name: registration.AccountBootstrap}})
}

func local(w *looptest.World) *fleet.Cluster {
	return looptest.Read[*fleet.Cluster](w, "fleet-local", fleet.ClusterLocal)
}

func agent(w *looptest.World) *appsv1.Deployment {
	return looptest.Read[*appsv1.Deployment](w, in, fleet.SecretAgent)
}

func imported(w *looptest.World) *fleet.Condition {
	return condition.Find(local(w).Status.Conditions, fleet.ConditionImported)
}

// The manager's own cluster joins: it gets a Cluster, an agent, and a token for that.
func TestLocal(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(someAgents{settings: settings()}), When: given, Settles: 11 * time.Minute,
		Then: func(w *looptest.World) {
			c := local(w)
			if c == nil || c.Spec.ClientID == "" || agent(w) == nil {
				w.Fatalf("want a Cluster with an agent, got %v", c)
			}
			if !condition.IsTrue(c.Status.Conditions, fleet.ConditionImported) {
				w.Errorf("want it imported, got %v", imported(w))
			}
			token := registration.LocalToken(settings().Bootstrap)
			if looptest.Read[*fleet.ClusterRegistrationToken](w, token.Namespace, token.Name) == nil {
				w.Error("there is no token that the agent could register with")
			}
			if looptest.Read[*corev1.Secret](w, c.Namespace, c.Spec.KubeConfigSecret) == nil {
				w.Error("there is no kubeconfig")
			}
		},
	})
}

// While the brake is on, and where an agent of another manager is in the namespace, no
// agent is installed.
func TestLocalNotInstalled(t *testing.T) {
	for name, c := range map[string]struct {
		brake, foreign bool
		reason         string
	}{
		"Brake":   {brake: true},
		"Foreign": {foreign: true, reason: reasonForeignAgent},
	} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(someAgents{settings: settings(), brake: c.brake}),
				Given: func(w *looptest.World) {
					given(w)
					if c.foreign {
						w.Server.MakeNamespace(in)
						looptest.Make(w, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
							Namespace: in, Name: fleet.SecretAgent, Labels: map[string]string{fleet.LabelManagerID: "another"},
						}})
					}
				},
				Then: func(w *looptest.World) {
					if agent(w) != nil {
						w.Error("an agent was installed")
					}
					if says := imported(w); c.reason != "" && (says == nil || says.Reason != c.reason) {
						w.Errorf("want reason %s, got %+v", c.reason, says)
					}
				},
			})
		})
	}
}

// A user may scale the agent down. It is scaled up again when what is wanted changes.
func TestLocalScaledDown(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(someAgents{settings: settings()}), Given: given, Settles: 25 * time.Minute,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			zero := int32(0)
			looptest.Change(w, in, fleet.SecretAgent, func(d *appsv1.Deployment) { d.Spec.Replicas = &zero })
		},
		Then: func(w *looptest.World) {
			if got := agent(w).Spec.Replicas; got == nil || *got != 0 {
				w.Errorf("want it to stay scaled down, got %v", got)
			}
		},
	})
}

// A disabled agent is removed, and the cluster stays one of the fleet.
func TestLocalDisabled(t *testing.T) {
	s := settings()
	looptest.Undisturbed(t, looptest.Loop{
		Start: func(c *kube.Client) []kube.Runner { return start(someAgents{settings: s})(c) },
		Given: given,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			if agent(w) == nil {
				w.Fatal("no agent was installed")
			}
			s.Bootstrap.LocalAgentDisabled = true
			w.Restart()
		},
		Then: func(w *looptest.World) {
			if agent(w) != nil || local(w) == nil {
				w.Errorf("want the agent gone and the Cluster there; Cluster %v", local(w))
			}
		},
	})
}
