// Package helm4_test takes over releases that Helm 4 wrote, as the reference's
// agents do, on a real API server, and gives them back.
package helm4_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// world is one agent, and the reference's beside it: Helm 4 with its name.
type world struct {
	*harness.Site
	helm helm4
	any  dynamic.Interface
}

// A version of the chart: what its objects say.
type content struct {
	text     string
	more     bool // a second key in the ConfigMap
	replicas int
}

// objects are the templates of a chart. marks are put on each object, as the
// reference's post-renderer does; our agent's does it by itself.
func objects(c content, marks string) []string {
	more := ""
	if c.more {
		more = "\n  more: x"
	}
	return []string{
		"templates/config.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n%sdata:\n  k: %s%s\n", marks, c.text, more),
		"templates/deployment.yaml", fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
%sspec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "none.invalid/web:%s"}]}
`, marks, c.replicas, c.text),
		"templates/service.yaml", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata:
  name: web
%sspec:
  selector: {app: web}
  ports: [{name: http, port: 80}]
`, marks),
	}
}

// byFleet are the files of a bundle with the chart.
func byFleet(c content) []string {
	return append([]string{"Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"}, objects(c, "")...)
}

// byReference are the files of the chart as the reference's agent gives them to
// Helm.
func (w world) byReference(bundle string, c content) []string {
	id := naming.ObjectSetID(bundle, w.Config.Scope)
	marks := fmt.Sprintf("  labels: {%s: %s}\n  annotations: {%s: %q}\n",
		fleet.LabelObjectSetHash, naming.ObjectSetHash(id), fleet.AnnotationObjectSetID, id)
	remembers := map[string]string{
		fleet.ReleaseBundleID: bundle, fleet.ReleaseCommit: "0123456789abcdef", fleet.ReleaseAgentNamespace: w.Namespace,
		fleet.ReleaseServiceAccount: "", fleet.ReleaseKeepResources: "false",
	}
	chart := "apiVersion: v2\nname: web\nversion: 1.0.0\nannotations:\n"
	for _, key := range []string{
		fleet.ReleaseBundleID, fleet.ReleaseCommit, fleet.ReleaseAgentNamespace, fleet.ReleaseServiceAccount, fleet.ReleaseKeepResources,
	} {
		chart += fmt.Sprintf("  %s: %q\n", key, remembers[key])
	}
	return append([]string{"Chart.yaml", chart}, objects(c, marks)...)
}

// reference lets Helm 4 run an action on a bundle's release, and reports what the
// reference would.
func (w world) reference(bundle string, revision int, c content, action ...string) {
	w.Helper()
	args := append(action, bundle)
	if action[0] != "rollback" {
		args = append(args, w.helm.folder(w.byReference(bundle, c)))
	}
	w.helm.run(append(args, "--namespace", w.Home(bundle))...)
	bd := w.Order(bundle, harness.Order{Files: byFleet(c), Options: options})
	changed := bd.DeepCopy()
	changed.Status.AppliedDeploymentID = bd.Spec.DeploymentID
	changed.Status.Release = fmt.Sprintf("%s/%s:%d", w.Home(bundle), bundle, revision)
	_, err := kube.StoreOf[*fleet.BundleDeployment](w.Hub.Admin).PatchStatus(w.Context(), bd, changed)
	w.Must(err)
}

// options are those of every order.
var options = fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}

// kinds are those of the chart's objects.
var kinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Group: "apps", Version: "v1", Resource: "deployments"}, {Version: "v1", Resource: "services"},
}

// live are the objects of a release.
func (w world) live(bundle string) []*unstructured.Unstructured {
	w.Helper()
	var out []*unstructured.Unstructured
	for _, kind := range kinds {
		o, err := w.any.Resource(kind).Namespace(w.Home(bundle)).Get(w.Context(), "web", metav1.GetOptions{})
		w.Must(err)
		out = append(out, o)
	}
	return out
}

// owners are the owners of all fields of a release's objects.
func (w world) owners(bundle string) []owned {
	w.Helper()
	var out []owned
	for _, o := range w.live(bundle) {
		out = append(out, owners(o)...)
	}
	return out
}

// records are the versions of Helm's records of a release.
func (w world) records(bundle string) map[string]string {
	w.Helper()
	list, err := w.Down.Client.CoreV1().Secrets(w.Home(bundle)).List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	w.Must(err)
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return out
}

