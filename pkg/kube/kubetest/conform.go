package kubetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// rootAuthority is a ConfigMap that each namespace of a real cluster has.
const rootAuthority = "kube-root-ca.crt"

// timeout is how long a test of Conform waits for what has to come.
const timeout = time.Minute

// Conform tests what the server of this package and real API servers have in common.
// cfg is of a server with Fleet's kinds. collect runs its garbage collector, namespace
// controller, token controller and the controllers of workloads; nil: they run by themselves. Each test has its own
// namespace.
func Conform(t *testing.T, cfg *rest.Config, collect func()) {
	if collect == nil {
		collect = func() {}
	}
	for name, test := range map[string]func(*conformity){
		"Create": (*conformity).create, "GenerateName": (*conformity).generateName, "Namespaces": (*conformity).namespaces,
		"Validation": conformValidation, "DryRun": (*conformity).dryRun, "Secrets": (*conformity).secrets, "DataLimit": (*conformity).dataLimit, "Tokens": (*conformity).tokens, "Events": (*conformity).events,
		"AccountTokens": (*conformity).accountTokens,
		"Update":        (*conformity).update, "Status": (*conformity).status, "Generation": (*conformity).generation,
		"MergePatch": (*conformity).mergePatch, "JSONPatch": (*conformity).jsonPatch, "StrategicPatch": (*conformity).strategicPatch, "Revision": revision,
		"Apply": (*conformity).apply, "ApplyConflict": (*conformity).applyConflict, "ManagedFields": (*conformity).managedFields,
		"Delete": (*conformity).delete, "Finalizers": (*conformity).finalizers, "Owners": (*conformity).owners,
		"Foreground": (*conformity).foreground, "Definitions": conformDefinitions, "Schemas": conformSchemas,
		"Pods": conformPods, "Webhook": conformWebhook, "WebhookIgnored": conformWebhookIgnored,
		"List": (*conformity).list, "Pages": (*conformity).pages, "Metadata": (*conformity).metadata, "Discovery": (*conformity).discovery,
		"FieldValidation": (*conformity).fieldValidation,
		"Watch":           (*conformity).watch, "WatchSelected": (*conformity).watchSelected, "WatchInitial": (*conformity).watchInitial,
		"FutureVersion": (*conformity).futureVersion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newConformity(t, cfg, collect))
		})
	}
}

// A conformity is one test of Conform.
type conformity struct {
	*testing.T
	cfg     *rest.Config
	collect func()
	ns      string

	client     *kube.Client
	dynamic    dynamic.Interface
	configMaps *kube.Store[*corev1.ConfigMap]
	clusters   *kube.Store[*fleet.Cluster]
	spaces     *kube.Store[*corev1.Namespace]
	okMap      func(*corev1.ConfigMap, error) *corev1.ConfigMap
	okCluster  func(*fleet.Cluster, error) *fleet.Cluster
}

var (
	configMapKind  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deploymentKind = appsv1.SchemeGroupVersion.WithResource("deployments")
)

func newConformity(t *testing.T, cfg *rest.Config, collect func()) *conformity {
	t.Helper()
	c := &conformity{T: t, cfg: cfg, collect: collect}
	c.client = c.as("conform")
	c.configMaps, c.clusters = kube.StoreOf[*corev1.ConfigMap](c.client), kube.StoreOf[*fleet.Cluster](c.client)
	c.spaces = kube.StoreOf[*corev1.Namespace](c.client)
	c.okMap, c.okCluster = ok[*corev1.ConfigMap](c), ok[*fleet.Cluster](c)
	var err error
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	ns := ok[*corev1.Namespace](c)(c.spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conform-"}}))
	c.ns = ns.Name
	return c
}

// as returns a connection with another field manager.
func (c *conformity) as(manager string) *kube.Client {
	c.Helper()
	client, err := kube.Connect(kube.Config{REST: c.cfg, UserAgent: manager + "/v0", FieldManager: manager})
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// ok returns a function that returns a result, and fails the test for an error.
func ok[P kube.Object](c *conformity) func(P, error) P {
	c.Helper()
	return func(p P, err error) P {
		c.Helper()
		if err != nil {
			c.Fatal(err)
		}
		return p
	}
}

// refused fails the test unless is accepts the error.
func (c *conformity) refused(err error, is func(error) bool, what string) {
	c.Helper()
	if !is(err) {
		c.Errorf("want it refused: %s; got %v", what, err)
	}
}

func (c *conformity) key(name string) kube.Key { return kube.Key{Namespace: c.ns, Name: name} }

// configMap creates a ConfigMap.
func (c *conformity) configMap(name string, labels map[string]string) *corev1.ConfigMap {
	c.Helper()
	return c.okMap(c.configMaps.Create(c.Context(), c.newConfigMap(name, labels)))
}

func (c *conformity) newConfigMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name, Labels: labels}, Data: map[string]string{"key": "value"}}
}

// cluster creates a custom object, named "cluster", of a kind with a status.
func (c *conformity) cluster() *fleet.Cluster {
	c.Helper()
	return c.okCluster(c.clusters.Create(c.Context(), &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "cluster"}, Spec: fleet.ClusterSpec{ClientID: "one"},
		Status: fleet.ClusterStatus{Namespace: "is not taken"},
	}))
}

// collected waits until the controllers of the cluster have brought a state about.
func (c *conformity) collected(what string, done func() bool) {
	c.Helper()
	waitFor(c, c.collect, what, done)
}

// waitFor lets the controllers of a cluster work until a state is there.
func waitFor(t testing.TB, collect func(), what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", timeout, what)
		}
		collect()
	}
}

// watching starts a watch that ends with the test.
func (c *conformity) watching(opts metav1.ListOptions) *watching {
	c.Helper()
	w, err := c.dynamic.Resource(configMapKind).Namespace(c.ns).Watch(c.Context(), opts)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(w.Stop)
	return &watching{c, w}
}

type watching struct {
	*conformity
	watch.Interface
}

// next returns the next event. It skips bookmarks, and objects that controllers create
// in each namespace.
func (w *watching) next() watch.Event {
	w.Helper()
	end := time.NewTimer(timeout)
	defer end.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				w.Fatal("the watch has ended")
			}
			o := metaOf(e.Object)
			if e.Type == watch.Bookmark && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "" || o.GetName() == rootAuthority {
				continue
			}
			return e
		case <-end.C:
			w.Fatal("no event came")
		}
	}
}

// wants checks the next event, and returns its object.
func (w *watching) wants(kind watch.EventType, name string) metav1.Object {
	w.Helper()
	e := w.next()
	o := metaOf(e.Object)
	if e.Type != kind || o.GetName() != name {
		w.Fatalf("want %s %s, got %s", kind, name, printed(e))
	}
	return o
}

// until reads events up to the deletion of an object.
func (w *watching) until(gone string) {
	w.Helper()
	for {
		if e := w.next(); e.Type == watch.Deleted && metaOf(e.Object).GetName() == gone {
			return
		}
	}
}

func printed(e watch.Event) string {
	if status, ok := e.Object.(*metav1.Status); ok {
		return fmt.Sprintf("%s %s", e.Type, status.Message)
	}
	return fmt.Sprintf("%s %s", e.Type, metaOf(e.Object).GetName())
}

func printedJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func metaOf(o runtime.Object) metav1.Object {
	if m, ok := o.(metav1.Object); ok {
		return m
	}
	return &metav1.ObjectMeta{}
}
