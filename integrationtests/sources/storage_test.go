package sources

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
)

const (
	writerPassword = canary + "-writer"
	readerPassword = canary + "-reader"
)

func storage(t *testing.T) (*ocitest.Server, map[string]string) {
	t.Helper()
	s := ocitest.Start(t, ocitest.Options{TLS: true, Accounts: []ocitest.Account{
		{Username: "writer", Password: writerPassword}, {Username: "reader", Password: readerPassword},
	}})
	return s, map[string]string{
		"reference": s.Host + "/fleet", "cacerts": string(s.CA()),
		"username": "writer", "password": writerPassword, "agentUsername": "reader", "agentPassword": readerPassword,
	}
}

// Two bundles with the same resources share one artifact of the registry. One is
// removed: the other goes on, and is deployed to one more cluster, whose agent
// pulls it with its own account. With the last Bundle its artifact goes.
func TestSharedArtifact(t *testing.T) {
	w := harness.Open(t)
	registry, data := storage(t)
	access := secret(t, w, "storage-of-shared", fleet.SecretTypeOCIStorage, data)
	repo := w.Repository("shared")
	for _, name := range []string{"one", "two"} {
		repo.Write(name+"/fleet.yaml", "defaultNamespace: shared-"+name+"\n")
		repo.Write(name+"/settings.yaml", harness.ConfigMapYAML("app", "the same"))
	}
	onlyDev := []fleet.GitTarget{{Name: "dev", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}}}
	commit := deploy(t, w, repo, func(s *fleet.GitRepoSpec) { s.OCIRegistrySecret, s.Targets = access.Name, onlyDev })
	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "one", harness.Data(w, w.C1, "shared-one", "app"), harness.ConfigMapData("the same"))
	harness.Eventually(w, "two", harness.Data(w, w.C1, "shared-two", "app"), harness.ConfigMapData("the same"))
	id := artifactOf(t, w, repo)
	if !registry.Has(t, "fleet/"+id, "latest") {
		t.Fatal("the registry has no such artifact")
	}
	if _, ok := harness.Get[*fleet.Content](w, w.Local, "", id); ok {
		t.Error("the content is in the management cluster, too")
	}

	repo.Remove("two")
	repo.EventuallyReady(repo.Commit("one of them goes"), 1)
	harness.Eventually(w, "it is gone", harness.Gone[*corev1.ConfigMap](w, w.C1, "shared-two", "app"), true)
	repo.Change(func(s *fleet.GitRepoSpec) {
		s.Targets = []fleet.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
	})
	harness.Eventually(w, "the other reaches one more cluster", harness.Data(w, w.C2, "shared-one", "app"), harness.ConfigMapData("the same"))
	if !registry.Has(t, "fleet/"+id, "latest") || registry.Count("DELETE", id) > 0 {
		t.Error("the artifact was deleted although a bundle needs it")
	}
	accounts(t, registry, id)
	search(t, w, canary)

	repo.Write("one/settings.yaml", harness.ConfigMapYAML("app", "another"))
	repo.EventuallyReady(repo.Commit("a new content"), 2)
	harness.Eventually(w, "the new value", harness.Data(w, w.C2, "shared-one", "app"), harness.ConfigMapData("another"))
	if !registry.Has(t, "fleet/"+id, "latest") {
		t.Error("the old artifact went at once: a deployment that was held back would miss it")
	}
	next := artifactOf(t, w, repo)
	repo.Delete()
	harness.Eventually(w, "the last artifact goes", func() bool { return registry.Has(t, "fleet/"+next, "latest") }, false)
	harness.Eventually(w, "and all copies of its Secret", func() []string {
		var left []string
		for _, s := range harness.List[*corev1.Secret](w, w.Local, "", "") {
			if s.Name == next {
				left = append(left, s.Namespace)
			}
		}
		return left
	}, nil)
}

// artifactOf is the one content that all bundles of a repository name, without
// holding it.
func artifactOf(t *testing.T, w *harness.World, repo *harness.Repository) string {
	t.Helper()
	ids := map[string]bool{}
	for _, b := range repo.Bundles() {
		ids[b.Spec.ContentsID] = true
		if len(b.Spec.Resources) > 0 {
			t.Errorf("Bundle %s holds its resources", b.Name)
		}
		for _, m := range w.Downstream() {
			if d, ok := harness.Get[*fleet.BundleDeployment](w, w.Local, w.Namespace(m), b.Name); ok && !d.Spec.OCIContents {
				t.Errorf("the deployment of %s on %s does not say where its content is", b.Name, m.Name)
			}
		}
	}
	for id := range ids {
		if len(ids) == 1 && strings.HasPrefix(id, "s-") {
			return id
		}
	}
	t.Fatalf("the bundles name %v", ids)
	return ""
}

// accounts checks who has done what: the manager wrote, agents read.
func accounts(t *testing.T, registry *ocitest.Server, id string) {
	t.Helper()
	as := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%s", user, password))
	}
	pulled := 0
	for _, q := range registry.Requests() {
		switch {
		case q.Authorization == "" || !strings.Contains(q.Path, id):
		case q.Method == "GET" && strings.Contains(q.Path, "/blobs/"):
			pulled++
			if q.Authorization != as("reader", readerPassword) {
				t.Errorf("%s %s was asked for with the rights to write", q.Method, q.Path)
			}
		case q.Method == "PUT" && q.Authorization != as("writer", writerPassword):
			t.Errorf("%s %s was not the writer", q.Method, q.Path)
		}
	}
	if pulled == 0 {
		t.Error("no agent has pulled the content")
	}
}

// A Secret named ocistorage counts for every GitRepo of its namespace; one of
// another type is an error that names it.
func TestDefaultStorage(t *testing.T) {
	w := harness.Open(t)
	registry, data := storage(t)
	secret(t, w, fleet.SecretOCIStorage, fleet.SecretTypeOCIStorage, data)
	wrong := secret(t, w, "storage-of-another-type", corev1.SecretTypeOpaque, data)
	repo := w.Repository("default-storage")
	repo.Write("app/fleet.yaml", "defaultNamespace: default-storage\n")
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	deploy(t, w, repo, func(s *fleet.GitRepoSpec) { s.OCIRegistrySecret = wrong.Name })
	w.Until("the wrong Secret is named", func() string { return harness.Missing(said(repo), wrong.Name) })
	if list := repo.Bundles(); len(list) > 0 {
		t.Errorf("%d bundles were written nevertheless", len(list))
	}

	repo.Change(func(s *fleet.GitRepoSpec) { s.OCIRegistrySecret = "" })
	harness.Eventually(w, "deployed", harness.Data(w, w.C2, "default-storage", "app"), harness.ConfigMapData("one"))
	if id := artifactOf(t, w, repo); !registry.Has(t, "fleet/"+id, "latest") {
		t.Error("the registry has no such artifact")
	}
	search(t, w, canary)
}
