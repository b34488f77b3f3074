package integrationtests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// helmWorld is a cluster, and Helm on it as the agent in namespace "fleet"
// uses it.
type helmWorld struct {
	*helm.Client
	rest  *rest.Config
	kube  kubernetes.Interface
	anyOf dynamic.Interface
}

func helmOn(t *testing.T, server *cluster.Cluster) helmWorld {
	t.Helper()
	cfg := server.REST()
	c, err := helm.Connect(helm.Config{REST: cfg, AgentNamespace: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	w := helmWorld{Client: c, rest: cfg, kube: kubernetes.NewForConfigOrDie(cfg), anyOf: dynamic.NewForConfigOrDie(cfg)}
	w.namespace(t, "fleet")
	return w
}

func (w helmWorld) namespace(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bundle is a deployment of files, by name and text in turns, into a namespace
// of the bundle's name.
func bundle(name, id string, files ...string) helm.Deployment {
	m := content.Manifest{}
	for i := 0; i < len(files); i += 2 {
		m.Resources = append(m.Resources, fleet.BundleResource{Name: files[i], Content: files[i+1]})
	}
	o := fleet.BundleDeploymentOptions{DefaultNamespace: name}
	return helm.Deployment{
		ID: helm.IDOf(name, o), Content: m, Options: o,
		Memory: release.Record{Owner: release.Owner{BundleID: name}, DeploymentID: id, Manager: "m1/1", BundleUID: "u1", Commit: "0123456789abcdef"},
	}
}

func cm(name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  k: %s\n", name, data)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantReason checks the kind of an error and that its text says enough.
func wantReason(t *testing.T, err error, reason string, pieces ...string) {
	t.Helper()
	if err == nil || reconcile.ReasonOf(err) != reason {
		t.Fatalf("want %s, got %s: %v", reason, reconcile.ReasonOf(err), err)
	}
	for _, p := range pieces {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("want %q in %q", p, err)
		}
	}
}

func (w helmWorld) observe(t *testing.T, id release.ID) release.Observed {
	t.Helper()
	o, err := w.Observe(t.Context(), id)
	must(t, err)
	return o
}

// data is key k of a ConfigMap, "" if there is none.
func (w helmWorld) data(t *testing.T, namespace, name string) string {
	t.Helper()
	c, err := w.kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	must(t, err)
	return c.Data["k"]
}

// What package helm promises, on a real API server.
func helmPort(t *testing.T, server *cluster.Cluster) {
	w := helmOn(t, server)
	tests := map[string]func(*testing.T, helmWorld){
		"Install": helmInstall, "Upgrade": helmUpgrade, "Broken": helmBroken, "Ownership": helmOwnership,
		"Interrupted": helmInterrupted, "Limited": helmLimited, "Correct": helmCorrect, "Chart": helmChart,
		"CRDs": helmCRDs, "Kustomize": helmKustomize, "Account": helmAccount, "Remove": helmRemove,
		"OwnNamespace": helmOwnNamespace, "Values": helmValues, "LostRemoval": helmLostRemoval,
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range tests {
			if !yield(n) {
				return
			}
		}
	}) {
		t.Run(name, func(t *testing.T) { tests[name](t, w) })
	}
}

func helmInstall(t *testing.T, w helmWorld) {
	d := bundle("first", "id1", "a.yaml", cm("a", "one"), "fleet.yaml", "x: y", "nested/fleet.yaml", "", "nested/no.yaml", cm("no", "no"))
	if o := w.observe(t, d.ID); o.State != release.Absent {
		t.Fatalf("want absent, got %+v", o)
	}
	must(t, w.Install(t.Context(), d))
	o := w.observe(t, d.ID)
	want := release.Record{
		Owner: release.Owner{AgentNamespace: "fleet", BundleID: "first"}, Manager: "m1/1",
		BundleUID: "u1", DeploymentID: "id1", Commit: "0123456789abcdef",
	}
	if o.State != release.Deployed || o.Good != 1 || o.GoodID != "id1" {
		t.Errorf("want revision 1 deployed, got %+v", o)
	}
	if diff := cmp.Diff(want, o.Memory); diff != "" {
		t.Errorf("what the release remembers: -want +got\n%s", diff)
	}
	obj, err := w.kube.CoreV1().ConfigMaps("first").Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	if obj.Labels[fleet.LabelObjectSetHash] == "" || obj.Annotations[fleet.AnnotationObjectSetID] != "default-first" {
		t.Errorf("labels %v, annotations %v", obj.Labels, obj.Annotations)
	}
	if m := obj.ManagedFields[0].Manager; m != fleet.FieldManagerRelease {
		t.Errorf("written by field manager %q", m)
	}
	if w.data(t, "first", "no") != "" {
		t.Error("a nested bundle was deployed with its parent")
	}
}

func helmUpgrade(t *testing.T, w helmWorld) {
	ctx := t.Context()
	must(t, w.Install(ctx, bundle("up", "id1", "a.yaml", cm("a", "one"), "b.yaml", cm("b", "one"), "c.yaml", cm("c", "one"))))
	// c is taken over by another release, so it is not ours to remove.
	patch := `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other","meta.helm.sh/release-namespace":"up"}}}`
	_, err := w.kube.CoreV1().ConfigMaps("up").Patch(ctx, "c", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
	for i := 2; i < 6; i++ {
		must(t, w.Upgrade(ctx, bundle("up", fmt.Sprint("id", i), "a.yaml", cm("a", fmt.Sprint("v", i)))))
	}
	got := []string{w.data(t, "up", "a"), w.data(t, "up", "b"), w.data(t, "up", "c")}
	if diff := cmp.Diff([]string{"v5", "", "one"}, got); diff != "" {
		t.Errorf("a changed, b removed, c spared: -want +got\n%s", diff)
	}
	o := w.observe(t, release.ID{Namespace: "up", Name: "up"})
	if o.Good != 5 || o.GoodID != "id5" {
		t.Errorf("got %+v", o)
	}
	if n := w.records(t, "up"); n != 2 {
		t.Errorf("want 2 revisions kept, got %d", n)
	}
	nothing := bundle("up", "id6", "README.md", "nothing")
	wantReason(t, w.Upgrade(ctx, nothing), release.ReasonEmptyResult)
	nothing.Options.AllowEmpty = true
	must(t, w.Upgrade(ctx, nothing))
	wantReason(t, w.Upgrade(ctx, bundle("first", "id2", "a.yaml", "# all commented out")), release.ReasonEmptyResult)
}

// records is how many revisions of the release of a namespace's name there are.
func (w helmWorld) records(t *testing.T, name string) int {
	t.Helper()
	list, err := w.kube.CoreV1().Secrets(name).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
	must(t, err)
	return len(list.Items)
}

func helmBroken(t *testing.T, w helmWorld) {
	ctx := t.Context()
	w.namespace(t, "broken")
	deployment := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  %s
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: x}]}}
`
	cases := map[string]struct {
		files  []string
		reason string
		says   []string
	}{
		"UnknownField": {
			[]string{"dir/web.yaml", fmt.Sprintf(deployment, "replcas: 2")}, release.ReasonInvalidObject,
			[]string{"dir/web.yaml", "Deployment broken/web", `unknown field "spec.replcas"`},
		},
		"WrongType": {
			[]string{"web.yaml", fmt.Sprintf(deployment, "replicas: many")}, release.ReasonInvalidObject,
			[]string{"web.yaml", "Deployment broken/web"},
		},
		"Invalid": {
			[]string{"web.yaml", fmt.Sprintf(deployment, "replicas: -1")}, release.ReasonInvalidObject,
			[]string{"web.yaml", "spec.replicas", "must be greater than or equal to 0"},
		},
		"YAML": {
			[]string{"ok.yaml", cm("a", "b"), "bad.yaml", "a: b\n---\nkind: ConfigMap\n  x: [\n"}, release.ReasonBadYAML,
			[]string{"bad.yaml:4:"},
		},
		"Template": {
			[]string{"templates/t.yaml", "a: {{ .Values.x.y.z }}"}, release.ReasonBadTemplate,
			[]string{"templates/t.yaml:1:", ".Values.x.y.z: there is no value x"},
		},
		"TemplateOutput": {
			[]string{"templates/t.yaml", "kind: ConfigMap\n{{ \"  x: [\" }}"}, release.ReasonBadYAML,
			[]string{"templates/t.yaml"},
		},
		"UnknownKind": {
			[]string{"x.yaml", "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}"}, release.ReasonUnknownKind,
			[]string{"Nothing", "example.com/v1"},
		},
		"Labels": {
			[]string{"x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {version: 1}}"}, release.ReasonBadYAML,
			[]string{"x.yaml", "labels", "version"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := bundle("broken", "id", append([]string{"first.yaml", cm("first", "x")}, c.files...)...)
			wantReason(t, w.Install(ctx, d), c.reason, c.says...)
			if o := w.observe(t, d.ID); o.State != release.Absent || w.data(t, "broken", "first") != "" {
				t.Errorf("something was written: %+v", o)
			}
		})
	}
}

func helmOwnership(t *testing.T, w helmWorld) {
	ctx := t.Context()
	w.namespace(t, "owned")
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "theirs"}}
	_, err := w.kube.CoreV1().ConfigMaps("owned").Create(ctx, foreign, metav1.CreateOptions{})
	must(t, err)
	d := bundle("owned", "id1", "a.yaml", cm("a", "ours"))
	wantReason(t, w.Install(ctx, d), release.ReasonNotOwned, "ConfigMap owned/a exists and does not belong to this release")
	if got := w.data(t, "owned", "a"); got != "theirs" {
		t.Errorf("a foreign object was changed: %q", got)
	}
	d.Options.Helm = &fleet.HelmOptions{TakeOwnership: true}
	must(t, w.Install(ctx, d))
	if got := w.data(t, "owned", "a"); got != "ours" {
		t.Errorf("want it taken over, got %q", got)
	}

	// A renamed bundle of the same repository takes over without being asked.
	renamed := bundle("renamed", "id2", "a.yaml", cm("a", "renamed"))
	renamed.ID.Namespace, renamed.Options.DefaultNamespace = "owned", "owned"
	wantReason(t, w.Install(ctx, renamed), release.ReasonNotOwned, "it belongs to release owned/owned")
	renamed.Claim = func(id release.ID) (release.Claim, string) {
		if id != d.ID {
			return release.Unrelated, ""
		}
		return release.Ceded, ""
	}
	must(t, w.Install(ctx, renamed))
	must(t, w.Uninstall(ctx, d.ID, helm.Rights{}))
	if got := w.data(t, "owned", "a"); got != "renamed" {
		t.Errorf("the old release took the object with it: %q", got)
	}
}

// A process may be killed anywhere: what it leaves in Helm's storage is planted
// here, and the next one has to go on from it.
func helmInterrupted(t *testing.T, w helmWorld) {
	ctx := t.Context()
	cases := map[string]struct {
		status   string
		revision int // that was interrupted
	}{
		"PendingInstall":  {"pending-install", 1},
		"PendingUpgrade":  {"pending-upgrade", 2},
		"PendingRollback": {"pending-rollback", 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := strings.ToLower(name)
			must(t, w.Install(ctx, bundle(ns, "id1", "a.yaml", cm("a", "one"), "left.yaml", cm("left", "one"))))
			if c.revision == 2 {
				// Revision 2 had begun: it brought "left" and "extra".
				must(t, w.Upgrade(ctx, bundle(ns, "id2", "a.yaml", cm("a", "two"), "extra.yaml", cm("extra", "two"))))
				w.setStatus(t, ns, 1, "deployed")
			}
			w.setStatus(t, ns, c.revision, c.status)
			id := release.ID{Namespace: ns, Name: ns}
			if o := w.observe(t, id); string(o.State) != c.status {
				t.Fatalf("planted %s, observed %+v", c.status, o)
			}
			must(t, w.Fail(ctx, id))
			if o := w.observe(t, id); o.State != release.Failed {
				t.Fatalf("want failed, got %+v", o)
			}
			must(t, w.Upgrade(ctx, bundle(ns, "id3", "a.yaml", cm("a", "three"))))
			o := w.observe(t, id)
			if o.State != release.Deployed || o.GoodID != "id3" || w.data(t, ns, "a") != "three" {
				t.Errorf("got %+v", o)
			}
			if w.data(t, ns, "extra") != "" || w.data(t, ns, "left") != "" {
				t.Error("objects of the interrupted revision are left behind")
			}
		})
	}
	t.Run("Unreadable", func(t *testing.T) {
		must(t, w.Install(ctx, bundle("unreadable", "id1", "a.yaml", cm("a", "one"))))
		_, err := w.kube.CoreV1().Secrets("unreadable").Patch(ctx, "sh.helm.release.v1.unreadable.v1", types.MergePatchType,
			[]byte(`{"data":{"release":"aGFsZg=="}}`), metav1.PatchOptions{})
		must(t, err)
		id := release.ID{Namespace: "unreadable", Name: "unreadable"}
		if o := w.observe(t, id); o.State != release.Unreadable {
			t.Fatalf("got %+v", o)
		}
		must(t, w.Purge(ctx, id))
		d := bundle("unreadable", "id1", "a.yaml", cm("a", "two"))
		must(t, w.Install(ctx, d)) // the objects bear the release's marks
		if w.data(t, "unreadable", "a") != "two" {
			t.Error("not deployed")
		}
	})
}

// setStatus rewrites the status of a stored revision, as Helm keeps it.
func (w helmWorld) setStatus(t *testing.T, name string, revision int, status string) {
	t.Helper()
	must(t, harness.RewriteRelease(t.Context(), w.kube, release.ID{Namespace: name, Name: name}, revision, status))
}

func helmLimited(t *testing.T, w helmWorld) {
	ctx := t.Context()
	w.namespace(t, "elsewhere")
	limited := func(files ...string) helm.Deployment {
		d := bundle("limited", "id", files...)
		d.Options.TargetNamespace = "limited"
		return d
	}
	elsewhere := strings.Replace(cm("a", "x"), "name: a", "name: a\n  namespace: elsewhere", 1)
	must(t, w.Install(ctx, limited("a.yaml", elsewhere)))
	if w.data(t, "limited", "a") != "x" || w.data(t, "elsewhere", "a") != "" {
		t.Error("the namespace was not forced")
	}
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: sneaky}\n"
	wantReason(t, w.Upgrade(ctx, limited("a.yaml", role)), release.ReasonClusterScoped, "a.yaml: ClusterRole sneaky")
	hook := strings.Replace(elsewhere, "name: a", "name: hooked\n  annotations: {helm.sh/hook: pre-upgrade}", 1)
	_, err := w.kube.CoreV1().ConfigMaps("elsewhere").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hooked"}, Data: map[string]string{"k": "theirs"}}, metav1.CreateOptions{})
	must(t, err)
	wantReason(t, w.Upgrade(ctx, limited("a.yaml", elsewhere, "templates/h.yaml", hook)), release.ReasonClusterScoped, "hook ConfigMap elsewhere/hooked")
	if w.data(t, "elsewhere", "hooked") != "theirs" {
		t.Error("a hook reached another namespace")
	}
}

func helmCorrect(t *testing.T, w helmWorld) {
	ctx := t.Context()
	crd := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	must(t, w.Install(ctx, bundle("crd", "id1", "crd.yaml", crd)))
	things := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}
	until(t, "kind Thing is served, and known to be", func() bool {
		if _, err := w.anyOf.Resource(things).List(ctx, metav1.ListOptions{}); err != nil {
			return false
		}
		_, known, err := w.kube.Discovery().ServerGroupsAndResources()
		return err == nil && slices.ContainsFunc(known, func(l *metav1.APIResourceList) bool { return l.GroupVersion == things.GroupVersion().String() })
	})
	thing := "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\nspec: {size: 1}\n"
	must(t, w.Install(ctx, bundle("correct", "id1", "a.yaml", cm("a", "one"), "b.yaml", cm("b", "one"), "t.yaml", thing)))
	id := release.ID{Namespace: "correct", Name: "correct"}

	_, err := w.kube.CoreV1().ConfigMaps("correct").Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"k":"edited","more":"x"}}`), metav1.PatchOptions{})
	must(t, err)
	must(t, w.kube.CoreV1().ConfigMaps("correct").Delete(ctx, "b", metav1.DeleteOptions{}))
	_, err = w.anyOf.Resource(things).Namespace("correct").Patch(ctx, "t", types.MergePatchType, []byte(`{"spec":{"size":9}}`), metav1.PatchOptions{})
	must(t, err)

	must(t, w.Correct(ctx, id, helm.Rights{}, helm.Correction{CorrectDrift: fleet.CorrectDrift{Enabled: true}}))
	live, err := w.anyOf.Resource(things).Namespace("correct").Get(ctx, "t", metav1.GetOptions{})
	must(t, err)
	size, _, _ := unstructured.NestedInt64(live.Object, "spec", "size")
	a, err := w.kube.CoreV1().ConfigMaps("correct").Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	if size != 1 || w.data(t, "correct", "b") != "one" || a.Data["k"] != "one" || a.Data["more"] != "x" {
		t.Errorf("want what was set put back and nothing else: size %d, b %q, a %v", size, w.data(t, "correct", "b"), a.Data)
	}
	if o := w.observe(t, id); o.State != release.Deployed || o.GoodID != "id1" || o.Good != 2 {
		t.Errorf("got %+v", o)
	}

	// A correction that cannot succeed leaves the release as it was.
	must(t, w.kube.CoreV1().ConfigMaps("correct").Delete(ctx, "a", metav1.DeleteOptions{}))
	yes := true
	_, err = w.kube.CoreV1().ConfigMaps("correct").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Immutable: &yes, Data: map[string]string{"k": "x"},
	}, metav1.CreateOptions{})
	must(t, err)
	wantReason(t, w.Correct(ctx, id, helm.Rights{}, helm.Correction{CorrectDrift: fleet.CorrectDrift{Enabled: true}}), release.ReasonImmutable)
	if o := w.observe(t, id); o.State != release.Deployed || o.Good != 2 {
		t.Errorf("after a failed correction: %+v", o)
	}
	if err := w.Correct(ctx, id, helm.Rights{}, helm.Correction{CorrectDrift: fleet.CorrectDrift{Enabled: true, KeepFailHistory: true}}); err == nil {
		t.Error("want it to fail again")
	}
	if o := w.observe(t, id); o.State != release.Failed || o.Good != 2 || o.GoodID != "id1" {
		t.Errorf("with the failure kept: %+v", o)
	}
}

