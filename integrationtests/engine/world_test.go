// Package engine_test tells how Bundles become deployments and status, on a
// real API server, with the engine alone: agents and the reader of
// repositories are played by the test, by the rules of the wire.
package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

const workspace = "fleet-default"

// checkin is how often the played agents report: clusters are Offline after 3 s.
const checkin = time.Second

type world struct {
	t       *testing.T
	cluster *cluster.Cluster
	admin   *kube.Client
	agents  map[string]*agent
	halt    func()
	wrap    func(http.RoundTripper) http.RoundTripper // around the engine's requests; nil: nothing
	checkin time.Duration                             // how often the engine expects agents to report; 0: as they do
	speaks  string                                    // the field manager of agents that are added; empty: this version's
}

// newWorld starts an API server and the engine.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, agents: map[string]*agent{}}
	w.open()
	return w
}

// open starts the API server of a world, and the engine.
func (w *world) open() {
	w.t.Helper()
	w.cluster = harness.Cluster(w.t, "management")
	w.admin = w.client("sandbox-admin", "test")
	harness.InstallCRDs(w.t, w.admin)
	for _, ns := range []string{fleet.NamespaceSystem, workspace} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	w.start()
	w.t.Cleanup(func() { w.halt() })
}

func (w *world) client(agent, manager string) *kube.Client {
	w.t.Helper()
	c, err := kube.Connect(kube.Config{REST: w.cluster.REST(), UserAgent: agent, FieldManager: manager})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) engineClient() *kube.Client {
	w.t.Helper()
	cfg := w.cluster.REST()
	if w.wrap != nil {
		cfg.Wrap(w.wrap)
	}
	c, err := kube.Connect(kube.Config{REST: cfg, UserAgent: "fleet-controller/test", FieldManager: fleet.FieldManagerController})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// start runs the controller role, as cmd/fleet-controller does.
func (w *world) start() {
	ctx, stop := context.WithCancel(context.Background())
	cfg := controllers.Default()
	cfg.LeaderElect, cfg.ManagerID, cfg.CheckinInterval = false, "test", max(w.checkin, checkin)
	log := logrus.New()
	log.SetOutput(logWriter{w.t})
	log.SetLevel(logrus.DebugLevel)
	client := w.engineClient()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := controllers.Run(ctx, cfg, client, logrus.NewEntry(log)); err != nil {
			w.t.Errorf("the controller ended: %v", err)
		}
	}()
	w.halt = func() { stop(); <-done }
}

type logWriter struct{ t *testing.T }

func (l logWriter) Write(p []byte) (int, error) {
	l.t.Log(time.Now().Format("05.000"), strings.TrimSpace(string(p)))
	return len(p), nil
}

// An agent plays the agent of one cluster: it reports, applies what it is
// given and uninstalls what it is ordered to.
type agent struct {
	workspace, name, namespace string
	client                     *kube.Client
	store                      *kube.Store[*fleet.BundleDeployment]
	clusters                   *kube.Store[*fleet.Cluster]

	mu      sync.Mutex
	online  bool
	working bool
	broken  map[string]string // by bundle: the error that applying gives
}

func (a *agent) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
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
	a := &agent{workspace: workspace, name: name, namespace: ns, client: client, online: true, working: true, broken: map[string]string{},
		store: kube.StoreOf[*fleet.BundleDeployment](client), clusters: kube.StoreOf[*fleet.Cluster](client)}
	w.agents[name] = a
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done })
	return a
}

func (a *agent) run(ctx context.Context) {
	beat := time.Time{}
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		a.mu.Lock()
		online, working := a.online, a.working
		a.mu.Unlock()
		if !online {
			continue
		}
		if time.Since(beat) >= checkin {
			beat = time.Now()
			a.heartbeat(ctx)
		}
		list, err := a.store.List(ctx, a.namespace, "")
		if err != nil || !working {
			continue
		}
		for _, bd := range list {
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

// bundle is a Bundle of repository "repo" with one manifest.
func bundle(name, text string, targets ...fleet.BundleTarget) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name,
		Labels: map[string]string{fleet.LabelRepoName: "repo", fleet.LabelCommit: "c1"}}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: text}}
	b.Spec.Targets = targets
	return b
}

// withValues moves values into the Secret of a Bundle and creates it.
func (w *world) withValues(b *fleet.Bundle, values map[string]any) *fleet.Bundle {
	w.t.Helper()
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: values}}
	data, err := options.BundleValuesSecretData(b.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	b.Spec.ValuesHash = options.BundleValuesHash(data)
	options.StripBundleValues(&b.Spec)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name,
		Labels: map[string]string{fleet.LabelManaged: "true"}}, Type: fleet.SecretTypeBundleValues, Data: data})
	return b
}

func everywhere() fleet.BundleTarget {
	return fleet.BundleTarget{Name: "all", ClusterSelector: &metav1.LabelSelector{}}
}

