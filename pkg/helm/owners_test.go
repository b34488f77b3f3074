package helm

import (
	"testing"

	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Of two actions that want the same object the first one has it until it is over,
// and the other one has none of its objects.
func TestReservations(t *testing.T) {
	objects := func(names ...string) (list helmkube.ResourceList) {
		for _, name := range names {
			list = append(list, &resource.Info{Namespace: "shop", Name: name, Mapping: &meta.RESTMapping{
				GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			}})
		}
		return list
	}
	one, two := release.ID{Namespace: "shop", Name: "one"}, release.ID{Namespace: "shop", Name: "two"}
	never := func(*resource.Info, release.ID) bool { return false }
	r := &reservations{holders: map[string]release.ID{}}
	take := func(id release.ID, names ...string) string {
		info, _ := r.reserve(id, objects(names...), never)
		if info == nil {
			return ""
		}
		return info.Name
	}
	for _, step := range []struct {
		why   string
		id    release.ID
		names []string
		taken string
	}{
		{"nothing is reserved yet", one, []string{"a", "b"}, ""},
		{"one has b", two, []string{"c", "b"}, "b"},
		{"two got nothing", one, []string{"c"}, ""},
		{"one asks again, as for another manifest of the same action", one, []string{"a", "c"}, ""},
	} {
		if got := take(step.id, step.names...); got != step.taken {
			t.Errorf("%s: %q is taken, want %q", step.why, got, step.taken)
		}
	}
	r.release(one)
	if got := take(two, "a", "b", "c"); got != "" {
		t.Errorf("%q is taken after the other action is over", got)
	}
	if info, _ := r.reserve(one, objects("a"), func(*resource.Info, release.ID) bool { return true }); info != nil {
		t.Error("an object that the other one passes on is refused")
	}
}
