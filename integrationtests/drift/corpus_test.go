package drift

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// piece is one deployment of the corpus, testdata/corpus/<name>.yaml.
type piece struct {
	name string
	// first, where not nil, is what the file was before its present version.
	first func(text string) string
	// play writes what controllers, injectors and tools write in a cluster where
	// nothing is wrong. It may be called again and again.
	play func(w *world, namespace string)
	// edits are real drift, one in each kind.
	edits []edit
}

// edit is a change of one field by an intruder, and what is said about it.
type edit struct {
	kind, name string
	patch      string // JSON merge patch
	json       string // or JSON patch
	want       fleet.FieldChange
}

var pieces = []piece{
	{name: "webhooks", play: playWebhooks, edits: []edit{
		{
			kind: "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", name: "corpus-inject",
			json: `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`,
			want: fleet.FieldChange{Field: `webhooks[name=inject.corpus.example].failurePolicy`, Wanted: `"Ignore"`, Live: `"Fail"`},
		},
		{
			kind: "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", name: "corpus-check",
			json: `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":7}]`,
			want: fleet.FieldChange{Field: `webhooks[name=check.corpus.example].timeoutSeconds`, Wanted: "5", Live: "7"},
		},
		{
			kind: "apiextensions.k8s.io/v1/CustomResourceDefinition", name: "converteds.corpus.example",
			patch: `{"spec":{"conversion":{"webhook":{"clientConfig":{"service":{"path":"/other"}}}}}}`,
			want:  fleet.FieldChange{Field: "spec.conversion.webhook.clientConfig.service.path", Wanted: `"/convert"`, Live: `"/other"`},
		},
	}},
	{name: "scaling", play: playScaling, edits: []edit{
		{
			kind: "apps/v1/Deployment", name: "web",
			json: `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nowhere.example/web:evil"}]`,
			want: fleet.FieldChange{Field: "spec.template.spec.containers[name=web].image", Wanted: `"nowhere.example/web:1"`, Live: `"nowhere.example/web:evil"`},
		},
		{
			kind: "autoscaling/v2/HorizontalPodAutoscaler", name: "web", patch: `{"spec":{"maxReplicas":50}}`,
			want: fleet.FieldChange{Field: "spec.maxReplicas", Wanted: "5", Live: "50"},
		},
		{
			kind: "autoscaling/v1/HorizontalPodAutoscaler", name: "queue", patch: `{"spec":{"targetCPUUtilizationPercentage":99}}`,
			want: fleet.FieldChange{Field: "spec.targetCPUUtilizationPercentage", Wanted: "50", Live: "99"},
		},
		{
			kind: "apps/v1/StatefulSet", name: "queue", patch: `{"spec":{"replicas":2}}`,
			want: fleet.FieldChange{Field: "spec.replicas", Wanted: "1", Live: "2"},
		},
	}},
	{name: "defaults", play: playDefaults, edits: []edit{
		{
			kind: "apps/v1/Deployment", name: "defaults", patch: `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`,
			want: fleet.FieldChange{Field: "spec.template.spec.hostNetwork", Wanted: "false", Live: "true"},
		},
		{
			kind: "v1/ConfigMap", name: "defaults", patch: `{"data":{"empty":"full"}}`,
			want: fleet.FieldChange{Field: "data.empty", Wanted: `""`, Live: `"full"`},
		},
		{
			kind: "batch/v1/CronJob", name: "nightly", patch: `{"spec":{"schedule":"* * 1 1 *"}}`,
			want: fleet.FieldChange{Field: "spec.schedule", Wanted: `"0 3 * * *"`, Live: `"* * 1 1 *"`},
		},
		{
			kind: "apps/v1/DaemonSet", name: "node", patch: `{"metadata":{"labels":{"objectset.rio.cattle.io/hash":null}}}`,
			want: fleet.FieldChange{Field: `metadata.labels["objectset.rio.cattle.io/hash"]`},
		},
	}},
	{name: "services", play: playServices, edits: []edit{
		{
			kind: "v1/Service", name: "plain", patch: `{"spec":{"selector":{"app":"other"}}}`,
			want: fleet.FieldChange{Field: "spec.selector.app", Wanted: `"web"`, Live: `"other"`},
		},
		{
			kind: "networking.k8s.io/v1/Ingress", name: "web", json: `[{"op":"replace","path":"/spec/rules/0/host","value":"evil.example"}]`,
			want: fleet.FieldChange{Field: "spec.rules"},
		},
		{
			kind: "networking.k8s.io/v1/IngressClass", name: "corpus", patch: `{"metadata":{"annotations":{"ingressclass.kubernetes.io/is-default-class":"false"}}}`,
			want: fleet.FieldChange{Field: `metadata.annotations["ingressclass.kubernetes.io/is-default-class"]`, Wanted: `"true"`, Live: `"false"`},
		},
	}},
	{name: "rights", play: playRights, edits: []edit{
		{
			kind: "rbac.authorization.k8s.io/v1/ClusterRole", name: "corpus-part",
			json: `[{"op":"add","path":"/rules/0/verbs/-","value":"delete"}]`,
			want: fleet.FieldChange{Field: "rules"},
		},
		{
			kind: "rbac.authorization.k8s.io/v1/ClusterRole", name: "corpus-all",
			patch: `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"evil":"yes"}}]}}`,
			want:  fleet.FieldChange{Field: "aggregationRule.clusterRoleSelectors"},
		},
		{
			kind: "rbac.authorization.k8s.io/v1/Role", name: "reader", json: `[{"op":"replace","path":"/rules/0/resources","value":["secrets"]}]`,
			want: fleet.FieldChange{Field: "rules"},
		},
		{
			kind: "rbac.authorization.k8s.io/v1/RoleBinding", name: "reader", json: `[{"op":"remove","path":"/subjects/1"}]`,
			want: fleet.FieldChange{Field: "subjects"},
		},
		{
			kind: "v1/ServiceAccount", name: "app", patch: `{"automountServiceAccountToken":true}`,
			want: fleet.FieldChange{Field: "automountServiceAccountToken", Wanted: "false", Live: "true"},
		},
		{
			kind: "v1/Secret", name: "loose", patch: `{"data":{"a":"ZXZpbA=="}}`,
			want: fleet.FieldChange{Field: "data.a", Wanted: "(hidden)", Live: "(hidden)"},
		},
	}},
	{name: "jobs", play: playJobs, edits: []edit{
		{
			kind: "batch/v1/Job", name: "stays", patch: `{"metadata":{"labels":{"objectset.rio.cattle.io/hash":"theirs"}}}`,
			want: fleet.FieldChange{Field: `metadata.labels["objectset.rio.cattle.io/hash"]`},
		},
		{
			kind: "v1/ConfigMap", name: "held", patch: `{"data":{"k":"evil"}}`,
			want: fleet.FieldChange{Field: "data.k", Wanted: `"v"`, Live: `"evil"`},
		},
	}},
	{name: "limits", play: playLimits, edits: []edit{
		{
			kind: "policy/v1/PodDisruptionBudget", name: "web", patch: `{"spec":{"minAvailable":0}}`,
			want: fleet.FieldChange{Field: "spec.minAvailable", Wanted: `"50%"`, Live: "0"},
		},
		{
			kind: "networking.k8s.io/v1/NetworkPolicy", name: "deny", patch: `{"spec":{"ingress":[{}]}}`,
			want: fleet.FieldChange{Field: "spec.ingress", Wanted: "[]", Live: "[{}]"},
		},
		{
			kind: "v1/ResourceQuota", name: "quota", patch: `{"spec":{"hard":{"pods":"7"}}}`,
			want: fleet.FieldChange{Field: "spec.hard.pods", Wanted: `"100"`, Live: `"7"`},
		},
		{
			kind: "v1/LimitRange", name: "limits", json: `[{"op":"replace","path":"/spec/limits/0/default/cpu","value":"9"}]`,
			want: fleet.FieldChange{Field: "spec.limits"},
		},
		{
			kind: "v1/PersistentVolume", name: "corpus-disk", patch: `{"spec":{"capacity":{"storage":"4Gi"}}}`,
			want: fleet.FieldChange{Field: "spec.capacity.storage", Wanted: `"2Gi"`, Live: `"4Gi"`},
		},
		{
			kind: "storage.k8s.io/v1/StorageClass", name: "corpus", patch: `{"metadata":{"labels":{"objectset.rio.cattle.io/hash":"x"}}}`,
			want: fleet.FieldChange{Field: `metadata.labels["objectset.rio.cattle.io/hash"]`},
		},
	}},
	{name: "kinds", play: playKinds, first: func(text string) string {
		return strings.Replace(text, "mode: {", "old: {type: string}\n              mode: {", 1)
	}},
	{name: "things", play: playThings, edits: []edit{
		{
			kind: "corpus.example/v1/App", name: "one", patch: `{"spec":{"size":9}}`,
			want: fleet.FieldChange{Field: "spec.size", Wanted: "3", Live: "9"},
		},
		{
			kind: "corpus.example/v1/App", name: "two", patch: `{"spec":{"labels":{"tier":"db"}}}`,
			want: fleet.FieldChange{Field: "spec.labels.tier", Wanted: `"web"`, Live: `"db"`},
		},
	}},
}

