package managed

import (
	"context"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A kubelet runs the agents of a cluster that there are Deployments for, each with
// the account that was made for it, and nothing else. It stands in for pods, which
// run nothing here.
type kubelet struct {
	world
	hub    *harness.Hub
	config func(*agent.Config) // changes what agents are started with

	mu      sync.Mutex
	running map[string]*pod // by namespace
	barred  map[string]bool // namespaces in which nothing comes up
}

// A pod is a running agent.
type pod struct {
	template string // what it was started for
	stop     func()
}

// agentsOf starts a kubelet for the namespaces of agents of a cluster.
func (w world) agentsOf(h *harness.Hub, namespaces ...string) *kubelet {
	w.Helper()
	k := &kubelet{world: w, hub: h, running: map[string]*pod{}, barred: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, namespace := range namespaces {
				k.look(ctx, namespace)
			}
			_ = kube.Sleep(ctx, 50*time.Millisecond)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, p := range maps.Clone(k.running) {
			p.stop()
		}
	}()
	w.Cleanup(func() { stop(); <-done })
	return k
}

// look starts the agent of a namespace if its Deployment has come or has changed,
// and stops one whose Deployment is gone.
func (k *kubelet) look(ctx context.Context, namespace string) {
	d, err := kube.StoreOf[*appsv1.Deployment](k.hub.Admin).Get(ctx, kube.Key{Namespace: namespace, Name: "fleet-agent"})
	if err != nil && !kube.IsGone(err) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	has := k.running[namespace]
	if err != nil || d.DeletionTimestamp != nil || *d.Spec.Replicas == 0 || k.barred[namespace] {
		if has != nil {
			has.stop()
			delete(k.running, namespace)
		}
		return
	}
	template, err := registration.ObjectHash(d.Spec.Template.Spec)
	if err != nil || has != nil && has.template == template {
		return
	}
	if has != nil {
		has.stop()
		delete(k.running, namespace)
	}
	if stop := k.start(ctx, d); stop != nil {
		k.running[namespace] = &pod{template: template, stop: stop}
	}
}

// bar keeps the agent of a namespace from coming up.
func (k *kubelet) bar(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.barred[namespace] = true
}

// again stops the agent of a namespace and starts it again.
func (k *kubelet) again(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.running[namespace]; p != nil {
		p.stop()
		delete(k.running, namespace)
	}
}

// collects restarts the agent of a namespace as one that removes at once what no
// deployment asks for.
func (k *kubelet) collects(namespace string) {
	k.mu.Lock()
	k.config = func(c *agent.Config) {
		if c.Namespace == namespace {
			c.OrphanPolicy, c.OrphanGracePeriod = agent.OrphansCollected, time.Second
		}
	}
	k.mu.Unlock()
	k.again(namespace)
}

// start runs an agent as its pod would, and returns what stops it; nil where it
// has no account. A Pod exists until the agent has stopped: the manager waits for the
// pods of an agent that it removes, because a running agent writes its objects again.
func (k *kubelet) start(ctx context.Context, d *appsv1.Deployment) func() {
	env := map[string]string{}
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		env[v.Name] = v.Value
	}
	token, err := k.hub.Client.CoreV1().ServiceAccounts(d.Namespace).CreateToken(ctx, "fleet-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil
	}
	own := rest.AnonymousClientConfig(k.hub.Cluster.REST())
	own.BearerToken = token.Status.Token
	cfg := agent.Default()
	cfg.Namespace, cfg.Scope = d.Namespace, env[registration.EnvScope]
	cfg.CheckinInterval, cfg.Version = checkin, "v0.1.0-test"
	cfg.LeaderElect, cfg.Identity = env[registration.EnvLeaderElect] == "true", "pod-of-"+d.Namespace
	cfg.Lease.Retry, cfg.Lease.Renew, cfg.Lease.Duration = 100*time.Millisecond, 30*time.Second, 45*time.Second
	if k.config != nil {
		k.config(&cfg)
	}
	process := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "process", Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	pods := kube.StoreOf[*corev1.Pod](k.hub.Admin)
	if _, err := pods.Create(ctx, process); err != nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := agent.Run(ctx, cfg, own, logs().WithField("site", d.Namespace)); err != nil && ctx.Err() == nil {
			k.Errorf("the agent in %s ended with %v", d.Namespace, err)
		}
	}()
	return func() {
		stop()
		<-done
		if err := pods.Delete(context.Background(), kube.KeyOf(process), kube.Precondition{}); err != nil {
			k.Errorf("the pod of the agent in %s: %v", d.Namespace, err)
		}
	}
}
