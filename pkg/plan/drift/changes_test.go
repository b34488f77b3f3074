package drift

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// managed sets the managed fields of an object: manager, second and set in turns.
func managed(t *testing.T, o *unstructured.Unstructured, entries ...string) {
	t.Helper()
	var list []any
	for i := 0; i < len(entries); i += 3 {
		set := map[string]any{}
		if err := json.Unmarshal([]byte(entries[i+2]), &set); err != nil {
			t.Fatal(err)
		}
		list = append(list, map[string]any{
			"manager": entries[i], "operation": "Update", "time": "2026-01-01T00:00:" + entries[i+1] + "Z", "fieldsType": "FieldsV1", "fieldsV1": set,
		})
	}
	if err := unstructured.SetNestedSlice(o.Object, list, "metadata", "managedFields"); err != nil {
		t.Fatal(err)
	}
}

func at(second int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC).Local()}
}

// The report says which field, what was wanted, what is there, by whom and when.
func TestChanges(t *testing.T) {
	live := strings.NewReplacer("replicas: 3\n  progress", "replicas: 1\n  progress", "image: web:1", "image: web:2",
		"{name: B, value: \"2\"}, ", "", `command: [run, "-v"]`, "command: [stop]").Replace(liveDeployment)
	const ours = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{},"f:command":{}}}}}}}`
	cases := map[string]struct {
		why    string
		fields []string
		want   []fleet.FieldChange
	}{
		"Known": {
			why: "the newest owner set the value; who removed something is not known",
			fields: []string{
				"fleetagent", "01", ours,
				"kubectl-edit", "05", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:image":{},"f:env":{}}}}}}}`,
				"scaler", "03", `{"f:spec":{"f:replicas":{}}}`,
			},
			want: []fleet.FieldChange{
				{Field: "spec.replicas", Wanted: "3", Live: "1", Manager: "scaler", Time: at(3)},
				{Field: "spec.template.spec.containers[name=main].command", Wanted: `["run","-v"]`, Live: `["stop"]`, Manager: "fleetagent", Time: at(1)},
				{Field: "spec.template.spec.containers[name=main].env[name=B]", Wanted: `{"name":"B","value":"2"}`},
				{Field: "spec.template.spec.containers[name=main].image", Wanted: `"web:1"`, Live: `"web:2"`, Manager: "kubectl-edit", Time: at(5)},
			},
		},
		"Unknown": {
			why: "without managed fields only the values are known",
			want: []fleet.FieldChange{
				{Field: "spec.replicas", Wanted: "3", Live: "1"},
				{Field: "spec.template.spec.containers[name=main].command", Wanted: `["run","-v"]`, Live: `["stop"]`},
				{Field: "spec.template.spec.containers[name=main].env[name=B]", Wanted: `{"name":"B","value":"2"}`},
				{Field: "spec.template.spec.containers[name=main].image", Wanted: `"web:1"`, Live: `"web:2"`},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := object(t, live)
			managed(t, l, c.fields...)
			got, modified := Expected{}.Compare(object(t, deployment), l)
			if !modified {
				t.Fatal("not modified")
			}
			if diff := cmp.Diff(c.want, got.Changes); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestChangesHideSecrets(t *testing.T) {
	wanted := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: one}}, stringData: {k: v, gone: x}}`)
	live := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {l: two}}, data: {k: Y2FuYXJ5}}`)
	got, _ := Expected{}.Compare(wanted, live)
	want := []fleet.FieldChange{
		{Field: "data.gone", Wanted: "(hidden)"}, {Field: "data.k", Wanted: "(hidden)", Live: "(hidden)"},
		{Field: "metadata.labels.l", Wanted: `"one"`, Live: `"two"`},
	}
	if diff := cmp.Diff(want, got.Changes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	hide := Expected{Hide: func(s string) string { return strings.ReplaceAll(s, "canary", "***") }}
	wanted = object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: canary}}`)
	live = object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: x}}`)
	if got, _ := hide.Compare(wanted, live); got.Changes[0].Wanted != `"***"` {
		t.Errorf("a Helm value is shown: %+v", got.Changes)
	}
}

// The label by which an object is the release's is a field like others.
func TestChangesOfTheMark(t *testing.T) {
	wanted := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`)
	live := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {objectset.rio.cattle.io/hash: theirs}}}`)
	managed(t, live, "rival", "09", `{"f:metadata":{"f:labels":{"f:objectset.rio.cattle.io/hash":{}}}}`)
	got, _ := Expected{SetHash: "ours"}.Compare(wanted, live)
	want := []fleet.FieldChange{{
		Field: `metadata.labels["objectset.rio.cattle.io/hash"]`, Wanted: `"ours"`, Live: `"theirs"`, Manager: "rival", Time: at(9),
	}}
	if diff := cmp.Diff(want, got.Changes); diff != "" || !got.Exist {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A manager that writes something else meanwhile changes no report.
func TestSteady(t *testing.T) {
	change := func(live string, second int) fleet.ModifiedStatus {
		return fleet.ModifiedStatus{Kind: "ConfigMap", Name: "a", Changes: []fleet.FieldChange{{Field: "data.k", Live: live, Manager: "m", Time: at(second)}}}
	}
	now := change("x", 9)
	KeepTimes(&now, []fleet.ModifiedStatus{change("x", 2)})
	if !now.Changes[0].Time.Equal(at(2)) {
		t.Error("the same finding has another time")
	}
	now = change("y", 9)
	KeepTimes(&now, []fleet.ModifiedStatus{change("x", 2)})
	if !now.Changes[0].Time.Equal(at(9)) {
		t.Error("another finding has the old time")
	}
}
