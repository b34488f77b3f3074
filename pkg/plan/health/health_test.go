package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const available = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod, uid: u1, generation: 2}
spec: {replicas: 1}
status:
  observedGeneration: 2
  replicas: 1
  updatedReplicas: 1
  readyReplicas: 1
  availableReplicas: 1
  conditions:
  - {type: Available, status: "True"}
  - {type: Progressing, status: "True", reason: NewReplicaSetAvailable}
`

func TestOf(t *testing.T) {
	cases := map[string]struct {
		why   string
		live  string
		shown fleet.Summary
		ready bool
		state string
	}{
		"Available": {
			why: "all replicas are there", live: available, shown: fleet.Summary{State: "active"}, ready: true,
		},
		"ConfigMap": {
			why:   "what has no status is ready as soon as it exists",
			live:  "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
			shown: fleet.Summary{State: "active"}, ready: true,
		},
		"NotSeenYet": {
			why: "the status speaks of the generation before: Ready would be a lie for a moment",
			live: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, generation: 3}
status: {observedGeneration: 2, conditions: [{type: Available, status: "True"}]}`,
			shown: fleet.Summary{State: "active"}, state: "in-progress",
		},
		"Shown": {
			why:   "what Rancher shows as an error is one",
			live:  available,
			shown: fleet.Summary{State: "error", Error: true, Message: []string{"no"}}, state: "error",
		},
		"Terminating": {
			why: "an object that is being deleted is not ready",
			live: `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, deletionTimestamp: "2026-01-01T00:00:00Z"}`,
			shown: fleet.Summary{State: "active"}, state: "removing",
		},
		"DeadlineExceeded": {
			why: "a rollout that gave up has failed",
			live: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, generation: 1}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status:
  observedGeneration: 1
  conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]`,
			shown: fleet.Summary{State: "active"}, state: "failed",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ready := Assess(object(t, c.live), c.shown)
			if ready != c.ready || got.Summary.State != c.state {
				t.Errorf("%s: want ready %v state %q, got %v %+v", c.why, c.ready, c.state, ready, got)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	ignored := []map[string]string{{"type": "Available", "status": "True"}, {}}
	live := object(t, available)
	before := live.DeepCopy()
	got := WithoutConditions(live, ignored)
	conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
	if len(conditions) != 1 {
		t.Errorf("want the one condition that is not ignored, got %v", conditions)
	}
	if diff := cmp.Diff(before, live); diff != "" {
		t.Errorf("the object itself was changed:\n%s", diff)
	}
	if same := WithoutConditions(live, []map[string]string{{"type": "Other"}}); same != live {
		t.Error("nothing is ignored, so nothing needs a copy")
	}
}