// sentinel is the object of each deployment whose drift is a barrier: a status
// that shows it was made after everything before was taken in.
const sentinel = "sentinel"

// order deploys a piece.
func (p piece) order(w *world, options fleet.BundleDeploymentOptions) {
	w.Helper()
	p.orderText(w, options, w.file("corpus/"+p.name+".yaml"))
}

func (p piece) orderText(w *world, options fleet.BundleDeploymentOptions, text string) {
	w.Helper()
	w.Order(p.name, harness.Order{Options: options, Files: []string{p.name + ".yaml", text, "sentinel.yaml", cm(sentinel, "good")}})
}

// barrier writes a value to the sentinel and waits for a status that shows it.
func (p piece) barrier(w *world, value string) *fleet.BundleDeployment {
	w.Helper()
	w.patch(object{kind: "v1/ConfigMap", namespace: w.Home(p.name), name: sentinel}, intruder, fmt.Sprintf(`{"data":{"k":%q}}`, value))
	return w.shows(p.name, value)
}

// shows waits for a status that shows a value of the sentinel.
func (w *world) shows(name, value string) *fleet.BundleDeployment {
	w.Helper()
	var bd *fleet.BundleDeployment
	w.Until("the status of "+name+" shows "+value, func() bool {
		bd = w.Deployment(name)
		m, ok := changes(bd)["ConfigMap "+sentinel]
		return ok && len(m.Changes) == 1 && m.Changes[0].Live == `"`+value+`"`
	})
	return bd
}