// untouched starts the agent, waits until it has looked at the objects and says
// that the bundle is Ready, and stops it again: nothing was written in the
// release's namespace.
func (w world) untouched(bundle string) {
	w.Helper()
	before, begun := w.records(bundle), time.Now()
	w.Start()
	w.Until("the agent has looked at the Service", func() bool { // the release's records come before that
		return slices.ContainsFunc(w.requests(bundle, begun), func(r harness.Request) bool { return r.Resource == "services" && r.Verb == "get" })
	})
	w.State(bundle, fleet.Ready)
	w.Stop()
	for _, r := range w.requests(bundle, begun) {
		if r.Writes() {
			w.Errorf("taken over, and written: %s", r)
		}
	}
	if after := w.records(bundle); fmt.Sprint(after) != fmt.Sprint(before) {
		w.Errorf("Helm's records were %v and are %v", before, after)
	}
}

// requests are those that the agent made in the namespace of a release since a
// moment.
func (w world) requests(bundle string, since time.Time) []harness.Request {
	w.Helper()
	list, err := w.Down.Requests(since)
	w.Must(err)
	return slices.DeleteFunc(list, func(r harness.Request) bool {
		return r.Namespace != w.Home(bundle) || !strings.HasPrefix(r.Agent, "fleet-agent/")
	})
}

// deploy lets our agent bring a version about.
func (w world) deploy(bundle string, c content) {
	w.Helper()
	w.Start()
	defer w.Stop()
	w.Order(bundle, harness.Order{Files: byFleet(c), Options: options})
	w.State(bundle, fleet.Ready)
	w.shows(bundle, c)
}

// shows fails the test if the live objects are not those of a version.
func (w world) shows(bundle string, c content) {
	w.Helper()
	list := w.live(bundle)
	data, _, _ := unstructured.NestedStringMap(list[0].Object, "data")
	replicas, _, _ := unstructured.NestedInt64(list[1].Object, "spec", "replicas")
	if data["k"] != c.text || (data["more"] != "") != c.more || replicas != int64(c.replicas) {
		w.Errorf("want %+v, got %v and %d replicas", c, data, replicas)
	}
}

// A release goes from Helm 4 to Fleet and back, and no object of it is created
// again: the table of testdata says who owns which field after each step.
func TestHelm4(t *testing.T) {
	hub := harness.NewHub(t, harness.Cluster(t, "helm4"))
	helm := program(t, hub.Cluster.Kubeconfig())
	cases := map[string]struct {
		back []string // how Helm 4 goes on after us
	}{
		"Auto":       {back: []string{"upgrade"}},
		"ServerSide": {back: []string{"upgrade", "--server-side=true"}},
		"Rollback":   {back: []string{"rollback"}},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := strings.ToLower(name)
			site := harness.NewSite(t, hub, hub, id)
			w := world{Site: site, helm: helm, any: dynamic.NewForConfigOrDie(hub.Cluster.REST())}
			w.helm.TB = t
			w.lifecycle("web-"+id, s.back).check(t)
		})
	}
}

func (w world) lifecycle(bundle string, back []string) *table {
	w.Helper()
	out := &table{}
	one, two, three := content{"one", true, 1}, content{"two", false, 2}, content{"three", true, 2}
	step := func(name string) { w.Helper(); out.step(name, w.owners(bundle)) }

	w.reference(bundle, 1, one, "install", "--create-namespace")
	step("Helm 4 installs")
	first := w.live(bundle)
	w.untouched(bundle)
	step("Fleet takes over")

	w.deploy(bundle, two)
	step("Fleet upgrades")

	w.Start()
	w.SetData(w.Home(bundle), "web", "by hand")
	w.Until("corrected", func() bool { return w.Data(w.Home(bundle), "web") == "two" })
	w.Until("the correction is recorded", func() bool { // else it is stopped in the middle of it
		list, err := w.Down.Client.CoreV1().Secrets(w.Home(bundle)).List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=deployed,version=3"})
		return err == nil && len(list.Items) == 1
	})
	w.State(bundle, fleet.Ready)
	w.Stop()
	w.shows(bundle, two)
	step("somebody changes data.k, and Fleet corrects it")

	if back[0] == "rollback" {
		three = two // to the revision before
	}
	w.reference(bundle, 4, three, back...)
	w.shows(bundle, three)
	step("helm " + strings.Join(back, " ") + " by Helm 4")

	w.untouched(bundle)
	step("Fleet takes over again")
	w.deploy(bundle, content{"four", false, 1})
	step("Fleet upgrades again")
	for i, o := range w.live(bundle) {
		if o.GetUID() != first[i].GetUID() {
			w.Errorf("%s was created again", o.GetKind())
		}
	}
	return out
}