func where(key, value string) fleet.BundleTarget {
	return fleet.BundleTarget{Name: value, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

// create makes an object and returns it as the server has it.
func (w *world) create(obj kube.Object) kube.Object {
	w.t.Helper()
	var err error
	switch o := obj.(type) {
	case *corev1.Namespace:
		_, err = kube.StoreOf[*corev1.Namespace](w.admin).Create(w.t.Context(), o)
	case *corev1.Secret:
		_, err = kube.StoreOf[*corev1.Secret](w.admin).Create(w.t.Context(), o)
	case *corev1.ConfigMap:
		_, err = kube.StoreOf[*corev1.ConfigMap](w.admin).Create(w.t.Context(), o)
	case *fleet.Cluster:
		obj, err = kube.StoreOf[*fleet.Cluster](w.admin).Create(w.t.Context(), o)
	case *fleet.ClusterGroup:
		_, err = kube.StoreOf[*fleet.ClusterGroup](w.admin).Create(w.t.Context(), o)
	case *fleet.Bundle:
		_, err = kube.StoreOf[*fleet.Bundle](w.admin).Create(w.t.Context(), o)
	case *fleet.GitRepo:
		obj, err = kube.StoreOf[*fleet.GitRepo](w.admin).Create(w.t.Context(), o)
	case *fleet.Policy:
		_, err = kube.StoreOf[*fleet.Policy](w.admin).Create(w.t.Context(), o)
	case *fleet.BundleNamespaceMapping:
		_, err = kube.StoreOf[*fleet.BundleNamespaceMapping](w.admin).Create(w.t.Context(), o)
	case *fleet.HelmOp:
		_, err = kube.StoreOf[*fleet.HelmOp](w.admin).Create(w.t.Context(), o)
	default:
		w.t.Fatalf("cannot create %T", obj)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

func get[P kube.Object](w *world, key kube.Key) P {
	w.t.Helper()
	p, err := kube.StoreOf[P](w.admin).Get(w.t.Context(), key)
	if err != nil && !kube.IsGone(err) {
		w.t.Fatal(err)
	}
	return p
}

// setStatus changes the status of an object until it meets no conflict.
func setStatus[P kube.Object](w *world, key kube.Key, change func(P)) {
	w.t.Helper()
	store := kube.StoreOf[P](w.admin)
	w.until("the status of "+key.String()+" is written", func() bool {
		p, err := store.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		changed := p.DeepCopyObject().(P)
		change(changed)
		_, err = store.PatchStatus(w.t.Context(), p, changed)
		return err == nil
	})
}

// update changes an object until it meets no conflict.
func update[P kube.Object](w *world, key kube.Key, change func(P)) {
	w.t.Helper()
	store := kube.StoreOf[P](w.admin)
	for range 20 {
		p, err := store.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		change(p)
		if _, err = store.Update(w.t.Context(), p); err == nil {
			return
		} else if !kube.IsConflict(err) {
			w.t.Fatal(err)
		}
	}
	w.t.Fatal("too many conflicts")
}

func remove[P kube.Object](w *world, key kube.Key) {
	w.t.Helper()
	if err := kube.StoreOf[P](w.admin).Delete(w.t.Context(), key, kube.Precondition{}); err != nil {
		w.t.Fatal(err)
	}
}

func in(name string) kube.Key { return kube.Key{Namespace: workspace, Name: name} }

// until waits for a state.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s", what)
		}
		time.Sleep(10 * time.Millisecond) // how often the test looks
	}
}

// sees waits until look returns want.
func sees[T any](w *world, what string, want T, look func() T) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		diff := cmp.Diff(want, look())
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s\n-want +got\n%s", what, diff)
		}
		time.Sleep(10 * time.Millisecond) // how often the test looks
	}
}

// on lists the clusters that hold a deployment of a Bundle, each with "!" if
// it is ordered to leave.
func (w *world) on(name string) func() string {
	return func() string {
		w.t.Helper()
		list, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).List(w.t.Context(), "", fleet.LabelBundleName+"="+name)
		if err != nil {
			w.t.Fatal(err)
		}
		var out []string
		for _, bd := range list {
			text := bd.Labels[fleet.LabelCluster]
			if bd.Annotations[fleet.AnnotationWithdrawn] != "" {
				text += "!"
			}
			out = append(out, text)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
}

// ready is the Ready condition of an object: "True" or "False reason: message".
func ready[P kube.Object](w *world, key kube.Key, list func(P) []fleet.Condition) func() string {
	return func() string {
		w.t.Helper()
		p, err := kube.StoreOf[P](w.admin).Get(w.t.Context(), key)
		if err != nil {
			return err.Error()
		}
		c := condition.Find(list(p), fleet.ConditionReady)
		switch {
		case c == nil:
			return "none"
		case c.Status == "True":
			return "True"
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

func bundleReady(w *world, name string) func() string {
	return ready(w, in(name), func(b *fleet.Bundle) []fleet.Condition { return b.Status.Conditions })
}

func repoReady(w *world, name string) func() string {
	return ready(w, in(name), func(r *fleet.GitRepo) []fleet.Condition { return r.Status.Conditions })
}

func clusterReady(w *world, name string) func() string {
	return ready(w, in(name), func(c *fleet.Cluster) []fleet.Condition { return c.Status.Conditions })
}

// deployment is the deployment of a Bundle on a cluster, nil for none.
func (w *world) deployment(name, cluster string) *fleet.BundleDeployment {
	return get[*fleet.BundleDeployment](w, kube.Key{Namespace: naming.ClusterNamespace(workspace, cluster), Name: name})
}