// clean fails the test if a status names anything but the sentinel.
func clean(w *world, when string, bd *fleet.BundleDeployment) {
	w.Helper()
	for _, m := range bd.Status.ModifiedStatus {
		if m.Name != sentinel {
			w.Errorf("%s: false drift of %s: %s", bd.Name, when, m.String())
		}
	}
}

// corpus is the proof that nothing is called drift that is none, and its twin:
// real drift in each kind is found, and put back where that is asked for.
func corpus(w *world) {
	for _, p := range pieces {
		if p.first != nil {
			p.orderText(w, fleet.BundleDeploymentOptions{}, p.first(w.file("corpus/"+p.name+".yaml")))
			continue
		}
		p.order(w, fleet.BundleDeploymentOptions{})
	}
	each(func(p piece) {
		w.Until(p.name+" is deployed", func() bool {
			return condition.IsTrue(w.Deployment(p.name).Status.Conditions, fleet.ConditionInstalled)
		})
	})
	each(func(p piece) { p.play(w, w.Home(p.name)) })
	each(func(p piece) { clean(w, "playing", p.barrier(w, "one")) })
	for end := time.Now().Add(10 * time.Minute); soak() && time.Now().Before(end); {
		each(func(p piece) { p.play(w, w.Home(p.name)) })
		each(func(p piece) { clean(w, "playing on", p.barrier(w, fmt.Sprint(time.Now().Unix()))) })
		time.Sleep(5 * time.Second) // how often the players write
	}
	// A new agent looks at everything, whatever events came before.
	w.Stop()
	each(func(p piece) {
		w.patch(object{kind: "v1/ConfigMap", namespace: w.Home(p.name), name: sentinel}, intruder, `{"data":{"k":"two"}}`)
	})
	w.Start()
	each(func(p piece) { clean(w, "a look at everything", w.shows(p.name, "two")) })
	if w.Failed() {
		return
	}
	took := times{late: w.lateness()}
	each(func(p piece) {
		for _, e := range p.edits {
			e.drift(w, p.name, &took)
		}
	})
	took.report(w)
	restore(w)
}