func helmChart(t *testing.T, w helmWorld) {
	ctx := t.Context()
	files := []string{
		"chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"chart/values.yaml", "text: default\n",
		"chart/templates/cm.yaml", cm("c", "{{ .Values.text }}-{{ .Release.Revision }}-{{ .Release.IsUpgrade }}"),
		"chart/templates/NOTES.txt", "notes",
		"other.yaml", cm("other", "x"),
	}
	d := bundle("chart", "id1", files...)
	d.Options.Helm = &fleet.HelmOptions{Chart: "chart", ReleaseName: "named", Values: &fleet.GenericMap{Data: map[string]any{"text": "given"}}}
	d.ID = helm.IDOf("chart", d.Options)
	must(t, w.Install(ctx, d))
	if got := w.data(t, "chart", "c"); got != "given-1-false" {
		t.Errorf("got %q", got)
	}
	if w.data(t, "chart", "other") != "" {
		t.Error("a file beside the chart was deployed")
	}
	d.Options.Helm.Values = nil
	must(t, w.Upgrade(ctx, d))
	if got := w.data(t, "chart", "c"); got != "default-2-true" {
		t.Errorf("values that are not given any more stayed: %q", got)
	}
}

func helmCRDs(t *testing.T, w helmWorld) {
	ctx := t.Context()
	crd := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.net}
