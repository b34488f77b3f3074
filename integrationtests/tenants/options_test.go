package tenants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// port is Helm on the API server of the tests, as an agent uses it.
type port struct {
	*testing.T
	*helm.Client
	hub  *harness.Hub
	name string // of the bundle and of its namespace
}

// deployment is a bundle of files, by name and text in turns.
func (p *port) deployment(o fleet.BundleDeploymentOptions, files ...string) helm.Deployment {
	m := content.Manifest{}
	for i := 0; i < len(files); i += 2 {
		m.Resources = append(m.Resources, fleet.BundleResource{Name: files[i], Content: files[i+1]})
	}
	if o.DefaultNamespace == "" && o.TargetNamespace == "" {
		o.DefaultNamespace = p.name
	}
	return helm.Deployment{
		ID: helm.IDOf(p.name, o), Content: m, Options: o,
		Memory: release.Record{Owner: release.Owner{BundleID: p.name}, DeploymentID: "id", Manager: "m1/1", BundleUID: "u1"},
	}
}

func with(o fleet.HelmOptions) fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{Helm: &o}
}

func (p *port) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// fails checks the reason of an error, and that its text says enough.
func (p *port) fails(err error, reason string, says ...string) {
	p.Helper()
	if err == nil || reconcile.ReasonOf(err) != reason {
		p.Fatalf("want %s, got %s: %v", reason, reconcile.ReasonOf(err), err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			p.Errorf("want %q in %q", text, err)
		}
	}
}

