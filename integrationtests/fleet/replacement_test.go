package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// chartOfVolume is a chart with a volume that is named by its release.
var chartOfVolume = map[string]string{
	"Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n",
	"templates/data.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: {{ .Release.Name }}-data\n" +
		"spec:\n  accessModes: [ReadWriteOnce]\n  resources:\n    requests:\n      storage: 1Mi\n",
}

// claims are the volumes of a test in the downstream clusters: those with its name as
// the prefix of their namespace or of their own name.
func claims(w *harness.World, prefix string, f func(*harness.Member, *corev1.PersistentVolumeClaim)) {
	for _, m := range w.Downstream() {
		for _, pvc := range harness.List[*corev1.PersistentVolumeClaim](w, m, "", "") {
			if (strings.HasPrefix(pvc.Namespace, prefix) || strings.HasPrefix(pvc.Name, prefix)) && pvc.DeletionTimestamp == nil {
				f(m, pvc)
			}
		}
	}
}

// volumes are the UIDs of volumes, by cluster, namespace and name.
func volumes(w *harness.World, prefix string) map[string]string {
	out := map[string]string{}
	claims(w, prefix, func(m *harness.Member, pvc *corev1.PersistentVolumeClaim) {
		out[m.Name+" "+pvc.Namespace+"/"+pvc.Name] = string(pvc.UID)
	})
	return out
}

// deletable waits for so many volumes, and takes their finalizers, which no controller
// takes here.
func deletable(w *harness.World, prefix string, n int) {
	harness.Eventually(w, "volumes are there", func() int {
		there := 0
		claims(w, prefix, func(m *harness.Member, pvc *corev1.PersistentVolumeClaim) {
			if there++; len(pvc.Finalizers) > 0 {
				harness.Change(w, m, pvc, func(pvc *corev1.PersistentVolumeClaim) { pvc.Finalizers = nil })
			}
		})
		return there
	}, n)
}

// applied waits until a commit is applied on both clusters and reported. Volumes that
// no controller binds are never Ready.
func applied(w *harness.World, repo *harness.Repository, commit string, bundles int) {
	harness.Eventually(w, "applied", func() string {
		n := 0
		for _, bd := range repo.Deployments(nil) {
			if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID ||
				len(bd.Status.Resources) == 0 || bd.Annotations[fleet.AnnotationWithdrawn] != "" {
				return bd.Name + " is not"
			}
			n++
		}
		return fmt.Sprintf("%s %d", repo.GitRepo().Status.Commit, n)
	}, fmt.Sprintf("%s %d", commit, 2*bundles))
}

