// Package workspace tells stories about Rancher's clusters and workspaces on a
// real API server. Rancher's kinds are written by ourselves, and keep unknown
// fields; Rancher's part is played by the test.
package workspace

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// manager is the User-Agent of the house under test.
const manager = "fleet-workspace"

// limit is how long something may take to happen.
const limit = 30 * time.Second

// Rancher's kinds.
var (
	mgmtClusters = resource("management.cattle.io", "v3", "clusters")
	settings     = resource("management.cattle.io", "v3", "settings")
	features     = resource("management.cattle.io", "v3", "features")
	workspaces   = resource("management.cattle.io", "v3", "fleetworkspaces")
	provClusters = resource("provisioning.cattle.io", "v1", "clusters")
)

func resource(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// world is a cluster with Rancher's kinds and the house that ties them to Fleet.
type world struct {
	testing.TB
	hub     *harness.Hub
	objects dynamic.Interface // the test, as Rancher and its users
	stop    func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub := harness.NewHub(t, harness.Cluster(t, "rancher"))
	config := hub.Cluster.REST()
	config.UserAgent = harness.TestAgent
	return &world{TB: t, hub: hub, objects: dynamic.NewForConfigOrDie(config)}
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

// start runs the house until stop, or the end of the test.
func (w *world) start(mode plan.Mode) {
	w.Helper()
	config := w.hub.Cluster.REST()
	config.UserAgent = manager
	client, err := kube.Connect(kube.Config{REST: config, UserAgent: manager, FieldManager: manager})
	w.must(err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() && os.Getenv("FLEET_TEST_LOGS") != "" {
		log.SetOutput(os.Stderr)
		log.SetLevel(logrus.DebugLevel)
	}
	w.run(workspace.New(workspace.Config{Mode: mode, Look: 50 * time.Millisecond, Fail: func(loop string, key kube.Key, err error) {
		log.Warnf("%s %s: %v", loop, key, err)
	}}, client, log.WithField("process", manager)))
}

// kinds installs Rancher's kinds.
func (w *world) kinds() {
	w.Helper()
	for kind, r := range map[string]schema.GroupVersionResource{
		"Cluster": mgmtClusters, "Setting": settings, "Feature": features, "FleetWorkspace": workspaces,
	} {
		w.kind(kind, r, apiextensionsv1.ClusterScoped)
	}
	w.kind("Cluster", provClusters, apiextensionsv1.NamespaceScoped)
	for _, r := range []schema.GroupVersionResource{mgmtClusters, settings, features, workspaces, provClusters} {
		w.until(r.String()+" is served", func() bool {
			_, err := w.objects.Resource(r).List(w.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

func (w *world) kind(kind string, r schema.GroupVersionResource, scope apiextensionsv1.ResourceScope) {
	w.Helper()
	keep := true
	_, err := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](w.hub.Admin).Create(w.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: r.Resource + "." + r.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: r.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: r.Resource, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: r.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	})
	w.must(err)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) until(what string, f func() bool) {
	w.Helper()
	for deadline := time.Now().Add(limit); !f(); time.Sleep(10 * time.Millisecond) { // how often it looks
		if time.Now().After(deadline) {
			w.Fatalf("not in time: %s", what)
		}
	}
}

// sees waits until look says want.
func (w *world) sees(what, want string, look func() string) {
	w.Helper()
	got := ""
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) { // how often it looks
		if got = look(); got == want {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s: got %q, want %q", what, got, want)
		}
	}
}

// put makes an object of Rancher's from JSON. The status comes along: it is no
// subresource there.
func (w *world) put(r schema.GroupVersionResource, namespace, name, text string) *unstructured.Unstructured {
	w.Helper()
	obj := &unstructured.Unstructured{}
	w.must(json.Unmarshal([]byte(text), &obj.Object))
	kinds := map[schema.GroupVersionResource]string{mgmtClusters: "Cluster", provClusters: "Cluster", settings: "Setting", features: "Feature", workspaces: "FleetWorkspace"}
	obj.SetAPIVersion(r.GroupVersion().String())
	obj.SetKind(kinds[r])
	obj.SetNamespace(namespace)
	obj.SetName(name)
	made, err := w.objects.Resource(r).Namespace(namespace).Create(w.Context(), obj, metav1.CreateOptions{})
	w.must(err)
	return made
}

// patch changes an object by a JSON merge patch.
func (w *world) patch(r schema.GroupVersionResource, namespace, name, text string) {
	w.Helper()
	_, err := w.objects.Resource(r).Namespace(namespace).Patch(w.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	w.must(err)
}

// get reads an object; nil if it is not there.
func (w *world) get(r schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	obj, err := w.objects.Resource(r).Namespace(namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return obj
}

// remove deletes an object.
func (w *world) remove(r schema.GroupVersionResource, namespace, name string) {
	w.Helper()
	w.must(w.objects.Resource(r).Namespace(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// cluster reads a Fleet Cluster; nil if it is not there.
func (w *world) cluster(namespace, name string) *fleet.Cluster {
	c, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil {
		return nil
	}
	return c
}

// namespace reads a Namespace; nil if it is not there.
func (w *world) namespace(name string) *corev1.Namespace {
	ns, err := kube.StoreOf[*corev1.Namespace](w.hub.Admin).Get(w.Context(), kube.Key{Name: name})
	if err != nil {
		return nil
	}
	return ns
}

// writes are the requests by which the house has changed something since a moment.
func (w *world) writes(since time.Time) []harness.Request {
	w.Helper()
	list, err := harness.ReadAudit("rancher", w.hub.Cluster.AuditLog(), since)
	w.must(err)
	var out []harness.Request
	for _, r := range list {
		if strings.HasPrefix(r.Agent, manager) && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" {
			out = append(out, r)
		}
	}
	return out
}

// turns waits until the house has done whatever there was to do: it answers a new
// cluster.
func (w *world) turns(n int) {
	w.Helper()
	name := fmt.Sprintf("turn%d", n)
	w.triple("fleet-default", name, fmt.Sprintf("c-m-turn%04d", n), "")
	w.until("the house answers", func() bool { return w.cluster("fleet-default", name) != nil })
}

// triple makes a provisioning and a management Cluster that are ready. more goes
// into the management Cluster's metadata.
func (w *world) triple(namespace, name, management, more string) {
	w.Helper()
	w.put(mgmtClusters, "", management, fmt.Sprintf(`{"metadata":{%s},"spec":{"displayName":%q,"fleetWorkspaceName":%q,"invented":{"a":[1]}},
		"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, more, name, namespace))
	w.put(provClusters, namespace, name, fmt.Sprintf(`{"spec":{"rkeConfig":{"invented":true}},"status":{"clusterName":%q,"clientSecretName":"%s-kubeconfig"}}`, management, name))
}

// watches waits until the house watches a kind.
func (w *world) watches(plural string) {
	w.Helper()
	w.until("the house watches "+plural, func() bool {
		list, err := harness.ReadAudit("rancher", w.hub.Cluster.AuditLog(), time.Time{})
		w.must(err)
		return slices.ContainsFunc(list, func(r harness.Request) bool {
			return strings.HasPrefix(r.Agent, manager) && r.Verb == "watch" && r.Resource == plural
		})
	})
}

// lives lets Rancher hold its lease, freshly renewed.
func (w *world) lives() {
	w.Helper()
	holder, now, seconds := "rancher-0", metav1.NowMicro(), int32(45)
	_, err := kube.StoreOf[*coordinationv1.Lease](w.hub.Admin).Create(w.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cattle-controllers"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &seconds},
	})
	w.must(err)
}
