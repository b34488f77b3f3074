// Package agents_test tests how the manager keeps the agents of its fleet up to
// date: an API server in memory with the charts installed by Helm, the real loops of the
// manager with the rights of its chart, and real agents that register, deploy
// their own bundle and check in. Pods are played: the API server calls every
// Deployment ready, and a kubelet of this package runs the agent of each Deployment in
// this process, as the version that its image is tagged with.
package agents_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

const checkin = time.Second

// A world is one API server that is the manager's and that all clusters of the
// fleet are, each with an agent in a namespace of its own.
type world struct {
	*testing.T
	cluster harness.ControlPlane
	admin   *kube.Client
	client  kubernetes.Interface
	ahead   atomic.Int64 // of the manager's clock, in nanoseconds
	halt    func()

	mu     sync.Mutex
	broken map[string]bool // images whose pods never come up
}

// open starts a world with the charts fleet-crd and fleet, and no manager.
func open(t *testing.T, values map[string]any) *world {
	t.Helper()
	w := &world{T: t, cluster: harness.Memory(t, "agents"), broken: map[string]bool{}, halt: func() {}}
	config := w.cluster.REST()
	config.UserAgent = harness.TestAgent
	var err error
	if w.admin, err = kube.Connect(kube.Config{REST: config, UserAgent: harness.TestAgent, FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	w.client = kubernetes.NewForConfigOrDie(config)
	installChart(t, w.cluster, "fleet-crd", fleet.NamespaceSystem, nil)
	harness.KindsServed(t, w.admin)
	all := map[string]any{"apiServerURL": w.cluster.URL(), "apiServerCA": string(w.cluster.CA()), "agentTLSMode": "strict"}
	for k, v := range values {
		all[k] = v
	}
	installChart(t, w.cluster, "fleet", fleet.NamespaceSystem, all)
	w.namespace(fleet.NamespaceDefault)
	t.Cleanup(func() { w.halt() })
	return w
}

func (w *world) namespace(name string) {
	w.Helper()
	_, err := kube.StoreOf[*corev1.Namespace](w.admin).Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !kube.IsExists(err) {
		w.Fatal(err)
	}
}

// as is the API server with a token of an account, as its pod would have it.
func (w *world) as(namespace, account string) *rest.Config {
	w.Helper()
	r, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(w.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	out := rest.AnonymousClientConfig(w.cluster.REST())
	out.BearerToken = r.Status.Token
	return out
}

// manage runs the manager that wants an image of its agents, in the place of the
// one that runs: as after an upgrade of its chart.
func (w *world) manage(image string) {
	w.Helper()
	w.halt()
	ctx, stop := context.WithCancel(context.Background())
	connect := func(field string) *kube.Client {
		c, err := kube.Connect(kube.Config{REST: w.as(fleet.NamespaceSystem, "fleet-controller"), UserAgent: field + "/test", FieldManager: field})
		if err != nil {
			w.Fatal(err)
		}
		return c
	}
	client := connect(fleet.FieldManagerAgentManagement)
	install := harness.Installed(w, client)
	config, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController})
	if err != nil {
		w.Fatal(err)
	}
	settings, warnings, err := registration.ParseSettings(config.Data[fleet.KeyConfig])
	if err != nil || len(warnings) > 0 {
		w.Fatal(err, warnings)
	}
	settings.AgentImage = image
	manager := agentmanagement.New(agentmanagement.Config{
		Addresses: address.WithLoopback(),
		Namespace: fleet.NamespaceSystem, Settings: settings, Installation: install,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
	}, client, w.log())
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.Identity, cfg.LeaderElect, cfg.ManagerID, cfg.CheckinInterval, cfg.Metrics = "test", false, install.ID, checkin, controllers.NewMetrics()
	var all sync.WaitGroup
	all.Go(func() {
		if err := kube.Run(ctx, w.report, manager.Runnables()...); err != nil {
			w.Errorf("agent management ended: %v", err)
		}
	})
	all.Go(func() {
		if err := controllers.Run(ctx, cfg, connect(fleet.FieldManagerController), w.log()); err != nil {
			w.Errorf("the controllers ended: %v", err)
		}
	})
	w.halt = func() { stop(); all.Wait(); w.halt = func() {} }
}

func (w *world) report(loop string, key kube.Key, err error) {
	if !kube.IsConflict(err) {
		w.Logf("loop %s, %s: %v", loop, key, err)
	}
}

func (w *world) log() *logrus.Entry {
	return logrus.NewEntry(harness.Logger())
}

// later moves the manager's clock, and lets it look again.
func (w *world) later(d time.Duration) {
	w.Helper()
	w.ahead.Add(int64(d))
	c := w.clusters()[0]
	w.change(kube.KeyOf(c), func(c *fleet.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations["test/clock"] = fmt.Sprint(w.ahead.Load())
	})
}

// join makes a Cluster and installs the agent's chart for it, in a namespace of
// its own, with the version of an image.
func (w *world) join(name, tag string, values map[string]any) *site {
	w.Helper()
	ctx := w.Context()
	_, err := kube.StoreOf[*fleet.Cluster](w.admin).Create(ctx, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
		Spec:       fleet.ClusterSpec{ClientID: "client-" + name},
	})
	if err != nil {
		w.Fatal(err)
	}
	s := &site{world: w, key: kube.Key{Namespace: fleet.NamespaceDefault, Name: name}, namespace: "agent-" + name}
	all := w.tokenValues()
	all["internal"] = map[string]any{"systemNamespace": s.namespace}
	all["image"] = map[string]any{"repository": "x/agent", "tag": tag}
	all["clientID"], all["agentTLSMode"] = "client-"+name, "strict"
	for k, v := range values {
		all[k] = v
	}
	installChart(w.T, w.cluster, "fleet-agent", s.namespace, all)
	s.play()
	return s
}

