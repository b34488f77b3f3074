package gitrepo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/publish"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// A GitRepo that was deleted may have been made again under its name before the cache
// shows it: then the Bundles of that name are the new one's.
func TestRemoveSparesTheSuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		live    types.UID // of the GitRepo on the API server; empty: there is none
		removes bool
	}{
		"Deleted":   {live: "old", removes: true},
		"MadeAgain": {live: "new"},
		"Gone":      {},
	} {
		t.Run(name, func(t *testing.T) {
			removed := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				const prefix = "/apis/fleet.cattle.io/v1alpha1/namespaces/ns/"
				var answer any
				code := http.StatusOK
				switch r.Method + " " + r.URL.Path {
				case "GET " + prefix + "bundles":
					answer = fleet.BundleList{Items: []fleet.Bundle{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b"}}}}
				case "GET " + prefix + "gitrepos/r":
					answer = fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: c.live}}
					if c.live == "" {
						code, answer = http.StatusNotFound, metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
					}
				case "DELETE " + prefix + "bundles/b":
					removed, answer = true, metav1.Status{Status: metav1.StatusSuccess}
				default:
					t.Errorf("unexpected %s %s", r.Method, r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(answer)
			}))
			t.Cleanup(server.Close)
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}, UserAgent: "test", FieldManager: "test"})
			if err != nil {
				t.Fatal(err)
			}
			log := logrus.New()
			log.SetOutput(io.Discard)
			w := &Worker{
				log: logrus.NewEntry(log), repos: kube.StoreOf[*fleet.GitRepo](client), bundles: kube.StoreOf[*fleet.Bundle](client),
				publisher: publish.New(publish.Config{Client: client}),
			}
			old := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "old", Finalizers: []string{fleet.FinalizerGitRepo}}}
			if _, err := w.remove(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			if removed != c.removes {
				t.Errorf("the Bundle was removed: %v, want %v", removed, c.removes)
			}
		})
	}
}

// The kind Bundle was deleted before the GitRepo, whose kind is being deleted too: the GitRepo
// does not wait for Bundles.
func TestRemoveWithoutKindOfBundles(t *testing.T) {
	s := kubetest.New(t)
	s.ServeByDefinition()
	client := s.Connect("test")
	_, err := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](client).Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gitrepos." + fleet.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: fleet.Group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "GitRepo", Plural: "gitrepos"}, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: fleet.GroupVersion.Version, Served: true, Storage: true}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	repos := kube.StoreOf[*fleet.GitRepo](client)
	repo, err := repos.Create(t.Context(), &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", Finalizers: []string{fleet.FinalizerGitRepo}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := repos.Delete(t.Context(), kube.KeyOf(repo), kube.Precondition{}); err != nil {
		t.Fatal(err)
	}
	if repo, err = repos.Get(t.Context(), kube.KeyOf(repo)); err != nil {
		t.Fatal(err)
	}
	w := &Worker{repos: repos, bundles: kube.StoreOf[*fleet.Bundle](client)}
	if _, err := w.remove(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	if _, err := repos.Get(t.Context(), kube.KeyOf(repo)); !kube.IsGone(err) {
		t.Errorf("want the GitRepo gone, got %v", err)
	}
}

// A deleted GitRepo takes its Bundles along, and nothing else.
func TestGitRepoDeleted(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Of: loopName,
		Given: g.given("a b", made, g.read, func(w *looptest.World) {
			for _, name := range []string{"repo-a", "repo-b"} { // nothing is deployed
				looptest.Change(w, ws, name, func(b *fleet.Bundle) { b.Finalizers = nil })
			}
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "foreign"}})
		}),
		When: func(w *looptest.World) { looptest.Remove[*fleet.GitRepo](w, ws, "repo") },
		Then: func(w *looptest.World) {
			wantBundles(w, "foreign")
			if repo(w) != nil {
				w.Errorf("want the GitRepo gone, got %+v", repo(w).ObjectMeta)
			}
		},
	})
}

// A deleted GitRepo stays until its Bundles are gone, also those that were deleted before,
// and those that the process has not heard of.
func TestGitRepoWaitsForBundles(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Given: g.given("a b", made, g.read),
		When: func(w *looptest.World) {
			looptest.Remove[*fleet.Bundle](w, ws, "repo-b")
			release := w.Server.HoldWatches(bundles)
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
				Namespace: ws, Name: "late", Labels: map[string]string{fleet.LabelRepoName: "repo"}, Finalizers: []string{fleet.FinalizerBundle},
			}})
			looptest.Remove[*fleet.GitRepo](w, ws, "repo")
			w.Pass(time.Second)
			release()
			w.Pass(10 * time.Minute)
			for _, name := range []string{"repo-a", "repo-b", "late"} {
				if bundleOf(w, name).DeletionTimestamp == nil {
					w.Errorf("want %s deleted", name)
				}
				if repo(w) == nil {
					w.Fatalf("the GitRepo is gone before %s", name)
				}
				looptest.Change(w, ws, name, func(b *fleet.Bundle) { b.Finalizers = nil })
				w.Pass(time.Second)
			}
		},
		Then: func(w *looptest.World) {
			wantBundles(w)
			if repo(w) != nil {
				w.Error("want the GitRepo gone")
			}
		},
	})
}

// A deleted GitRepo keeps its Bundles while something holds that back: the brake, or its
// protection. It has its finalizer before it has a Bundle.
func TestDeletionHeld(t *testing.T) {
	brake := func(w *looptest.World) {
		looptest.Make(w, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fleet.ConfigMapBrake}, Data: map[string]string{"suspended": "true"},
		})
	}
	protect := func(w *looptest.World) {
		changeRepo(w, func(r *fleet.GitRepo) { r.Annotations = map[string]string{fleet.AnnotationProtect: "true"} })
	}
	for name, c := range map[string]struct {
		hold, release func(w *looptest.World)
		branch        string
	}{
		"Brake":         {brake, func(w *looptest.World) { looptest.Remove[*corev1.ConfigMap](w, system, fleet.ConfigMapBrake) }, "main"},
		"Protected":     {protect, func(w *looptest.World) { changeRepo(w, func(r *fleet.GitRepo) { r.Annotations = nil }) }, "main"},
		"ProtectedOnly": {protect, func(w *looptest.World) { changeRepo(w, func(r *fleet.GitRepo) { r.Annotations = nil }) }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}),
				Given: g.given("a", func(w *looptest.World) {
					makeRepo(w, "repo", func(r *fleet.GitRepo) { r.Spec.Branch = c.branch })
				}, g.read),
				When: func(w *looptest.World) {
					c.hold(w)
					w.Pass(time.Second)
					looptest.Remove[*fleet.GitRepo](w, ws, "repo")
					w.Pass(10 * time.Minute)
					if r := repo(w); r == nil || !slices.Contains(r.Finalizers, fleet.FinalizerGitRepo) {
						t.Fatalf("want the GitRepo held, got %+v", r)
					}
					if b := bundleOf(w, "repo-a"); b != nil && b.DeletionTimestamp != nil {
						w.Error("want the Bundle kept")
					}
					c.release(w)
					w.Pass(time.Second)
					if b := bundleOf(w, "repo-a"); b != nil {
						looptest.Change(w, ws, "repo-a", func(b *fleet.Bundle) { b.Finalizers = nil })
					}
				},
				Then: func(w *looptest.World) {
					wantBundles(w)
					if repo(w) != nil {
						w.Error("want the GitRepo gone")
					}
				},
			})
		})
	}
}
