package helm

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// No option of a bundle changes how secure the pods of a namespace have to be.
func TestMark(t *testing.T) {
	const enforce = podSecurity + "enforce"
	cases := map[string]struct {
		why    string
		labels map[string]string // of the namespace
		given  map[string]string
		want   map[string]string
	}{
		"Replaced":    {"what is not given goes", map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "2"}, map[string]string{"a": "2"}},
		"Nothing":     {"no labels given, none changed", map[string]string{"a": "1"}, nil, map[string]string{"a": "1"}},
		"NoNewPolicy": {"a bundle sets no policy", map[string]string{}, map[string]string{enforce: "privileged", "a": "1"}, map[string]string{"a": "1"}},
		"NoOther":     {"nor loosens one", map[string]string{enforce: "restricted"}, map[string]string{enforce: "privileged"}, map[string]string{enforce: "restricted"}},
		"NotRemoved":  {"nor removes one", map[string]string{enforce: "restricted"}, map[string]string{"a": "1"}, map[string]string{enforce: "restricted", "a": "1"}},
		"Name":        {"the name of a namespace is Kubernetes' own", map[string]string{corev1.LabelMetadataName: "n"}, map[string]string{"a": "1"}, map[string]string{corev1.LabelMetadataName: "n", "a": "1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
			changed := setMetadata(ns, c.given, nil)
			if diff := cmp.Diff(c.want, ns.Labels); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if changed == maps.Equal(c.labels, c.want) {
				t.Errorf("%s: changed is %t", c.why, changed)
			}
		})
	}
}