// tokenValues are those of a registration token for workspace fleet-default.
func (w *world) tokenValues() map[string]any {
	w.Helper()
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "all"}}
	if _, err := kube.StoreOf[*fleet.ClusterRegistrationToken](w.admin).Create(w.Context(), t); err != nil && !kube.IsExists(err) {
		w.Fatal(err)
	}
	values := map[string]any{}
	w.until("the token's values", func() bool {
		s, err := kube.StoreOf[*corev1.Secret](w.admin).Get(w.Context(), kube.KeyOf(t))
		return err == nil && yaml.Unmarshal(s.Data[fleet.KeyValues], &values) == nil && values["token"] != nil
	})
	delete(values, "internal")
	return values
}

// A site is one cluster of the fleet: a namespace with an agent.
type site struct {
	*world
	key       kube.Key
	namespace string
}

// play runs what the Deployment of the agent asks for until the end of the test.
func (s *site) play() {
	s.Helper()
	own := s.as(s.namespace, "fleet-agent")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.kubelet(ctx, own)
	}()
	s.Cleanup(func() { stop(); <-done })
}

// kubelet starts another agent whenever the Deployment's template changes. One
// whose image does not come up leaves the one before at work, as a rolling update
// does.
func (s *site) kubelet(ctx context.Context, own *rest.Config) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	running, hash := func() {}, ""
	defer func() { running() }()
	for {
		d, err := s.client.AppsV1().Deployments(s.namespace).Get(ctx, "fleet-agent", metav1.GetOptions{})
		if err == nil {
			now, _ := registration.ObjectHash(d.Spec.Template.Spec)
			image := d.Spec.Template.Spec.Containers[0].Image
			if now != hash && !s.isBroken(image) {
				running()
				running, hash = s.pod(ctx, own, d), now
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *world) isBroken(image string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken[image]
}

func (w *world) breaks(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[image] = true
}

// mends lets the pods of an image come up, also those that could not.
func (w *world) mends(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.broken, image)
}

// pod runs an agent as its pod would, and returns what stops it.
func (s *site) pod(ctx context.Context, own *rest.Config, d *appsv1.Deployment) func() {
	container := d.Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range container.Env {
		env[v.Name] = v.Value
	}
	_, tag, _ := strings.Cut(container.Image, ":")
	cfg := agent.Default()
	cfg.Namespace, cfg.Scope = env[registration.EnvNamespace], env[registration.EnvScope]
	cfg.CheckinInterval, cfg.Version = checkin, tag
	cfg.LeaderElect, cfg.Identity = env[registration.EnvLeaderElect] == "true", fmt.Sprint(d.Generation)
	cfg.Lease.Retry = 100 * time.Millisecond
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for { // as a kubelet does with one that could not renew its lease
			err := agent.Run(ctx, cfg, rest.CopyConfig(own), s.log().WithField("site", s.key.Name))
			if ctx.Err() != nil {
				return
			}
			if err != nil && !errors.Is(err, kube.ErrLeaseLost) {
				s.Errorf("agent of %s ended: %v", s.key, err)
				return
			}
		}
	}()
	return func() { stop(); <-done }
}

// deployment is the Deployment of the agent.
func (s *site) deployment() *appsv1.Deployment {
	s.Helper()
	d, err := s.client.AppsV1().Deployments(s.namespace).Get(s.Context(), "fleet-agent", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return d
}

func (s *site) image() string { return s.deployment().Spec.Template.Spec.Containers[0].Image }

// bundle is the Bundle of the agent; nil while there is none.
func (s *site) bundle() *fleet.Bundle {
	b, err := kube.StoreOf[*fleet.Bundle](s.admin).Get(s.Context(), kube.Key{Namespace: s.key.Namespace, Name: naming.AgentBundle(s.key.Name)})
	if err != nil {
		return nil
	}
	return b
}

func (s *site) cluster() *fleet.Cluster {
	s.Helper()
	c, err := kube.StoreOf[*fleet.Cluster](s.admin).Get(s.Context(), s.key)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// deployed reports whether the agent's Bundle is Ready as it is now.
func (s *site) deployed() bool {
	b := s.bundle()
	return b != nil && b.Status.ObservedGeneration >= b.Generation && b.Status.Summary.Ready == 1
}

func (w *world) clusters() []*fleet.Cluster {
	w.Helper()
	list, err := kube.StoreOf[*fleet.Cluster](w.admin).List(w.Context(), "", "")
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// change changes a Cluster, as a person does.
func (w *world) change(key kube.Key, f func(*fleet.Cluster)) {
	w.Helper()
	harness.Revise(w, w.admin, key, f)
}

// state returns the manager's record of the rollout of agents.
func (w *world) state() agentrollout.State {
	m, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(w.Context(), kube.Key{Namespace: fleet.NamespaceSystem, Name: agentrollout.ConfigMapName})
	if err != nil {
		return agentrollout.State{}
	}
	s, err := agentrollout.ParseState(m.Data[agentrollout.KeyState])
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// until returns when f is true.
func (w *world) until(what string, f func() bool) {
	w.Helper()
	deadline := time.Now().Add(harness.Timeout)
	for !f() {
		if time.Now().After(deadline) {
			w.Fatalf("not in time: %s\nagents: %+v", what, w.state())
		}
		select {
		case <-w.Context().Done():
			w.Fatalf("ended while waiting: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// images are the images that the agents of some sites should have.
func images(sites []*site) []string {
	var out []string
	for _, s := range sites {
		out = append(out, s.image())
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}
