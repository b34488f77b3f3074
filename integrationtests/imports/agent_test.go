package imports

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// agentOf runs the agent of a namespace whenever there is a Deployment for it, as
// a kubelet does: with the account that was made for it, and nothing else. It
// stands in for pods, which run nothing here.
func (w *world) agentOf(h *harness.Hub, namespace string) {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if w.deployed(ctx, h, namespace) {
				w.runAgent(ctx, h, namespace)
			}
			_ = kube.Sleep(ctx, 100*time.Millisecond)
		}
	}()
	w.Cleanup(func() { stop(); <-done })
}

func (w *world) deployed(ctx context.Context, h *harness.Hub, namespace string) bool {
	d, err := kube.StoreOf[*appsv1.Deployment](h.Admin).Get(ctx, kube.Key{Namespace: namespace, Name: "fleet-agent"})
	return err == nil && d.DeletionTimestamp == nil && *d.Spec.Replicas > 0
}

// runAgent runs an agent until its Deployment is gone.
func (w *world) runAgent(ctx context.Context, h *harness.Hub, namespace string) {
	if _, err := kube.StoreOf[*corev1.ServiceAccount](h.Admin).Get(ctx, kube.Key{Namespace: namespace, Name: "fleet-agent"}); err != nil {
		return // it comes before the Deployment
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	own := h.Account(w, namespace, "fleet-agent")
	cfg := agent.Default()
	cfg.Namespace, cfg.CheckinInterval, cfg.Version = namespace, time.Second, "v0.1.0-test"
	if namespace != fleet.NamespaceSystem {
		cfg.Scope = namespace
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() && os.Getenv("FLEET_TEST_LOGS") == "all" {
		log.SetOutput(os.Stderr)
	}
	go func() {
		for w.deployed(ctx, h, namespace) {
			_ = kube.Sleep(ctx, 100*time.Millisecond)
		}
		stop()
	}()
	if err := agent.Run(ctx, cfg, own, logrus.NewEntry(log).WithField("site", namespace)); err != nil && ctx.Err() == nil {
		w.Errorf("the agent in %s ended with %v", namespace, err)
	}
}

// bundle makes a Bundle with one ConfigMap for a Cluster.
func (w *world) bundle(name, value string) {
	w.Helper()
	create(w, w.hub, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "app-" + name},
			Resources:               []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap("a", value)}},
			Targets:                 []fleet.BundleTarget{{ClusterName: name}},
		},
	})
}

// rewrite gives the ConfigMap of a Bundle another value.
func (w *world) rewrite(name, value string) {
	w.Helper()
	change(w, w.hub, fleet.NamespaceDefault, name, func(b *fleet.Bundle) {
		b.Spec.Resources[0].Content = harness.ConfigMap("a", value)
	})
}

// value waits for a value of a Bundle's ConfigMap, and returns its UID.
func (w *world) value(h *harness.Hub, name, want string) string {
	w.Helper()
	uid := ""
	w.until("the bundle "+name+" is deployed with "+want, func() bool {
		cm, ok := get[*corev1.ConfigMap](w, h, "app-"+name, "a")
		if ok {
			uid = string(cm.UID)
		}
		return ok && cm.Data["k"] == want
	})
	return uid
}

// ready waits until a Bundle is Ready.
func (w *world) ready(name string) {
	w.Helper()
	var b *fleet.Bundle
	w.until("the Bundle "+name+" is Ready", func() bool {
		b, _ = get[*fleet.Bundle](w, w.hub, fleet.NamespaceDefault, name)
		return b.Status.Summary.Ready == 1 && b.Status.Summary.DesiredReady == 1
	})
}

// registrations are the granted requests of a Cluster, by name.
func (w *world) registrations(name string) map[string]*fleet.ClusterRegistration {
	w.Helper()
	list, err := kube.StoreOf[*fleet.ClusterRegistration](w.hub.Admin).List(w.Context(), fleet.NamespaceDefault, "")
	w.must(err)
	out := map[string]*fleet.ClusterRegistration{}
	for _, r := range list {
		if r.Status.Granted && r.Status.ClusterName == name {
			out[r.Name] = r
		}
	}
	return out
}

// registeredAgain waits for a registration that is none of those that are known.
func (w *world) registeredAgain(name string, known map[string]*fleet.ClusterRegistration) {
	w.Helper()
	w.until("the agent of "+name+" registers again", func() bool {
		for r := range w.registrations(name) {
			if known[r] == nil {
				return true
			}
		}
		return false
	})
}

// goesTo is the address at which the agent in a namespace reaches its manager.
func (w *world) goesTo(h *harness.Hub, namespace string) string {
	w.Helper()
	s, ok := get[*corev1.Secret](w, h, namespace, fleet.SecretAgent)
	if !ok {
		return ""
	}
	cfg, err := kube.ParseKubeconfig(s.Data[registration.KeyKubeconfig])
	if err != nil {
		return "" // it is registering
	}
	return cfg.Host
}
