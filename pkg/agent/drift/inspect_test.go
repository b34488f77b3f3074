package drift

import (
	"context"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// oneMap is a cluster with one ConfigMap, whose value is its version.
type oneMap struct {
	set     string
	version int
	onGet   func() // called after an object was read, before it is handed over
	reads   int
}

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// live is the ConfigMap as it is.
func (om *oneMap) live() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"version": strconv.Itoa(om.version)},
		"metadata": map[string]any{
			"name": "a", "namespace": "ns", "resourceVersion": strconv.Itoa(om.version),
			"labels": map[string]any{fleet.LabelObjectSetHash: om.set},
			"managedFields": []any{map[string]any{
				"manager": "x", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
				"fieldsV1": map[string]any{"f:data": map[string]any{}},
			}},
		},
	}}
}

func (om *oneMap) Get(context.Context, schema.GroupVersionKind, kube.Key) (*unstructured.Unstructured, error) {
	o := om.live()
	om.reads++
	if f := om.onGet; f != nil {
		om.onGet = nil
		f()
	}
	return o, nil
}

func (om *oneMap) ScopeOf(context.Context, schema.GroupVersionKind) (bool, error) { return true, nil }

func (om *oneMap) WatchMeta(context.Context, schema.GroupVersionKind, string,
	func(old, changed *metav1.PartialObjectMetadata),
) (func(), error) {
	return func() {}, nil
}

// A change that comes while the objects are being read is not lost: neither
// before there is a first view, nor when a new revision is looked at.
func TestChangeWhileLooking(t *testing.T) {
	c := &oneMap{version: 1}
	log := logrus.New()
	log.SetOutput(io.Discard)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := New(t.Context(), Config{Helm: (*helm.Client)(nil), Live: c, Log: logrus.NewEntry(log), Now: func() time.Time { return now }, Enqueue: func(string, time.Duration) {}})
	c.set = m.setHash("web")
	// revision is a release that wants the ConfigMap at a version.
	revision := func(n, version int) Release {
		return Release{Name: "web", Observed: &release.Observed{
			ID: release.ID{Namespace: "ns", Name: "web"}, State: release.Deployed, Good: n,
			Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {version: \"" + strconv.Itoa(version) + "\"}\n",
		}}
	}
	change := func(version int) {
		c.version = version
		live := c.live()
		m.onWatchEvent(watch.Change{Set: c.set, Kind: configMap, Key: kube.KeyOf(live), Meta: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", ResourceVersion: live.GetResourceVersion(), Labels: live.GetLabels(), ManagedFields: live.GetManagedFields(),
		}}})
	}
	look := func(rel Release) (modified bool) {
		t.Helper()
		objs, err := m.Inspect(t.Context(), rel)
		if err != nil || len(objs) != 1 {
			t.Fatalf("got %v, %v", objs, err)
		}
		return objs[0].Modified != nil
	}

	c.onGet = func() { change(2) }
	if look(revision(1, 2)) != true || len(m.deploymentOf("web").dirty) != 1 {
		t.Error("what was read is old, and the change has to be looked at")
	}
	if !look(revision(1, 2)) || c.reads != 1 {
		t.Error("an object that was read a moment ago is left alone")
	}
	now = now.Add(pause)
	if look(revision(1, 2)) {
		t.Error("the second look must see the change")
	}
	now = now.Add(pause)
	reads := c.reads
	change(2)
	if look(revision(1, 2)); c.reads != reads {
		t.Error("a change that was seen already is no reason to read again")
	}
	c.onGet = func() { change(3) }
	look(revision(2, 3))
	now = now.Add(pause)
	if look(revision(2, 3)) {
		t.Error("a change during the first look at a new revision was lost")
	}
	now = now.Add(pause)
	change(4)
	if !look(revision(2, 3)) {
		t.Error("a change between two looks was lost")
	}
}
