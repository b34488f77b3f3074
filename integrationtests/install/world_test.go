// Package install tests how Fleet's charts are installed, take over an
// installation of the reference, and go: with Helm, on a real API server.
package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestMain lets tests run at once, whatever the number of processors: they wait
// for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long Helm, or something else, may take.
const limit = 2 * harness.Timeout

// A world is one cluster, and Helm with an administrator's rights.
type world struct {
	testing.TB
	cluster *cluster.Cluster
	config  *rest.Config
	any     dynamic.Interface
}

func newWorld(t testing.TB, name string) *world {
	t.Helper()
	w := &world{TB: t, cluster: harness.Cluster(t, name)}
	w.config = w.cluster.REST()
	w.config.UserAgent = harness.TestAgent
	w.config.QPS, w.config.Burst = 200, 400
	w.any = dynamic.NewForConfigOrDie(w.config)
	return w
}

// part is the same world for a part of the test.
func (w *world) part(t testing.TB) *world {
	p := *w
	p.TB = t
	return &p
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// helm is Helm for the system namespace.
func (w *world) helm() *action.Configuration {
	w.Helper()
	settings := cli.New()
	settings.KubeConfig = w.cluster.Kubeconfig()
	settings.SetNamespace(fleet.NamespaceSystem)
	settings.QPS, settings.BurstLimit = 200, 400
	var cfg action.Configuration
	w.must(cfg.Init(settings.RESTClientGetter(), fleet.NamespaceSystem, "secret", func(string, ...any) {}))
	return &cfg
}

// ours is one of our charts.
func (w *world) ours(name string) *chart.Chart {
	w.Helper()
	c, err := loader.Load(filepath.Join("..", "..", "charts", name))
	w.must(err)
	return c
}

// install is "helm install --create-namespace --wait" of a chart under its own
// name.
func (w *world) install(c *chart.Chart, values map[string]any) {
	w.Helper()
	do := action.NewInstall(w.helm())
	do.ReleaseName, do.Namespace, do.CreateNamespace = c.Name(), fleet.NamespaceSystem, true
	do.Wait, do.Timeout = true, limit
	if _, err := do.RunWithContext(w.Context(), c, values); err != nil {
		w.Fatalf("helm install %s: %v", c.Name(), err)
	}
}

// upgrade is "helm upgrade --wait --reset-then-reuse-values", which is what Rancher
// does too: the values that the installed release was given, and those here.
func (w *world) upgrade(c *chart.Chart, values map[string]any) error {
	w.Helper()
	do := action.NewUpgrade(w.helm())
	do.Namespace, do.ResetThenReuseValues, do.Wait, do.Timeout = fleet.NamespaceSystem, true, true, limit
	_, err := do.RunWithContext(w.Context(), c.Name(), c, values)
	return err
}

// uninstall is "helm uninstall --wait".
func (w *world) uninstall(name string) {
	w.Helper()
	do := action.NewUninstall(w.helm())
	do.Wait, do.Timeout = true, limit
	if _, err := do.Run(name); err != nil {
		w.Fatalf("helm uninstall %s: %v", name, err)
	}
}

// apply creates the objects of a text, in order.
func (w *world) apply(text string) {
	w.Helper()
	for _, doc := range strings.Split(text, "---\n") {
		var o unstructured.Unstructured
		w.must(yaml.Unmarshal([]byte(doc), &o.Object))
		if len(o.Object) == 0 {
			continue
		}
		resource, namespaced := w.resourceOf(o.GroupVersionKind())
		client := dynamic.ResourceInterface(w.any.Resource(resource))
		if namespaced {
			client = w.any.Resource(resource).Namespace(o.GetNamespace())
		}
		if _, err := client.Create(w.Context(), &o, metav1.CreateOptions{}); err != nil {
			w.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// served are the kinds of the cluster that can be listed.
func (w *world) served() map[schema.GroupVersionKind]metav1.APIResource {
	w.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	w.must(err)
	lists, err := client.ServerPreferredResources()
	w.must(err)
	out := map[schema.GroupVersionKind]metav1.APIResource{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		w.must(err)
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") {
				r.Group, r.Version = version.Group, version.Version
				out[version.WithKind(r.Kind)] = r
			}
		}
	}
	return out
}

func (w *world) resourceOf(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	w.Helper()
	var r metav1.APIResource
	w.until(kind.String()+" is served", func(context.Context) (ok bool) { // new kinds become known a moment later
		r, ok = w.served()[kind]
		return ok
	})
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}, r.Namespaced
}

// passing are kinds whose objects come and go by themselves.
var passing = []string{"events", "leases", "endpoints", "endpointslices", "nodes", "csinodes", "controllerrevisions", "componentstatuses", "ipaddresses"}

// objects are all objects of the cluster by "Kind namespace/name", but those that
// pass, the pods of Fleet's own Deployments, and Helm's records.
func (w *world) objects() map[string]*unstructured.Unstructured {
	w.Helper()
	out := map[string]*unstructured.Unstructured{}
	for kind, r := range w.served() {
		if slices.Contains(passing, r.Name) {
			continue
		}
		list, err := w.any.Resource(schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}).List(w.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // a kind that went a moment ago
		}
		w.must(err)
		for i := range list.Items {
			o := &list.Items[i]
			own := o.GetNamespace() == fleet.NamespaceSystem && (kind.Kind == "Pod" || kind.Kind == "ReplicaSet")
			if own || strings.HasPrefix(o.GetName(), "sh.helm.release.v1.") {
				continue
			}
			out[nameOf(kind.Kind, o.GetNamespace(), o.GetName())] = o
		}
	}
	return out
}

