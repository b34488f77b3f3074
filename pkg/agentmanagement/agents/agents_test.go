package agents

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// start returns what a process runs.
func start(settings registration.Settings) func(*kube.Client) []kube.Runner {
	return managertest.Start(func(p managertest.Ports) []kube.Runner {
		return New(Config{
			System: managertest.System, Installation: managertest.Installation, Settings: settings, Now: time.Now,
		}, p.Client, p.Caches, p.Events, p.Log).Runnables()
	})
}

var settings = registration.Settings{AgentImage: "fleet-agent:v1", AgentTLSMode: registration.TLSSystemStore}

// given makes a Cluster whose agent the manager installs, one whose agent it does not, and
// one of another manager.
func given(w *looptest.World) {
	w.Server.MakeNamespace("ws")
	w.Server.MakeNamespace(managertest.System.Namespace)
	for name, change := range map[string]func(*fleet.Cluster){
		"site":     func(*fleet.Cluster) {},
		"own":      func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelNonManagedAgent: registration.True} },
		"anothers": func(c *fleet.Cluster) { *c = *registration.MarkCluster(c, "x", registration.Mark{ID: "another"}) },
	} {
		c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}, Spec: fleet.ClusterSpec{KubeConfigSecret: name}}
		change(c)
		looptest.Make(w, c)
		looptest.Change(w, "ws", name, func(c *fleet.Cluster) { c.Status.Namespace = "cluster-" + name })
	}
}

func bundle(w *looptest.World) *fleet.Bundle {
	return looptest.Read[*fleet.Bundle](w, "ws", naming.AgentBundle("site"))
}

func reconciled(w *looptest.World) *fleet.Condition {
	return condition.Find(looptest.Read[*fleet.Cluster](w, "ws", "site").Status.Conditions, agentrollout.Reconciled(&fleet.Cluster{}, "", "", "").Type)
}

// Each agent that the manager updates gets a Bundle, and the state of all is written down.
func TestAgentsGetBundles(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(settings), When: given,
		Then: func(w *looptest.World) {
			if got := looptest.Names[*fleet.Bundle](w, "ws"); !slices.Equal(got, []string{naming.AgentBundle("site")}) {
				w.Fatalf("want the Bundle of site alone, got %v", got)
			}
			if build := agentrollout.ParseBuild(bundle(w).Annotations[agentrollout.AnnotationBuild]); build.Image != settings.AgentImage {
				w.Errorf("want image %s, got %+v", settings.AgentImage, build)
			}
			if c := reconciled(w); c == nil || c.Status != corev1.ConditionTrue {
				w.Errorf("want it reconciled, got %+v", c)
			}
			if m := looptest.Read[*corev1.ConfigMap](w, managertest.System.Namespace, agentrollout.ConfigMapName); m == nil || m.Data[agentrollout.KeyState] == "" {
				w.Errorf("the state of agents is not written down: %v", m)
			}
		},
	})
}

// Where agents are unmanaged, and while the brake is on, no Bundle is written.
func TestAgentsHeld(t *testing.T) {
	unmanaged := settings
	unmanaged.AgentsUnmanaged = true
	for name, c := range map[string]struct {
		settings registration.Settings
		brake    bool
	}{"Unmanaged": {settings: unmanaged}, "Brake": {settings: settings, brake: true}} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(c.settings),
				Given: func(w *looptest.World) {
					given(w)
					if c.brake {
						looptest.Make(w, &corev1.ConfigMap{
							ObjectMeta: metav1.ObjectMeta{Namespace: managertest.System.Namespace, Name: fleet.ConfigMapBrake}, Data: view.GlobalPause{On: true}.Data(),
						})
					}
				},
				Then: func(w *looptest.World) {
					if got := looptest.Names[*fleet.Bundle](w, "ws"); len(got) > 0 {
						w.Errorf("want no Bundle, got %v", got)
					}
				},
			})
		})
	}
}

// A Bundle of the agent's name that another owner has made stays as it is, and the Cluster
// says why its agent is not updated.
func TestAgentBundleTaken(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(settings),
		Given: func(w *looptest.World) {
			given(w)
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ws", Name: naming.AgentBundle("site"), Labels: map[string]string{fleet.LabelRepoName: "repo"},
			}})
		},
		Then: func(w *looptest.World) {
			if got := bundle(w); len(got.Spec.Resources)+len(got.Annotations) > 0 {
				w.Errorf("the Bundle was changed: %+v", got.Spec)
			}
			if c := reconciled(w); c == nil || c.Reason != agentrollout.ReasonTaken {
				w.Errorf("want reason %s, got %+v", agentrollout.ReasonTaken, c)
			}
		},
	})
}

// Once the Bundle that had the agent's name is gone, the agent gets its own.
func TestAgentBundleFree(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(settings), Settles: 5 * time.Minute,
		Given: func(w *looptest.World) {
			given(w)
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ws", Name: naming.AgentBundle("site"), Labels: map[string]string{fleet.LabelRepoName: "repo"},
			}})
		},
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			looptest.Remove[*fleet.Bundle](w, "ws", naming.AgentBundle("site"))
		},
		Then: func(w *looptest.World) {
			if b := bundle(w); b == nil {
				w.Error("the agent has no Bundle")
			}
		},
	})
}

// A Bundle that a user has paused stays paused when the manager writes it again.
func TestAgentBundleStaysPaused(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(settings), Given: given,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			looptest.Change(w, "ws", naming.AgentBundle("site"), func(b *fleet.Bundle) { b.Spec.Paused = true })
			looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "b"}} })
		},
		Then: func(w *looptest.World) {
			m := agentrollout.Manager{Settings: settings, System: managertest.System}
			if b := bundle(w); !b.Spec.Paused || b.Annotations[agentrollout.AnnotationOwn] != m.SettingsDigest(looptest.Read[*fleet.Cluster](w, "ws", "site")) {
				w.Errorf("want it written again, and paused; got paused %v, %v", b.Spec.Paused, b.Annotations)
			}
		},
	})
}
