package watch

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// cluster is an opener that remembers what is open.
type cluster struct {
	open   map[string]func(old, changed *metav1.PartialObjectMetadata)
	absent string // a kind that is not served
}

func (c *cluster) WatchMeta(_ context.Context, k schema.GroupVersionKind, _ string,
	f func(old, changed *metav1.PartialObjectMetadata),
) (func(), error) {
	if k.Kind == c.absent {
		return nil, errors.New("not served")
	}
	c.open[k.Kind] = f
	return func() { delete(c.open, k.Kind) }, nil
}

func (c *cluster) kinds() map[string]bool {
	out := map[string]bool{}
	for k := range c.open {
		out[k] = true
	}
	return out
}

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	widget    = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
)

func TestOpenWhileUsed(t *testing.T) {
	c := &cluster{open: map[string]func(old, changed *metav1.PartialObjectMetadata){}, absent: "Widget"}
	w := New(t.Context(), c, func(Change) {})
	check := func(why string, want ...string) {
		t.Helper()
		set := map[string]bool{}
		for _, k := range want {
			set[k] = true
		}
		if diff := cmp.Diff(set, c.kinds()); diff != "" {
			t.Errorf("%s: -want +got\n%s", why, diff)
		}
	}
	w.Set("a", []schema.GroupVersionKind{configMap, widget})
	check("a kind that is not served is left out", "ConfigMap")
	c.absent = ""
	w.Set("b", []schema.GroupVersionKind{configMap, widget})
	check("and opened when it is", "ConfigMap", "Widget")
	w.Set("a", nil)
	check("b still has both", "ConfigMap", "Widget")
	w.CRDGone("widgets.example.com")
	check("a CRD that goes closes its watch", "ConfigMap")
	w.Set("b", []schema.GroupVersionKind{configMap, widget})
	check("which stays closed", "ConfigMap")
	w.CRDThere("widgets.example.com")
	w.Set("b", []schema.GroupVersionKind{configMap, widget})
	check("until the CRD is back", "ConfigMap", "Widget")
	w.Set("b", nil)
	check("nobody is interested any more")
}

func TestReport(t *testing.T) {
	c := &cluster{open: map[string]func(old, changed *metav1.PartialObjectMetadata){}}
	var got []Change
	w := New(t.Context(), c, func(ch Change) { got = append(got, ch) })
	w.Set("a", []schema.GroupVersionKind{configMap})
	object := func(version, set string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "x", ResourceVersion: version, Labels: map[string]string{fleet.LabelObjectSetHash: set},
		}}
	}
	first, second := object("1", "s"), object("2", "other")
	report := c.open["ConfigMap"]
	report(nil, first)
	report(first, second)
	report(second, nil)
	key := kube.Key{Namespace: "n", Name: "x"}
	want := []Change{
		{Set: "s", Kind: configMap, Key: key, Meta: first},
		{Set: "other", Kind: configMap, Key: key, Meta: second},
		{Set: "s", Kind: configMap, Key: key},
		{Set: "other", Kind: configMap, Key: key},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
