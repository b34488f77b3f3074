package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A status notes HelmOps, since nothing of them is deployed.
func TestStatusNotesHelmOps(t *testing.T) {
	f := shops(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(fleet.GroupVersion.WithKind("HelmOp"))
		o.SetNamespace("shops")
		o.SetName(name)
		f.held[objectKey(o)] = o
	}
	st := stage{fake: f}
	const want = "this version deploys no HelmOps: nothing of shops/a, shops/b, shops/c and 1 more is deployed\n"
	if out := st.run(t, []string{"status"}); !strings.Contains(out, want) {
		t.Errorf("want %sgot\n%s", want, out)
	}
}