// data is key k of a ConfigMap of the bundle's namespace, "" if there is none.
func (p *port) data(name string) string {
	p.Helper()
	cm, err := p.hub.Client.CoreV1().ConfigMaps(p.name).Get(p.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return cm.Data["k"]
}

// stuck is a Deployment that never becomes available: nothing schedules its pods.
const stuck = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {no: where}, containers: [{name: x, image: nowhere.example/x:1}]}}
`

// job is one that never completes.
const job = `apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: x, image: nowhere.example/x:1}]}}}
`

// Every option of a deployment does what fleet-api.md 10 says.
func TestOptions(t *testing.T) {
	hub := harness.SharedHub(t)
	client, err := helm.Connect(helm.Config{REST: hub.Cluster.REST(), AgentNamespace: "agent-options"})
	if err != nil {
		t.Fatal(err)
	}
	hub.Namespace(t, "agent-options")
	cases := map[string]func(*port){
		"timeout": optionTimeout, "wait-for-jobs": optionWaitForJobs, "atomic": optionAtomic, "force": optionForce,
		"max-history": optionMaxHistory, "release-name": optionReleaseName, "disable-dns": optionDisableDNS,
		"skip-schema": optionSkipSchema, "create-namespace": optionCreateNamespace, "crds": optionCRDs,
		"kube-version": optionKubeVersion, "overlays": optionOverlays, "values-order": optionValuesOrder, "hooks": optionHooks,
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases[name](&port{T: t, Client: client, hub: hub, name: "opt-" + name})
		})
	}
}

// timeoutSeconds waits until the objects are ready; without it nothing waits.
func optionTimeout(p *port) {
	p.must(p.Install(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, "web.yaml", stuck)))
	var took time.Duration
	for range 3 { // who waits too long does so each time
		began := time.Now()
		err := p.Upgrade(p.Context(), p.deployment(with(fleet.HelmOptions{TimeoutSeconds: 1}), "web.yaml", stuck))
		p.fails(err, release.ReasonTimeout, "not ready within 1s (helm.timeoutSeconds)")
		if took = time.Since(began); took < 5*time.Second {
			break
		}
	}
	if took < time.Second || took > 5*time.Second {
		p.Errorf("waited for %s", took)
	}
}

// waitForJobs makes Jobs count, but only where there is a timeout.
func optionWaitForJobs(p *port) {
	p.must(p.Install(p.Context(), p.deployment(with(fleet.HelmOptions{WaitForJobs: true}), "job.yaml", job)))
	p.must(p.Upgrade(p.Context(), p.deployment(with(fleet.HelmOptions{TimeoutSeconds: 1}), "job.yaml", job)))
	p.fails(p.Upgrade(p.Context(), p.deployment(with(fleet.HelmOptions{TimeoutSeconds: 1, WaitForJobs: true}), "job.yaml", job)), release.ReasonTimeout)
}

// atomic undoes what has failed: an installation, and an upgrade.
func optionAtomic(p *port) {
	atomic := with(fleet.HelmOptions{Atomic: true, TimeoutSeconds: 1})
	d := p.deployment(atomic, "a.yaml", harness.ConfigMap("a", "one"), "web.yaml", stuck)
	p.fails(p.Install(p.Context(), d), release.ReasonRolledBack)
	if o, err := p.Observe(p.Context(), d.ID); err != nil || o.State != release.Absent || p.data("a") != "" {
		p.Errorf("something is left: %+v, %v", o, err)
	}
	p.must(p.Install(p.Context(), p.deployment(atomic, "a.yaml", harness.ConfigMap("a", "one"))))
	p.fails(p.Upgrade(p.Context(), p.deployment(atomic, "a.yaml", harness.ConfigMap("a", "two"), "web.yaml", stuck)), release.ReasonRolledBack)
	if got := p.data("a"); got != "one" {
		p.Errorf("not rolled back: %q", got)
	}
}

// force replaces objects, so that what others have added is gone.
func optionForce(p *port) {
	add := func() {
		p.Helper()
		cm, err := p.hub.Client.CoreV1().ConfigMaps(p.name).Get(p.Context(), "a", metav1.GetOptions{})
		p.must(err)
		cm.Data["theirs"] = "x"
		_, err = p.hub.Client.CoreV1().ConfigMaps(p.name).Update(p.Context(), cm, metav1.UpdateOptions{})
		p.must(err)
	}
	theirs := func() string {
		cm, err := p.hub.Client.CoreV1().ConfigMaps(p.name).Get(p.Context(), "a", metav1.GetOptions{})
		p.must(err)
		return cm.Data["theirs"]
	}
	p.must(p.Install(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, "a.yaml", harness.ConfigMap("a", "one"))))
	add()
	p.must(p.Upgrade(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, "a.yaml", harness.ConfigMap("a", "two"))))
	if theirs() != "x" {
		p.Error("without force a key of another field manager stays")
	}
	p.must(p.Upgrade(p.Context(), p.deployment(with(fleet.HelmOptions{Force: true}), "a.yaml", harness.ConfigMap("a", "three"))))
	if theirs() != "" || p.data("a") != "three" {
		p.Error("with force the object is replaced")
	}
}

// maxHistory is how many revisions are kept; two where it says nothing, and never
// less: Helm does not remove the one that runs before the next is deployed.
func optionMaxHistory(p *port) {
	count := func() int {
		list, err := p.hub.Client.CoreV1().Secrets(p.name).List(p.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
		p.must(err)
		return len(list.Items)
	}
	p.must(p.Install(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, "a.yaml", harness.ConfigMap("a", "0"))))
	for _, keep := range []struct{ max, want int }{{4, 4}, {0, 2}, {1, 2}} {
		for i := range 5 {
			d := p.deployment(with(fleet.HelmOptions{MaxHistory: keep.max}), "a.yaml", harness.ConfigMap("a", fmt.Sprint(keep.max, i)))
			p.must(p.Upgrade(p.Context(), d))
		}
		if got := count(); got != keep.want {
			p.Errorf("maxHistory %d keeps %d revisions", keep.max, got)
		}
	}
}

// releaseName names the release; errors name Helm's limits as such.
func optionReleaseName(p *port) {
	long := strings.Repeat("x", 53)
	d := p.deployment(with(fleet.HelmOptions{ReleaseName: long}), "a.yaml", harness.ConfigMap("a", "x"))
	p.must(p.Install(p.Context(), d))
	if o, err := p.Observe(p.Context(), release.ID{Namespace: p.name, Name: long}); err != nil || o.State != release.Deployed {
		p.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{long + "x", "Upper", "under_score", "-dash", "sl/ash"} {
		d := p.deployment(with(fleet.HelmOptions{ReleaseName: bad}), "a.yaml", harness.ConfigMap("b", "x"))
		if o, err := p.Observe(p.Context(), d.ID); err != nil || o.State != release.Absent {
			p.Errorf("%s: %+v, %v", bad, o, err)
		}
		err := p.Install(p.Context(), d)
		p.fails(err, release.ReasonBadName, bad, "helm.releaseName")
		if !reconcile.IsTerminal(err) {
			p.Errorf("a name does not get better by itself: %v", err)
		}
	}
}

// disableDNS makes the template function getHostByName find nothing.
func optionDisableDNS(p *port) {
	files := chart(harness.ConfigMap("c", `{{ getHostByName "localhost" }}`))
	p.must(p.Install(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, files...)))
	if p.data("c") == "" {
		p.Error("names are resolved by default")
	}
	p.must(p.Upgrade(p.Context(), p.deployment(with(fleet.HelmOptions{DisableDNS: true}), files...)))
	if got := p.data("c"); got != "" {
		p.Errorf("resolved to %q", got)
	}
}

// skipSchemaValidation ignores values.schema.json.
func optionSkipSchema(p *port) {
	files := append(chart(harness.ConfigMap("c", "{{ .Values.a }}")), "values.schema.json", `{"properties": {"a": {"type": "integer"}}}`)
	values := &fleet.GenericMap{Data: map[string]any{"a": "text"}}
	p.fails(p.Install(p.Context(), p.deployment(with(fleet.HelmOptions{Values: values}), files...)), release.ReasonBadValues, "a")
	p.must(p.Install(p.Context(), p.deployment(with(fleet.HelmOptions{Values: values, SkipSchemaValidation: true}), files...)))
	if got := p.data("c"); got != "text" {
		p.Errorf("got %q", got)
	}
}

// createNamespace: false waits for the namespace.
func optionCreateNamespace(p *port) {
	no := false
	d := p.deployment(fleet.BundleDeploymentOptions{CreateNamespace: &no}, "a.yaml", harness.ConfigMap("a", "x"))
	err := p.Install(p.Context(), d)
	p.fails(err, release.ReasonNoNamespace, `namespace "opt-create-namespace" does not exist`, "createNamespace: false")
	if !reconcile.IsRequeue(err) {
		p.Errorf("want a retry, as a user may make the namespace: %v", err)
	}
	p.hub.Namespace(p.T, p.name)
	p.must(p.Install(p.Context(), d))
}

// CRDs stay when a bundle leaves, unless deleteCRDResources is set.
func optionCRDs(p *port) {
	for plural, remove := range map[string]bool{"keepers": false, "goners": true} {
		d := p.deployment(fleet.BundleDeploymentOptions{DeleteCRDResources: remove}, "crd.yaml", crd(plural))
		p.must(p.Install(p.Context(), d))
		p.must(p.Uninstall(p.Context(), d.ID, helm.RightsOf(d.Options)))
		gone := func() bool {
			return p.hub.Client.Discovery().RESTClient().Get().
				AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+plural+".tenants.example").Do(p.Context()).Error() != nil
		}
		if !remove {
			if gone() {
				p.Errorf("%s: a CRD took its objects with it", plural)
			}
			continue
		}
		deadline := time.Now().Add(harness.Timeout)
		for !gone() {
			if time.Now().After(deadline) {
				p.Fatalf("%s: the CRD is still there", plural)
			}
			time.Sleep(20 * time.Millisecond) // how often the test looks
		}
	}
}

// kubeVersion of a chart is compared with the cluster's.
func optionKubeVersion(p *port) {
	files := chart(harness.ConfigMap("c", "{{ .Capabilities.KubeVersion.Major }}"))
	p.must(p.Install(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, files...)))
	if got := p.data("c"); got != "1" {
		p.Errorf("templates see Kubernetes %q", got)
	}
	files[1] += "kubeVersion: \">=99\"\n"
	p.fails(p.Upgrade(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, files...)), release.ReasonIncompatible, ">=99")
}

// yaml.overlays replace and patch plain manifests.
func optionOverlays(p *port) {
	o := fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: []string{"prod"}}}
	p.must(p.Install(p.Context(), p.deployment(o,
		"a.yaml", harness.ConfigMap("a", "base"), "b.yaml", harness.ConfigMap("b", "base"),
		"overlays/prod/a.yaml", harness.ConfigMap("a", "replaced"), "overlays/prod/b_patch.yaml", "data: {k: patched}\n",
		"overlays/test/a.yaml", harness.ConfigMap("a", "other"))))
	if p.data("a") != "replaced" || p.data("b") != "patched" {
		p.Errorf("got %q and %q", p.data("a"), p.data("b"))
	}
}

// Values come from the options, then from valuesFrom in their order.
func optionValuesOrder(p *port) {
	p.hub.Namespace(p.T, p.name)
	for name, text := range map[string]string{"one": "a: one\nb: one\nc: {d: one, e: one}\n", "two": "b: two\nc: {e: two}\n"} {
		_, err := p.hub.Client.CoreV1().ConfigMaps(p.name).Create(p.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"values.yaml": text},
		}, metav1.CreateOptions{})
		p.must(err)
	}
	from := func(name string) fleet.ValuesFrom {
		return fleet.ValuesFrom{ConfigMapKeyRef: &fleet.ConfigMapKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: name}}}
	}
	d := p.deployment(with(fleet.HelmOptions{
		Values:     &fleet.GenericMap{Data: map[string]any{"a": "zero", "d": "zero", "c": map[string]any{"f": "zero"}}},
		ValuesFrom: []fleet.ValuesFrom{from("one"), from("two")},
	}), chart(harness.ConfigMap("c", "{{ .Values.a }} {{ .Values.b }} {{ .Values.c.d }} {{ .Values.c.e }} {{ .Values.c.f }} {{ .Values.d }}"))...)
	p.must(p.Install(p.Context(), d))
	if got := p.data("c"); got != "one two one two zero zero" {
		p.Errorf("got %q", got)
	}
}

// Hooks run, also in a bundle that is not limited to a namespace, and are replaced
// the next time.
func optionHooks(p *port) {
	hook := strings.Replace(harness.ConfigMap("h", "{{ .Release.Revision }}"), "name: h", "name: h\n  annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}", 1)
	for i, act := range []func(helm.Deployment) error{
		func(d helm.Deployment) error { return p.Install(p.Context(), d) },
		func(d helm.Deployment) error { return p.Upgrade(p.Context(), d) },
	} {
		p.must(act(p.deployment(fleet.BundleDeploymentOptions{}, chart(hook+"---\n"+harness.ConfigMap("a", "x"))...)))
		if got := p.data("h"); got != fmt.Sprint(i+1) {
			p.Errorf("after revision %d the hook is of revision %q", i+1, got)
		}
	}
}
