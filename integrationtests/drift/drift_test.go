// Package drift tests what changes by others on a cluster lead to: what counts
// as drift and what does not, which field manager is named, how the agent
// corrects it, and what watching costs. The agents and the controllers of
// Kubernetes are real; the tests play the manager and all other clients.
package drift

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

//go:embed testdata
var testdata embed.FS

// intruder is who drifts.
const intruder = "intruder"

// world is one agent, and what plays against it.
type world struct {
	*harness.Site
	objects dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	mark    string // instead of "corpus" in the names of what is not in a namespace
}

// newWorld is a site and what plays against it.
func newWorld(site *harness.Site, mark string) *world {
	config := site.Hub.Cluster.REST()
	config.UserAgent = harness.TestAgent
	return &world{
		Site: site, objects: dynamic.NewForConfigOrDie(config), mark: mark,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(site.Hub.Client.Discovery())),
	}
}

// named is a text about the corpus with this world's names.
func (w *world) named(text string) string { return strings.ReplaceAll(text, "corpus", w.mark) }

// TestDrift runs all tests on the shared API server, each with an agent of its own.
func TestDrift(t *testing.T) {
	hub := harness.SharedHub(t)
	for name, test := range map[string]func(*world){
		"corpus": corpus, "hot": hot, "writes": writes, "fight": fight, "correction": correction, "takenover": takenOver,
		"failing": failing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(harness.NewSite(t, hub, hub, name), "corpus")
			w.Config.Version = "v0-" + name // to know its requests by
			w.Start()
			test(w)
		})
	}
}

// file is a file of testdata.
func (w *world) file(name string) string {
	w.Helper()
	data, err := testdata.ReadFile("testdata/" + name)
	w.Must(err)
	return w.named(string(data))
}

// object names one live object.
type object struct {
	kind            string // "<group>/<version>, Kind=<kind>" without the blanks: apps/v1/Deployment
	namespace, name string
}

// of is the way to an object.
func (w *world) of(o object) dynamic.ResourceInterface {
	w.Helper()
	o.kind = w.named(o.kind)
	at := strings.LastIndex(o.kind, "/")
	gv, err := schema.ParseGroupVersion(o.kind[:at])
	w.Must(err)
	var mapping *meta.RESTMapping
	w.Until(o.kind+" is served", func() bool { // a kind exists before discovery lists it
		mapping, err = w.mapper.RESTMapping(gv.WithKind(o.kind[at+1:]).GroupKind(), gv.Version)
		if meta.IsNoMatchError(err) {
			w.mapper.Reset()
			return false
		}
		w.Must(err)
		return true
	})
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return w.objects.Resource(mapping.Resource)
	}
	return w.objects.Resource(mapping.Resource).Namespace(o.namespace)
}

// get reads an object; nil if it is not there.
func (w *world) get(o object) *unstructured.Unstructured {
	w.Helper()
	live, err := w.of(o).Get(w.Context(), w.named(o.name), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return live
}

// patch changes an object as field manager who, with a JSON merge patch.
func (w *world) patch(o object, who, patch string, subresources ...string) *unstructured.Unstructured {
	w.Helper()
	live, err := w.of(o).Patch(w.Context(), w.named(o.name), types.MergePatchType, []byte(w.named(patch)), metav1.PatchOptions{FieldManager: who}, subresources...)
	if err != nil {
		w.Fatalf("%s changes %s: %v", who, o.name, err)
	}
	return live
}

// value is a field of an object as JSON, by its fields' names.
func (w *world) value(o object, fields ...string) string {
	w.Helper()
	live := w.get(o)
	if live == nil {
		return "missing"
	}
	v, found, err := unstructured.NestedFieldNoCopy(live.Object, fields...)
	w.Must(err)
	if !found {
		return ""
	}
	data, err := json.Marshal(v)
	w.Must(err)
	return string(data)
}

// requests lists the requests of this world's agent to the API server since a
// moment that keep accepts.
func (w *world) requests(since time.Time, keep func(harness.Request) bool) []harness.Request {
	w.Helper()
	list, err := w.Down.Requests(since)
	w.Must(err)
	var out []harness.Request
	for _, r := range list {
		if strings.HasPrefix(r.Agent, "fleet-agent/"+w.Config.Version+" ") && keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// statuses are the writes of a deployment's status since a moment.
func (w *world) statuses(name string, since time.Time) []harness.Request {
	w.Helper()
	return w.requests(since, func(r harness.Request) bool {
		return r.Writes() && r.What() == "bundledeployments/status" && r.Namespace == w.Deployments && r.Name == name
	})
}

// soak reports whether tests may take minutes.
func soak() bool { return os.Getenv("FLEET_TEST_SOAK") != "" }

// changes returns the entries of a status about objects that differ, by kind and
// name.
func changes(bd *fleet.BundleDeployment) map[string]fleet.ModifiedStatus {
	out := map[string]fleet.ModifiedStatus{}
	for _, m := range bd.Status.ModifiedStatus {
		out[m.Kind+" "+m.Name] = m
	}
	return out
}

// text is a status for people.
func text(bd *fleet.BundleDeployment) string {
	data, err := yaml.Marshal(bd.Status)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(data))
}

// cm is the manifest of a ConfigMap with one value.
func cm(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {k: %q}\n", name, value)
}

// on is a deployment that is corrected.
func on(how fleet.CorrectDrift) fleet.BundleDeploymentOptions {
	how.Enabled = true
	return fleet.BundleDeploymentOptions{CorrectDrift: &how}
}
