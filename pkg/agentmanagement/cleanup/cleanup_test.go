package cleanup

import (
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

func start(c *kube.Client) []kube.Runner {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(Config{System: managertest.System, Now: time.Now}, c, logrus.NewEntry(log)).Runnables()
}

// namespace makes the namespace of a Cluster that need not be there.
func namespace(w *looptest.World, name, cluster string, labels map[string]string) {
	n := registration.NewNamespace(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: cluster}}, name, managertest.System)
	for key, value := range labels {
		n.Labels[key] = value
	}
	looptest.Make(w, n)
}

func values(w *looptest.World, name string, kind corev1.SecretType, labels map[string]string) {
	all := map[string]string{fleet.LabelManaged: registration.True}
	for key, value := range labels {
		all[key] = value
	}
	looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: all}, Type: kind})
}

// What has no owner any more is deleted. What has one, what another manager has made, and
// an order that an agent may still answer, stays.
func TestSweep(t *testing.T) {
	anothers := map[string]string{fleet.LabelManagerID: "another"}
	looptest.Run(t, looptest.Loop{
		Start: start, Settles: 5 * time.Hour, Rests: 2 * time.Hour,
		Given: func(w *looptest.World) {
			w.Server.MakeNamespace("ws")
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}})
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "bundle"}})
			namespace(w, "owned", "site", nil)
			namespace(w, "orphan", "gone", nil)
			namespace(w, "anothers", "gone", anothers)
			namespace(w, "ordered", "gone", nil)
			looptest.Make(w, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ordered", Name: "app", Annotations: map[string]string{fleet.AnnotationWithdrawn: "order"},
			}})
			values(w, "bundle", fleet.SecretTypeBundleValues, nil)
			values(w, "orphan", fleet.SecretTypeBundleValues, nil)
			values(w, "anothers", fleet.SecretTypeBundleValues, anothers)
			looptest.Make(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "abandoned"}})
			looptest.Make(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "granted"}})
			looptest.Change(w, "ws", "granted", func(r *fleet.ClusterRegistration) { r.Status.Granted = true })
		},
		Then: func(w *looptest.World) {
			for name, stays := range map[string]bool{"owned": true, "orphan": false, "anothers": true, "ordered": true} {
				if there := looptest.Read[*corev1.Namespace](w, "", name) != nil; there != stays {
					w.Errorf("namespace %s: want it there: %v, got %v", name, stays, there)
				}
			}
			for name, stays := range map[string]bool{"bundle": true, "orphan": false, "anothers": true} {
				if there := looptest.Read[*corev1.Secret](w, "ws", name) != nil; there != stays {
					w.Errorf("Secret %s: want it there: %v, got %v", name, stays, there)
				}
			}
			for name, stays := range map[string]bool{"granted": true, "abandoned": false} {
				if there := looptest.Read[*fleet.ClusterRegistration](w, "ws", name) != nil; there != stays {
					w.Errorf("ClusterRegistration %s: want it there: %v, got %v", name, stays, there)
				}
			}
			if looptest.Read[*fleet.BundleDeployment](w, "ordered", "app") == nil {
				w.Error("a BundleDeployment was deleted")
			}
		},
	})
}

// An owner that comes back between two looks keeps what is its own.
func TestSweepLooksTwice(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start, Settles: 2 * time.Hour,
		Given: func(w *looptest.World) {
			w.Server.MakeNamespace("ws")
			namespace(w, "late", "site", nil)
		},
		When: func(w *looptest.World) {
			w.Pass(registration.OrphanTimeout / 2)
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}})
		},
		Then: func(w *looptest.World) {
			if looptest.Read[*corev1.Namespace](w, "", "late") == nil {
				w.Error("the namespace was deleted")
			}
		},
	})
}

// A Cluster that is made while the loop looks around keeps its namespace: the last look is
// at the API server.
func TestClusterMadeMeanwhile(t *testing.T) {
	s := kubetest.New(t)
	s.MakeNamespace("ws")
	c := s.Connect("manager")
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}}
	if _, err := kube.StoreOf[*corev1.Namespace](c).Create(t.Context(), registration.NewNamespace(cluster, "site", managertest.System)); err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	l := New(Config{System: managertest.System, Now: time.Now}, c, logrus.NewEntry(log))
	orphans := map[string]orphan{}
	if err := l.orphanNamespaces(t.Context(), orphans); err != nil || len(orphans) != 1 {
		t.Fatalf("want one orphan, got %d, %v", len(orphans), err)
	}
	if _, err := kube.StoreOf[*fleet.Cluster](c).Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}

	for _, o := range orphans {
		if err := o.delete(t.Context()); err != nil {
			t.Error(err)
		}
	}

	ns, err := kube.StoreOf[*corev1.Namespace](c).Get(t.Context(), kube.Key{Name: "site"})
	if err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("the namespace of a Cluster that is there was deleted: %v, %v", ns, err)
	}
}