spec:
  group: example.net
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	gadget := "{{ if not (.Capabilities.APIVersions.Has \"example.net/v1/Gadget\") }}{{ fail \"no CRD\" }}{{ end }}\n" +
		"apiVersion: example.net/v1\nkind: Gadget\nmetadata: {name: g}\n"
	chart := []string{"Chart.yaml", "apiVersion: v2\nname: gadgets\nversion: 1.0.0\n", "crds/crd.yaml", crd}
	bad := bundle("gadgets", "id1", append(chart, "templates/g.yaml", gadget, "templates/bad.yaml", "{{ .Values.x.y }}")...)
	wantReason(t, w.Install(ctx, bad), release.ReasonBadTemplate)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := w.anyOf.Resource(crds).Get(ctx, "gadgets.example.net", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a CRD was installed before a template failed: %v", err)
	}
	good := bundle("gadgets", "id2", append(chart, "templates/g.yaml", gadget)...)
	good.Options.TargetNamespace = "gadgets"
	must(t, w.Install(ctx, good))
	gadgets := schema.GroupVersionResource{Group: "example.net", Version: "v1", Resource: "gadgets"}
	if _, err := w.anyOf.Resource(gadgets).Namespace("gadgets").Get(ctx, "g", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	// A CRD that is gone takes its objects with it, and holds up no removal.
	must(t, w.anyOf.Resource(crds).Delete(ctx, "gadgets.example.net", metav1.DeleteOptions{}))
	until(t, "the CRD is gone", func() bool {
		_, err := w.anyOf.Resource(gadgets).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
	w.Refresh()
	must(t, w.Uninstall(ctx, good.ID, helm.Rights{}))
	if o := w.observe(t, good.ID); o.State != release.Absent {
		t.Errorf("got %+v", o)
	}
}

func helmKustomize(t *testing.T, w helmWorld) {
	ctx := t.Context()
	d := bundle("kust", "id1",
		"base/kustomization.yaml", "resources: [a.yaml]\n", "base/a.yaml", cm("a", "base"),
		"overlay/kustomization.yaml", "resources: [../base]\nnamePrefix: over-\n",
		"Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/c.yaml", cm("c", "chart"))
	d.Options.Kustomize = &fleet.KustomizeOptions{Dir: "overlay"}
	must(t, w.Install(ctx, d))
	if w.data(t, "kust", "over-a") != "base" || w.data(t, "kust", "over-c") != "chart" {
		t.Errorf("want chart and base with a prefix")
	}
	bad := bundle("kust", "id2", "kustomization.yaml", "resources: [/etc/passwd]\n")
	wantReason(t, w.Upgrade(ctx, bad), release.ReasonBadKustomization)
}

func helmAccount(t *testing.T, w helmWorld) {
	ctx := t.Context()
	d := bundle("tenant", "id1", "a.yaml", cm("a", "one"))
	d.Options.ServiceAccount = "tenant"
	wantReason(t, w.Install(ctx, d), release.ReasonNoAccount, `"tenant"`)
	w.namespace(t, "tenant")
	_, err := w.kube.CoreV1().ServiceAccounts("fleet").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
	must(t, err)
	wantReason(t, w.Install(ctx, d), release.ReasonForbidden, `service account "tenant" of namespace "fleet" may not create configmaps`)
	_, err = w.kube.RbacV1().RoleBindings("tenant").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin", APIGroup: rbacv1.GroupName},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "tenant", Namespace: "fleet"}},
	}, metav1.CreateOptions{})
	must(t, err)
	until(t, "the account may install", func() bool { return w.Install(ctx, d) == nil })
	outside := bundle("tenant", "id2", "a.yaml", strings.Replace(cm("x", "y"), "name: x", "name: x\n  namespace: fleet", 1))
	outside.Options.ServiceAccount = "tenant"
	if err := w.Upgrade(ctx, outside); err == nil || w.data(t, "fleet", "x") != "" {
		t.Errorf("the account reached another namespace: %v", err)
	}
}

