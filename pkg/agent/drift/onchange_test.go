package drift

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
)

// Of the changes of an object those are news that came after the last look and may
// concern what counts.
func TestChanges(t *testing.T) {
	meta := func(version int, annotation string, wrote ...int) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{"theirs": annotation},
		}}
		for i, second := range wrote {
			at := metav1.NewTime(time.Unix(int64(second), 0))
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: strconv.Itoa(i), Operation: metav1.ManagedFieldsOperationUpdate, Time: &at,
				FieldsV1: metav1.NewFieldsV1([]string{`{"f:data":{}}`, `{"f:metadata":{}}`}[i]),
			})
		}
		return o
	}
	cases := map[string]struct {
		why  string
		seen *metav1.PartialObjectMetadata // nil: it was missing
		now  *metav1.PartialObjectMetadata // nil: it is gone
		want bool
	}{
		"Newer":      {why: "another client wrote data", seen: meta(10, "", 1), now: meta(11, "", 2), want: true},
		"Seen":       {why: "the list that a watch begins with", seen: meta(10, "", 1), now: meta(10, "", 1)},
		"Older":      {why: "news that arrived late", seen: meta(10, "", 2), now: meta(9, "", 1)},
		"Annotation": {why: "an annotation that the manifest does not have", seen: meta(10, "", 1), now: meta(11, "x", 1, 5)},
		"Gone":       {why: "it was there", seen: meta(10, "", 1), want: true},
		"StillGone":  {why: "it was missing before"},
		"Back":       {why: "it is there again", now: meta(12, "", 1), want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &seen{}
			if c.seen != nil {
				s.mark = drift.MarkOf(c.seen, s.keys)
			}
			if got := s.isRelevant(watch.Change{Meta: c.now}); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}

// Bundles whose name begins with "fleet-agent" share one object set: a change
// reaches the deployment that has the object, whichever of them came last.
func TestChangeReachesItsDeployment(t *testing.T) {
	m := New(t.Context(), Config{Now: time.Now, Enqueue: func(string, time.Duration) {}})
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	object := func(name string) ref { return ref{kind: kind, key: kube.Key{Namespace: "default", Name: name}} }
	names := []string{"fleet-agent-x-app", "fleet-agent-y-app", "fleet-agent-c1"}
	for _, name := range names {
		m.deploymentOf(name).view = &view{objects: map[ref]*seen{object(name): {mark: drift.Mark{Version: 1}}}}
	}
	change := func(name string) {
		m.onWatchEvent(watch.Change{Set: m.setHash(name), Kind: kind, Key: object(name).key})
	}
	for _, name := range names {
		change(name)
		if !m.deploymentOf(name).dirty[object(name)] {
			t.Errorf("a change of an object of %s did not reach it", name)
		}
	}
	for _, name := range names {
		if n := len(m.deploymentOf(name).dirty); n != 1 {
			t.Errorf("%s has to look at %d objects, want its own one", name, n)
		}
	}
	m.Forget("fleet-agent-c1")
	clear(m.deploymentOf("fleet-agent-x-app").dirty)
	if change("fleet-agent-x-app"); len(m.deploymentOf("fleet-agent-x-app").dirty) != 1 {
		t.Error("a change did not reach its deployment after another one of the set was forgotten")
	}
	for _, name := range names {
		m.Forget(name)
	}
	if len(m.names) != 0 {
		t.Errorf("forgotten deployments are still known: %v", m.names)
	}
}