func nameOf(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return fmt.Sprintf("%s %s/%s", kind, namespace, name)
}

// missing are the objects of before that are gone now, or are others of the same
// name.
func missing(before, now map[string]*unstructured.Unstructured) []string {
	var out []string
	for name, o := range before {
		have, ok := now[name]
		switch {
		case !ok:
			out = append(out, name)
		case have.GetUID() != o.GetUID():
			out = append(out, name+" (created again)")
		case have.GetDeletionTimestamp() != nil:
			out = append(out, name+" (being deleted)")
		}
	}
	slices.Sort(out)
	return out
}

// deletions are the successful requests since a moment that delete something,
// without what Kubernetes does by itself and without Helm's records.
func (w *world) deletions(since time.Time) []string {
	w.Helper()
	list, err := harness.ReadAudit(w.cluster.Name(), w.cluster.AuditLog(), since)
	w.must(err)
	var out []string
	for _, r := range list {
		helms := r.Resource == "secrets" && strings.HasPrefix(r.Name, "sh.helm.release.v1.")
		if strings.HasPrefix(r.Verb, "delete") && r.Code < 300 && !helms && !strings.HasPrefix(r.User, "system:") && r.User != "kwok" {
			out = append(out, r.String())
		}
	}
	return out
}

// rollback is "helm rollback --wait".
func (w *world) rollback(name string, revision int) {
	w.Helper()
	do := action.NewRollback(w.helm())
	do.Version, do.Wait, do.Timeout = revision, true, limit
	w.must(do.Run(name))
}

// serves reports whether every kind of Fleet can be listed.
func (w *world) serves(ctx context.Context) bool {
	for _, k := range fleet.Kinds() {
		if _, err := w.any.Resource(fleet.GroupVersion.WithResource(k.Plural)).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return false
		}
	}
	return true
}

// ready reports whether all pods of a Deployment are ready.
func (w *world) ready(ctx context.Context, namespace, name string) bool {
	o, err := w.any.Resource(deployments).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	want, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	have, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
	return want == have
}

// until waits until f is true.
func (w *world) until(what string, f func(context.Context) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	for !f(ctx) {
		select {
		case <-ctx.Done():
			w.Fatalf("not in time: %s", what)
		case <-time.After(50 * time.Millisecond): // how often it is looked
		}
	}
}