// restore asks for everything to be put back, and looks what became of it.
func restore(w *world) {
	w.Helper()
	made := w.value(object{kind: "batch/v1/Job", namespace: w.Home("jobs"), name: "migrate"}, "metadata")
	for _, p := range pieces {
		p.order(w, on(fleet.CorrectDrift{}))
	}
	each(func(p piece) { putBack(w, p) })
	web := object{kind: "apps/v1/Deployment", namespace: w.Home("scaling"), name: "web"}
	if got := w.value(web, "spec", "replicas"); got != "4" {
		w.Errorf("the autoscaler's count was put back with the image: %s replicas", got)
	}
	hook := w.value(object{kind: "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", name: "corpus-inject"}, "webhooks")
	if !strings.Contains(hook, base64.StdEncoding.EncodeToString(w.Down.Cluster.CA())) {
		w.Errorf("an injected authority was put back with the policy: %.200s", hook)
	}
	if got := w.value(object{kind: "batch/v1/Job", namespace: w.Home("jobs"), name: "migrate"}, "metadata"); got != made || made != "missing" {
		w.Errorf("a Job that was done runs again: before %q, after %q", made, got)
	}
}

// putBack waits until a piece is as it was wanted.
func putBack(w *world, p piece) {
	w.Helper()
	w.Until(p.name+" is put back", func() bool {
		bd := w.Deployment(p.name)
		return bd.Status.NonModified && condition.Find(bd.Status.Conditions, fleet.ConditionReady).ObservedGeneration == bd.Generation
	})
}

// drift makes real drift, waits for the agent to report it, and checks the
// report.
func (e edit) drift(w *world, deployment string, took *times) {
	w.Helper()
	kind, patch := types.MergePatchType, e.patch
	if e.json != "" {
		kind, patch = types.JSONPatchType, e.json
	}
	at := object{kind: e.kind, namespace: w.Home(deployment), name: e.name}
	key := e.kind[strings.LastIndex(e.kind, "/")+1:] + " " + w.named(e.name)
	resource, done := w.of(at), took.begin(key)
	_, err := resource.Patch(w.Context(), w.named(e.name), kind, []byte(w.named(patch)), metav1.PatchOptions{FieldManager: intruder})
	w.Must(err)
	var m fleet.ModifiedStatus
	w.Until(key+" is reported", func() bool {
		var ok bool
		m, ok = changes(w.Deployment(deployment))[key]
		return ok
	})
	done()
	i := slices.IndexFunc(m.Changes, func(c fleet.FieldChange) bool { return c.Field == w.named(e.want.Field) })
	if i < 0 {
		w.Errorf("%s: want field %s, got %+v", key, w.named(e.want.Field), m.Changes)
		return
	}
	got := m.Changes[i]
	if e.want.Wanted != "" && (got.Wanted != e.want.Wanted || got.Live != e.want.Live) {
		w.Errorf("%s: want %s instead of %s, got %s instead of %s", key, e.want.Live, e.want.Wanted, got.Live, got.Wanted)
	}
	if got.Live != "" && (got.Manager != intruder || got.Time == nil) {
		w.Errorf("%s: who and when is not reported: %+v", key, got)
	}
}

// each does something with all pieces at once.
func each(f func(piece)) {
	var group sync.WaitGroup
	for _, p := range pieces {
		group.Go(func() { f(p) })
	}
	group.Wait()
}

// replace changes an object that is read, changed and written as a whole.
func (w *world) replace(at object, who string, change func(*unstructured.Unstructured)) {
	w.Helper()
	w.Until(who+" writes "+at.name, func() bool {
		live := w.get(at)
		if live == nil {
			return false
		}
		change(live)
		_, err := w.of(at).Update(w.Context(), live, metav1.UpdateOptions{FieldManager: who})
		return err == nil
	})
}
