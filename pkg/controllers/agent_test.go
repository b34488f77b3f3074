package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A post passes the deployments of a world to its agents. One watch for all costs
// the API server less than each agent's own.
type post struct {
	orders *kube.Cache[*fleet.BundleDeployment]

	mu     sync.Mutex
	agents map[string]*agent // by namespace
}

// newPost starts the post of a world. It ends with the world.
func newPost(w *world) *post {
	w.t.Helper()
	p := &post{orders: kube.NewCache[*fleet.BundleDeployment](w.client("fleet-agent/test", "test"), kube.Watch{}, nil), agents: map[string]*agent{}}
	p.orders.OnChange(func(_, changed *fleet.BundleDeployment) {
		if changed != nil {
			p.wake(changed.Namespace)
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	done := running(func() error { return p.orders.Run(ctx) })
	w.t.Cleanup(func() { stop(); <-done })
	return p
}

func (p *post) add(a *agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agents[a.namespace] = a
}

func (p *post) wake(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.agents[namespace]; a != nil {
		a.wake()
	}
}

// An agent plays the agent of one cluster: it reports, applies what it is
// given and uninstalls what it is ordered to.
type agent struct {
	workspace, name, namespace string
	post                       *post
	store                      *kube.Store[*fleet.BundleDeployment]
	clusters                   *kube.Store[*fleet.Cluster]
	changes                    chan struct{} // it or its deployments have changed

	mu      sync.Mutex
	online  bool
	working bool
	broken  map[string]string // by bundle: the error that applying gives
}

func (a *agent) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	a.wake()
}

// wake lets the agent look at its deployments.
func (a *agent) wake() {
	select {
	case a.changes <- struct{}{}:
	default: // it is about to look anyway
	}
}

// addCluster registers a cluster and starts its agent.
func (w *world) addCluster(name string, labels map[string]string) *agent {
	w.t.Helper()
	return w.addClusterIn(workspace, name, labels)
}

// addClusterIn does the same in any workspace.
func (w *world) addClusterIn(workspace, name string, labels map[string]string) *agent {
	w.t.Helper()
	ns := naming.ClusterNamespace(workspace, name)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	c := w.create(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: name, Labels: labels,
		Annotations: map[string]string{registration.AnnotationDeploymentNamespace: ns},
	}})
	setStatus(w, kube.KeyOf(c), func(c *fleet.Cluster) { c.Status.Namespace = ns })
	speaks := w.speaks
	if speaks == "" {
		speaks = fleet.FieldManagerAgent
	}
	client := w.client("fleet-agent/test", speaks)
	a := &agent{workspace: workspace, name: name, namespace: ns, online: true, working: true, broken: map[string]string{},
		changes: make(chan struct{}, 1), post: w.post, store: kube.StoreOf[*fleet.BundleDeployment](client), clusters: kube.StoreOf[*fleet.Cluster](client)}
	w.agents[name] = a
	w.post.add(a)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done })
	return a
}

// run reports regularly, and works whenever something has changed. What could
// not be written is tried again after the next report at the latest.
func (a *agent) run(ctx context.Context) {
	beat, due := time.NewTimer(0), false
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			due = true
		case <-a.changes:
		}
		a.mu.Lock()
		online, working := a.online, a.working
		a.mu.Unlock()
		if online && due {
			due = false
			beat.Reset(checkin)
			a.heartbeat(ctx)
		}
		if !online || !working {
			continue
		}
		for _, bd := range a.post.orders.List(a.namespace) {
			a.work(ctx, bd)
		}
	}
}

func (a *agent) heartbeat(ctx context.Context) {
	body := fmt.Sprintf(`{"status":{"agent":{"lastSeen":%q,"namespace":"cattle-fleet-system"}}}`, time.Now().UTC().Format(time.RFC3339))
	_, _ = a.clusters.PatchRaw(ctx, kube.Key{Namespace: a.workspace, Name: a.name}, "application/merge-patch+json", []byte(body), "status")
}

// work is one look of the agent at one deployment.
func (a *agent) work(ctx context.Context, bd *fleet.BundleDeployment) {
	changed := bd.DeepCopy()
	st := &changed.Status
	a.mu.Lock()
	failure := a.broken[bd.Name]
	a.mu.Unlock()
	order := bd.Annotations[fleet.AnnotationWithdrawn]
	switch {
	case order != "":
		st.AppliedDeploymentID, st.Release, st.Ready = "", "", false
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{Type: fleet.ConditionWithdrawn, Status: "True",
			Reason: fleet.ReasonUninstalled, Message: order}, time.Now())
	case bd.Spec.Paused || bd.Spec.DeploymentID == "" || bd.Spec.DeploymentID == st.AppliedDeploymentID:
		return
	case failure != "":
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{Type: fleet.ConditionDeployed, Status: "False",
			Reason: fleet.ReasonError, Message: failure}, time.Now())
	default:
		st.AppliedDeploymentID, st.Ready, st.NonModified = bd.Spec.DeploymentID, true, true
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{Type: fleet.ConditionDeployed, Status: "True"}, time.Now())
		st.Resources = []fleet.BundleDeploymentResource{{Kind: "ConfigMap", APIVersion: "v1", Namespace: "default", Name: bd.Name}}
		st.ResourceCounts = fleet.ResourceCounts{Ready: 1, DesiredReady: 1}
	}
	_, _ = a.store.PatchStatus(ctx, bd, changed)
}