func helmValues(t *testing.T, w helmWorld) {
	ctx := t.Context()
	w.namespace(t, "vals")
	d := bundle("vals", "id1", "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/c.yaml", cm("c", "{{ .Values.a }}{{ .Values.b.c }}{{ .Values.b.d }}"))
	d.Options.Helm = &fleet.HelmOptions{
		Values: &fleet.GenericMap{Data: map[string]any{"a": "1", "b": map[string]any{"c": "2", "d": "3"}}},
		ValuesFrom: []fleet.ValuesFrom{{SecretKeyRef: &fleet.SecretKeySelector{
			LocalObjectReference: fleet.LocalObjectReference{Name: "extra"}, Key: "v",
		}}},
	}
	wantReason(t, w.Install(ctx, d), release.ReasonNoValues, `Secret "extra" in namespace "vals"`, `key "v"`)
	_, err := w.kube.CoreV1().Secrets("vals").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "extra"}, StringData: map[string]string{"v": "b: {d: over}"},
	}, metav1.CreateOptions{})
	must(t, err)
	must(t, w.Install(ctx, d))
	if got := w.data(t, "vals", "c"); got != "12over" {
		t.Errorf("got %q", got)
	}
}

// A bundle may bring the very namespace that its release is in.
func helmOwnNamespace(t *testing.T, w helmWorld) {
	ctx := t.Context()
	ns := "apiVersion: v1\nkind: Namespace\nmetadata: {name: own, labels: {team: a}}\n"
	d := bundle("own", "id1", "ns.yaml", ns, "a.yaml", cm("a", "one"))
	must(t, w.Install(ctx, d))
	got, err := w.kube.CoreV1().Namespaces().Get(ctx, "own", metav1.GetOptions{})
	must(t, err)
	if got.Labels["team"] != "a" || w.data(t, "own", "a") != "one" {
		t.Errorf("labels %v", got.Labels)
	}
	d.Options.NamespaceLabels = map[string]string{"team": "b", "pod-security.kubernetes.io/enforce": "privileged"}
	must(t, w.Upgrade(ctx, d))
	got, err = w.kube.CoreV1().Namespaces().Get(ctx, "own", metav1.GetOptions{})
	must(t, err)
	if diff := cmp.Diff(map[string]string{"team": "b", "kubernetes.io/metadata.name": "own"}, got.Labels); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func helmRemove(t *testing.T, w helmWorld) {
	ctx := t.Context()
	must(t, w.Install(ctx, bundle("keep", "id1", "a.yaml", cm("a", "one"))))
	must(t, w.Install(ctx, bundle("away", "id1", "a.yaml", cm("a", "one"))))
	list, err := w.List(ctx)
	must(t, err)
	var ids []string
	for _, o := range list {
		ids = append(ids, o.ID.String())
	}
	if !slices.Contains(ids, "keep/keep") || !slices.Contains(ids, "away/away") {
		t.Errorf("list of releases: %v", ids)
	}
	must(t, w.Forget(ctx, release.ID{Namespace: "keep", Name: "keep"}))
	must(t, w.Uninstall(ctx, release.ID{Namespace: "away", Name: "away"}, helm.Rights{}))
	must(t, w.Uninstall(ctx, release.ID{Namespace: "away", Name: "away"}, helm.Rights{}))
	if w.data(t, "keep", "a") != "one" || w.data(t, "away", "a") != "" {
		t.Error("forget keeps objects, uninstall removes them")
	}
	for _, ns := range []string{"keep", "away"} {
		if o := w.observe(t, release.ID{Namespace: ns, Name: ns}); o.State != release.Absent {
			t.Errorf("%+v", o)
		}
	}
}
