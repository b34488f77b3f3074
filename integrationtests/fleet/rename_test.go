package fleet

import (
	"maps"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// volume is a volume of a fixed name.
const volume = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n" +
	"spec:\n  accessModes: [ReadWriteOnce]\n  resources:\n    requests:\n      storage: 1Mi\n"

// A directory with a volume is renamed: the new bundle takes the volume over from the
// old one, whether it goes to all clusters at once or to one after the other.
func TestRenamedBundleKeepsItsVolume(t *testing.T) {
	for name, rollout := range map[string]string{
		"rename":     "",
		"renameturn": "rolloutStrategy: {maxUnavailable: 1, maxUnavailablePartitions: 0, partitions: [{name: one, clusterName: c1}, {name: two, clusterName: c2}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := harness.Open(t)
			repo := w.Repository(name)
			write := func(dir, value string) {
				repo.Write(dir+"/fleet.yaml", harness.FleetYAML(name)+rollout)
				repo.Write(dir+"/data.yaml", volume)
				repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML("app", value))
			}
			write("db", "before")
			commit := repo.Commit("a volume")
			repo.Deploy()
			deletable(w, name, 2)
			applied(w, repo, commit, 1)
			before := volumes(w, name)
			if len(before) != 2 {
				t.Fatalf("there are volumes %v", before)
			}

			repo.Remove("db")
			write("store", "after")
			applied(w, repo, repo.Commit("another directory"), 1)
			for _, m := range w.Downstream() {
				harness.Eventually(w, "the new bundle has it", harness.Data(w, m, name, "app"), harness.ConfigMapData("after"))
			}
			harness.Eventually(w, "the old bundle is gone", func() int { return len(repo.Bundles()) }, 1)
			harness.Eventually(w, "nothing is held", func() string {
				_, summary, _ := withdrawal.ReadText(repo.GitRepo().Annotations[fleet.AnnotationDeletionHeld])
				return summary
			}, "")
			if now := volumes(w, name); !maps.Equal(before, now) {
				t.Errorf("volumes were %v and are %v", before, now)
			}
		})
	}
}
