package clusterimport

import (
	"context"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// noAgents are agents that never change.
type noAgents struct{ agents }

func (noAgents) OnBundle(func(old, b *fleet.Bundle)) {}
func (noAgents) OnSuspension(func())                 {}

// The cache may know of an import only after the import has woken up the waves: they
// are woken up when it does, and when anything else changes that they decide by.
func TestWavesWake(t *testing.T) {
	cluster := func(change func(*fleet.Cluster)) *fleet.Cluster {
		c := &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c", Labels: map[string]string{}, Annotations: map[string]string{}},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"},
		}
		if change != nil {
			change(c)
		}
		return c
	}
	for name, changed := range map[string]*fleet.Cluster{
		"Imported": cluster(func(c *fleet.Cluster) {
			c.Annotations[clusterimport.AnnotationImported] = clusterimport.Record{Namespace: "a"}.String()
		}),
		"Canary": cluster(func(c *fleet.Cluster) { c.Labels[clusterimport.LabelCanary] = "true" }),
		"Paused": cluster(func(c *fleet.Cluster) { c.Spec.Paused = true }),
		"Online": cluster(func(c *fleet.Cluster) {
			c.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionConnected, Status: corev1.ConditionTrue}}
		}),
		"Gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: "https://manager.invalid"}})
			if err != nil {
				t.Fatal(err)
			}
			caches := cache.New(client, registration.System{})
			l := New(Config{Agents: noAgents{}, Now: time.Now}, client, caches, kube.NewRecorder(client, "agentmanagement"), logrus.NewEntry(logrus.New()))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			l.waves.loop = kube.NewController("waves", 1, func(context.Context, kube.Key) (kube.Result, error) {
				stop()
				return kube.Done, nil
			})
			l.onCluster(cluster(nil), changed)
			if err := l.waves.loop.Run(ctx); err != nil { // until the waves are woken up
				t.Error(err)
			}
		})
	}
}

// A sign of life, which comes from each agent again and again, does not matter to the waves.
func TestWaveChanges(t *testing.T) {
	one := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c"}}
	alive := one.DeepCopy()
	alive.Status.Agent.LastSeen = metav1.Now()
	if waveChanges(one, alive) || waveChanges(nil, one) {
		t.Error("the waves are woken up for a sign of life, or for the first sight of a Cluster")
	}
}
