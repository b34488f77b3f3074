package helm

import (
	"maps"
	"slices"
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An object that another release has taken over stays when the release that had
// it leaves it out, and when that release goes.
func TestForeignObjectsStay(t *testing.T) {
	files := func(names ...string) map[string]string {
		out := map[string]string{}
		for _, name := range names {
			out[name+".yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
		}
		return out
	}
	const maps = "/api/v1/namespaces/team-a/configmaps/"
	options := fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}
	cluster := newFakeCluster(t)
	client := cluster.client(t)
	d := rendered(options, files("kept", "left", "taken", "taken-later"))
	if err := client.Install(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	cluster.take(maps+"taken", release.ID{Namespace: "team-a", Name: "other"})
	if err := client.Upgrade(t.Context(), rendered(options, files("kept", "taken-later"))); err != nil {
		t.Fatal(err)
	}
	if got := cluster.paths(maps); !slices.Equal(got, []string{maps + "kept", maps + "taken", maps + "taken-later"}) {
		t.Errorf("after the upgrade there are %v", got)
	}
	cluster.take(maps+"taken-later", release.ID{Namespace: "other", Name: "app"})
	if err := client.Uninstall(t.Context(), d.ID, Rights{}); err != nil {
		t.Fatal(err)
	}
	if got := cluster.paths(maps); !slices.Equal(got, []string{maps + "taken", maps + "taken-later"}) {
		t.Errorf("after the removal there are %v", got)
	}
}

// take marks an object as that of another release.
func (f *fakeCluster) take(path string, owner release.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := withEntries(f.objects[path].GetAnnotations(), map[string]string{markReleaseName: owner.Name, markReleaseNamespace: owner.Namespace})
	f.objects[path].SetAnnotations(a)
}

// paths are those of objects below a path.
func (f *fakeCluster) paths(below string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.objects)), func(p string) bool { return len(p) <= len(below) || p[:len(below)] != below })
}
