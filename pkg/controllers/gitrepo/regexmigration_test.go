package gitrepo

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// inherited makes a GitRepo with a Secret for charts, as another manager leaves it, with a
// Bundle whose chart is private.
func inherited(w *looptest.World) {
	looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "charts"}, Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")}})
	makeRepo(w, "repo", func(r *fleet.GitRepo) { r.Spec.HelmSecretName = "charts" })
	r := repo(w)
	read := r.DeepCopy()
	read.Status.Commit = "0000000000000000000000000000000000000001"
	_, err := kube.StoreOf[*fleet.GitRepo](w.Server.Connect("other")).PatchStatus(w.Context(), r, read)
	w.Must(err)
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "repo-old", Labels: map[string]string{fleet.LabelRepoName: "repo"}}}
	b.Spec.Helm = &fleet.HelmOptions{Repo: "https://charts.example.com/stable", Chart: "web"}
	looptest.Make(w, b)
}

// A GitRepo of a manager that sent credentials everywhere gets the hosts of its charts as
// helmRepoURLRegex, whichever request fails; it is read only then.
func TestRegexIsMigrated(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Of: "gitrepo",
		Given: g.given("a", inherited),
		When:  func(w *looptest.World) { w.Pass(time.Minute) },
		Then: func(w *looptest.World) {
			r := repo(w)
			if r.Spec.HelmRepoURLRegex != `^https://charts\.example\.com/` || r.Annotations[fleet.AnnotationRegexMigrated] != "true" {
				w.Errorf("got %q and annotations %v", r.Spec.HelmRepoURLRegex, r.Annotations)
			}
			wantRead(w, g.head())
		},
	})
}

// Where rancher/fleet has migrated, and for a GitRepo that is new, the field stays empty:
// the user has decided so.
func TestRegexIsNotMigrated(t *testing.T) {
	marker := func(w *looptest.World) {
		looptest.Make(w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fleet.ConfigMapRegexMigrated}})
	}
	for name, given := range map[string][]func(*looptest.World){
		"Migrated": {marker, inherited},
		"New": {func(w *looptest.World) {
			inherited(w)
			looptest.Remove[*fleet.GitRepo](w, ws, "repo")
			makeRepo(w, "repo", func(r *fleet.GitRepo) { r.Spec.HelmSecretName = "charts" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}), Given: g.given("a", given...),
				When: func(w *looptest.World) { w.Pass(time.Minute) },
				Then: func(w *looptest.World) {
					if got := repo(w).Spec.HelmRepoURLRegex; got != "" {
						w.Errorf("set to %q", got)
					}
					wantRead(w, g.head())
				},
			})
		})
	}
}
