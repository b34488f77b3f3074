// The tests of this package run the manager's controller role on an API server in memory,
// in a bubble of fake time. The test plays the agents and the reader of repositories, by
// the rules of the wire.
package controllers_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

const workspace = "fleet-default"

// checkin is how often the played agents report.
const checkin = time.Second

// How often the manager expects them to: a cluster is Offline after three times that.
// Where none is to be Offline, none is because the machine is busy with something else.
const (
	lenient = time.Minute
	strict  = 5 * time.Second
)

const (
	timeout  = 5 * time.Minute        // how long a state may take to come, in fake time
	interval = 100 * time.Millisecond // how often the test looks
)

type world struct {
	t       *testing.T
	server  *kubetest.Server
	admin   *kube.Client
	agents  map[string]*agent
	post    *post
	halt    func()
	wrap    func(http.RoundTripper) http.RoundTripper // around the manager's requests; nil: nothing
	checkin time.Duration                             // how often the manager expects agents to report; 0: lenient
	speaks  string                                    // the field manager of agents that are added; empty: this version's
}

// newWorld starts the manager on an API server that is empty.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, agents: map[string]*agent{}}
	w.open()
	return w
}

// open makes an API server, and starts the manager and what controllers of Kubernetes do.
func (w *world) open() {
	w.t.Helper()
	w.server = kubetest.New(w.t)
	w.admin = w.client("sandbox-admin", "test")
	w.collectGarbage()
	w.server.InstallKinds()
	w.post = newPost(w)
	for _, ns := range []string{fleet.NamespaceSystem, workspace} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	w.start()
	w.t.Cleanup(func() { w.halt() })
}

// collectGarbage collects garbage every second until the world ends.
func (w *world) collectGarbage() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.server.CollectGarbage()
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	w.t.Cleanup(func() { stop(); <-done })
}

func (w *world) client(agent, manager string) *kube.Client {
	w.t.Helper()
	c, err := kube.Connect(kube.Config{REST: w.server.REST(), UserAgent: agent, FieldManager: manager})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) engineClient() *kube.Client {
	w.t.Helper()
	cfg := w.server.REST()
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
	cfg.Addresses = address.WithLoopback()
	cfg.LeaderElect, cfg.ManagerID, cfg.CheckinInterval = false, "test", cmp.Or(w.checkin, lenient)
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
	case *fleet.GitRepoRestriction:
		_, err = kube.StoreOf[*fleet.GitRepoRestriction](w.admin).Create(w.t.Context(), o)
	case *fleet.BundleNamespaceMapping:
		_, err = kube.StoreOf[*fleet.BundleNamespaceMapping](w.admin).Create(w.t.Context(), o)
	case *fleet.ImageScan:
		_, err = kube.StoreOf[*fleet.ImageScan](w.admin).Create(w.t.Context(), o)
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
	for {
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
}

// settle waits until the manager and the agents have worked on all that has happened, and
// longer than status writes are put off.
func (w *world) settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
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
	deadline := time.Now().Add(timeout)
	for synctest.Wait(); !ok(); synctest.Wait() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s", what)
		}
		time.Sleep(interval)
	}
}

// sees waits until look returns want.
func sees[T any](w *world, what string, want T, look func() T) {
	w.t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		synctest.Wait()
		diff := gocmp.Diff(want, look())
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s\n-want +got\n%s", what, diff)
		}
		time.Sleep(interval)
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

// readyOn waits until the manager counts a Bundle as Ready on so many clusters, "2/2". Who
// makes Clusters and then a Bundle has to: the manager may hear of the Bundle first, and it
// is Ready then on those that are known.
func (w *world) readyOn(name, clusters string) {
	w.t.Helper()
	sees(w, name+" is Ready on "+clusters, clusters+" True", func() string {
		return get[*fleet.Bundle](w, in(name)).Status.Display.ReadyClusters + " " + bundleReady(w, name)()
	})
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
