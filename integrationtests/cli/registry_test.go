package cli_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
)

// storage runs a registry, and puts a Secret that leads to it into the
// workspace.
func (s *fixture) storage(name string) *ocitest.Server {
	s.t.Helper()
	registry := ocitest.Start(s.t, ocitest.Options{TLS: true, Accounts: []ocitest.Account{
		{Username: "writer", Password: "correct-horse"}, {Username: "reader", Password: "battery-staple"},
	}})
	_, err := kube.StoreOf[*corev1.Secret](s.admin).Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, Type: fleet.SecretTypeOCIStorage,
		Data: map[string][]byte{
			"reference": []byte(registry.Host + "/fleet"), "cacerts": registry.CA(), "username": []byte("writer"), "password": []byte("correct-horse"),
			"agentUsername": []byte("reader"), "agentPassword": []byte("battery-staple"),
		},
	})
	s.must(err)
	return registry
}

// What a bundle deploys goes into a registry, by who may write there, and comes
// from there to a cluster without a manager, by who may only read.
func applyRegistry(s *fixture) {
	registry := s.storage("store")
	s.put("app/cm.yaml", manifest("kept"))
	s.put("app/fleet.yaml", "defaultNamespace: "+s.ns+"-kept\ntargets: [{clusterSelector: {}}]\n")
	args := []string{"apply", "-n", s.ns, "--commit", "c1", "--oci-registry-secret", "store", "x", "app"}
	if got := s.ok(args...); got != "1 bundle written, 0 removed, 0 unchanged\n" {
		s.t.Errorf("got %q", got)
	}
	b, err := kube.StoreOf[*fleet.Bundle](s.admin).Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "x-app"})
	s.must(err)
	id := b.Spec.ContentsID
	if id == "" || len(b.Spec.Resources) > 0 || !registry.Has(s.t, "fleet/"+id, "latest") {
		s.t.Fatalf("the content has to be in the registry and nowhere else: %+v", b.Spec)
	}
	if all := strings.Join(s.versions(s.ns), "\n"); !strings.Contains(all, "Secret "+s.ns+"/"+id) || strings.Contains(all, "Content /"+id) {
		s.t.Errorf("want the Secret that leads to the content, and no Content:\n%s", all)
	}
	before := s.versions(s.ns)
	if got := s.ok(args...); got != "0 bundles written, 0 removed, 1 unchanged\n" {
		s.t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(before, s.versions(s.ns)); diff != "" {
		s.t.Errorf("nothing has changed, but it was written:\n%s", diff)
	}

	s.addCluster("c2", "prod")
	s.put("bundle.yaml", s.ok("get", "bundle", "x-app", "-n", s.ns, "-o", "yaml"))
	s.fails(4, "it has no resources", "apply", "-n", s.ns, "-f", "bundle.yaml")
	shown := s.ok("target", "-b", "bundle.yaml")
	if strings.Contains(shown, base64.StdEncoding.EncodeToString([]byte("correct-horse"))) {
		s.t.Error("what may write to the registry is not for clusters")
	}
	s.put("deployments.yaml", shown)
	asked := len(registry.Requests())
	s.ok("deploy", "-i", "deployments.yaml")
	live, err := kube.StoreOf[*corev1.ConfigMap](s.admin).Get(s.t.Context(), kube.Key{Namespace: s.ns + "-kept", Name: "kept"})
	if err != nil || live.Data["k"] != "v" {
		s.t.Errorf("it was not deployed: %v", err)
	}
	reader := "Basic " + base64.StdEncoding.EncodeToString([]byte("reader:battery-staple"))
	for _, q := range registry.Requests()[asked:] {
		if q.Method != http.MethodGet && q.Method != http.MethodHead || q.Authorization != "" && q.Authorization != reader {
			s.t.Errorf("%s %s was not for a reader", q.Method, q.Path)
		}
	}
}

// If a registry refuses or is away, no Bundle is written whose content no agent
// could fetch. Where registries are switched off, Bundles hold their files.
func applyRegistryAway(s *fixture) {
	registry := s.storage(fleet.SecretOCIStorage)
	s.put("app/cm.yaml", manifest("app"))
	args := []string{"apply", "-n", s.ns, "--commit", "c1", "x", "app"}
	before := s.versions(s.ns)
	registry.Break(http.StatusServiceUnavailable)
	s.fails(1, registry.Host, args...)
	registry.Intercept(nil)
	s.fails(1, `"missing"`, append(args, "--oci-registry-secret", "missing")...)
	if diff := cmp.Diff(before, s.versions(s.ns)); diff != "" {
		s.t.Errorf("it failed, but something was written:\n%s", diff)
	}
	s.env = []string{"OCI_STORAGE=false"}
	s.ok(args...)
	b, err := kube.StoreOf[*fleet.Bundle](s.admin).Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "x-app"})
	s.must(err)
	if len(b.Spec.Resources) != 1 || b.Spec.ContentsID != "" {
		s.t.Errorf("got %+v", b.Spec)
	}
	s.env = nil
	if got := s.ok(args...); got != "1 bundle written, 0 removed, 0 unchanged\n" {
		s.t.Errorf("the Secret %q counts without a flag, got %q", fleet.SecretOCIStorage, got)
	}
}

// A kustomization of a deployment reaches nothing outside of its bundle: no
// request is sent and no git is run, also where a chart's output configures it.
func deployReachesNothing(s *fixture) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	ran := filepath.Join(s.dir, "ran")
	s.put("bin/git", "#!/bin/sh\n: > "+ran+"\nexit 1\n")
	s.must(os.Chmod(filepath.Join(s.dir, "bin/git"), 0o755)) //nolint:gosec // it stands in for git
	s.env = []string{"PATH=" + filepath.Join(s.dir, "bin")}
	s.addCluster("c2", "prod")
	s.put("app/fleet.yaml", "defaultNamespace: "+s.ns+"-app\ntargets: [{clusterSelector: {}}]\n")
	s.put("app/cm.yaml", manifest("app"))
	for _, kustomization := range []string{
		"resources: [cm.yaml, '" + server.URL + "/a.yaml']\n",
		"resources: [cm.yaml, 'git::" + server.URL + "/a/b']\n",
		"resources: [cm.yaml]\ntransformers: [fleet-manifests.yaml]\n",
	} {
		s.put("app/kustomization.yaml", kustomization)
		if strings.Contains(kustomization, "transformers") {
			s.put("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n")
			s.put("app/templates/t.yaml", "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\ntarget: {kind: ConfigMap}\npath: "+server.URL+"\n")
		}
		s.ok("apply", "-o", "app.yaml", "-n", s.ns, "--commit", "c1", "x", "app")
		s.put("deployments.yaml", s.ok("target", "-b", "app.yaml"))
		s.fails(4, "put it into the repository", "deploy", "-i", "deployments.yaml")
	}
	if _, err := os.Stat(ran); err == nil || asked.Load() > 0 {
		s.t.Errorf("%d requests were sent, git: %v", asked.Load(), err)
	}
	if list := s.versions(s.ns + "-app"); strings.Contains(strings.Join(list, " "), s.ns+"-app/") {
		s.t.Errorf("something was deployed: %v", list)
	}
}
