package deploy

import (
	"context"
	"io"
	"strconv"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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

func (c *oneMap) Get(context.Context, schema.GroupVersionKind, kube.Key) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"version": strconv.Itoa(c.version)},
		"metadata": map[string]any{
			"name": "a", "namespace": "ns", "resourceVersion": strconv.Itoa(c.version),
			"labels": map[string]any{fleet.LabelObjectSetHash: c.set},
		},
	}}
	c.reads++
	if f := c.onGet; f != nil {
		c.onGet = nil
		f()
	}
	return o, nil
}

func (c *oneMap) ScopeOf(context.Context, schema.GroupVersionKind) (bool, error) { return true, nil }

func (c *oneMap) WatchMeta(context.Context, schema.GroupVersionKind, string,
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
	r := New(t.Context(), Config{Namespace: "fleet", Workers: 1, Live: c, Log: logrus.NewEntry(log)})
	c.set = r.setHash("web")
	// revision is a release that wants the ConfigMap at a version.
	revision := func(n, version int) *snapshot {
		return &snapshot{name: "web", state: r.stateOf("web"), observed: release.Observed{
			ID: release.ID{Namespace: "ns", Name: "web"}, State: release.Deployed, Good: n,
			Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {version: \"" + strconv.Itoa(version) + "\"}\n",
		}}
	}
	change := func(version int) {
		c.version = version
		r.changed(watch.Change{Set: c.set, Kind: configMap, Key: kube.Key{Namespace: "ns", Name: "a"}, Version: strconv.Itoa(version)})
	}
	look := func(s *snapshot) (modified bool) {
		t.Helper()
		objs, err := r.inspect(t.Context(), s)
		if err != nil || len(objs) != 1 {
			t.Fatalf("got %v, %v", objs, err)
		}
		return objs[0].Modified != nil
	}

	c.onGet = func() { change(2) }
	if look(revision(1, 2)) != true || r.loop.Len() != 1 {
		t.Errorf("what was read is old, and the change has to wake the loop up; %d wait", r.loop.Len())
	}
	if look(revision(1, 2)) {
		t.Error("the second look must see the change")
	}
	reads := c.reads
	change(2)
	if look(revision(1, 2)); c.reads != reads {
		t.Error("a change that was seen already is no reason to read again")
	}
	c.onGet = func() { change(3) }
	look(revision(2, 3))
	if look(revision(2, 3)) {
		t.Error("a change during the first look at a new revision was lost")
	}
	change(4)
	if !look(revision(2, 3)) {
		t.Error("a change between two looks was lost")
	}
}