// A change that would remove volumes, or everything at once, removes nothing until a
// person has approved it, whichever line orders it; taken back, it leaves no trace.
func TestReplacementIsHeld(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("identity")
	yaml := map[string]string{
		"namespace": "namespace: identity-n\n", "default": "defaultNamespace: identity-d\n",
		"name": "defaultNamespace: identity-r\nhelm:\n  releaseName: first\n", "label": "defaultNamespace: identity-l\n" +
			"targetCustomizations:\n- name: moved\n  clusterSelector: {matchLabels: {identity: moved}}\n  defaultNamespace: identity-m\n",
	}
	for dir, text := range yaml {
		repo.Write(dir+"/fleet.yaml", text)
		for name, content := range chartOfVolume {
			repo.Write(dir+"/"+name, content)
		}
	}
	commit := repo.Commit("four volumes")
	repo.Deploy()
	deletable(w, "identity", 8)
	applied(w, repo, commit, 4)
	before := volumes(w, "identity")
	if len(before) != 8 {
		t.Fatalf("there are volumes %v", before)
	}
	held := func() string {
		c := condition.Find(repo.GitRepo().Status.Conditions, fleet.ConditionDeletionHeld)
		hash, summary, _ := withdrawal.ReadText(repo.GitRepo().Annotations[fleet.AnnotationDeletionHeld])
		if c == nil || !strings.HasSuffix(c.Message, hash) {
			return ""
		}
		return summary
	}
	unharmed := func(what string) {
		t.Helper()
		if now := volumes(w, "identity"); !maps.Equal(before, now) {
			t.Fatalf("%s: volumes were %v and are %v", what, before, now)
		}
	}

	for dir, text := range map[string]string{
		"namespace": "namespace: identity-n2\n", "default": "", "name": "defaultNamespace: identity-r\n",
	} {
		repo.Write(dir+"/fleet.yaml", text)
		repo.Write("new-"+dir+"/fleet.yaml", harness.FleetYAML("identity-new"))
		repo.Write("new-"+dir+"/settings.yaml", harness.ConfigMapYAML(dir, "new"))
		repo.Commit("another " + dir)
		harness.Eventually(w, dir+" is held", held, "would replace the release of 1 of 5 bundles with 2 PersistentVolumeClaims")
		for _, m := range w.Downstream() {
			harness.Eventually(w, "what is new is there", harness.Data(w, m, "identity-new", dir), harness.ConfigMapData("new"))
		}
		unharmed(dir)
		repo.Write(dir+"/fleet.yaml", yaml[dir])
		repo.Remove("new-" + dir)
		applied(w, repo, repo.Commit("back to "+dir), 4)
		harness.Eventually(w, "nothing is held", held, "")
		unharmed("taken back")
	}

	w.Label(w.C1, "identity", "moved")
	harness.Eventually(w, "the customization is held", held, "would replace the release of 1 of 4 bundles with 1 PersistentVolumeClaim")
	unharmed("label")
	w.Label(w.C1, "identity", "")
	harness.Eventually(w, "nothing is held", held, "")

	for dir := range yaml {
		repo.Write(dir+"/fleet.yaml", "")
	}
	commit = repo.Commit("every fleet.yaml is empty")
	harness.Eventually(w, "all are held", held, "would replace the release of 4 of 4 bundles (budget 3) with 8 PersistentVolumeClaims")
	unharmed("everything")
	hash, _, _ := withdrawal.ReadText(repo.GitRepo().Annotations[fleet.AnnotationDeletionHeld])
	if out := w.CLI("approve", "-n", repo.Workspace, "repo/"+repo.Name, hash); !strings.HasSuffix(out, "approved\n") {
		t.Errorf("fleet approve says:\n%s", out)
	}
	moved := []string{}
	for _, m := range w.Downstream() {
		for _, dir := range slices.Sorted(maps.Keys(yaml)) {
			moved = append(moved, m.Name+" default/identity-"+dir+"-data")
		}
	}
	slices.Sort(moved)
	harness.Eventually(w, "what was approved goes", func() []string { return slices.Sorted(maps.Keys(volumes(w, "identity"))) }, moved)
	harness.Eventually(w, "nothing is held", held, "")
	deletable(w, "identity", 8)
	applied(w, repo, commit, 4)
}

// A namespace that deleteNamespace would delete with what a person keeps in it is
// held.
func TestNamespaceWithDataIsHeld(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("vault")
	repo.Write("app/fleet.yaml", "namespace: vault-shop\ndeleteNamespace: true\n")
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "before"))
	repo.Write("other/fleet.yaml", harness.FleetYAML("vault-other"))
	repo.Write("other/settings.yaml", harness.ConfigMapYAML("other", "before"))
	repo.DeployReady("a namespace of its own", 4)
	for _, m := range w.Downstream() {
		harness.Create(w, m, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "vault-shop", Name: "by-hand"},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}},
		})
	}
	deletable(w, "vault-", 2)
	before := volumes(w, "vault-")
	repo.Remove("app")
	repo.Write("other/settings.yaml", harness.ConfigMapYAML("other", "after"))
	repo.Commit("app is gone")
	held := func() string {
		_, summary, _ := withdrawal.ReadText(repo.GitRepo().Annotations[fleet.AnnotationDeletionHeld])
		return summary
	}
	harness.Eventually(w, "held", held, "would remove 1 of 2 bundles with 2 Namespaces")
	for _, m := range w.Downstream() {
		harness.Eventually(w, "the rest goes on", harness.Data(w, m, "vault-other", "other"), harness.ConfigMapData("after"))
	}
	if now := volumes(w, "vault-"); !maps.Equal(before, now) {
		t.Fatalf("volumes were %v and are %v", before, now)
	}
	hash, _, _ := withdrawal.ReadText(repo.GitRepo().Annotations[fleet.AnnotationDeletionHeld])
	w.CLI("approve", "-n", repo.Workspace, "repo/"+repo.Name, hash)
	for _, m := range w.Downstream() {
		harness.Eventually(w, "the namespace goes", func() bool {
			ns, there := harness.Get[*corev1.Namespace](w, m, "", "vault-shop")
			return !there || ns.DeletionTimestamp != nil
		}, true)
	}
}
