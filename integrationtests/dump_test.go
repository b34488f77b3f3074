package integrationtests

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// fleet dump writes an archive of a running fleet: its objects are in it, data of Secrets is
// not.
func TestDump(t *testing.T) {
	const canary = "canary-41c7"
	w := harness.Open(t)
	secret := harness.Create(w, w.Local, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "dumped"}, StringData: map[string]string{"username": "robot", "password": canary},
	})
	t.Cleanup(func() { harness.Delete(w, w.Local, secret) })
	repo := w.Repository("dumped")
	repo.Write("app/app.yaml", harness.ConfigMapYAML("dumped", "one"))
	commit := repo.Commit("the test begins")
	repo.Deploy(func(s *fleet.GitRepoSpec) { s.HelmSecretName = secret.Name })
	repo.EventuallyReady(commit, 2)

	path := filepath.Join(t.TempDir(), "fleet.tgz")
	w.CLI("dump", "-p", path, "-A", "--with-content", "--with-secrets-metadata")
	files := unpack(t, path)
	for _, name := range []string{
		"manifest", "gitrepos_fleet-default_dumped", "bundles_fleet-default_dumped", "clusters_fleet-default_c1", "clusters_fleet-local_local",
		"secrets_fleet-default_dumped", "events_fleet-default",
	} {
		if files[name] == "" {
			t.Errorf("no file %s", name)
		}
	}
	if !strings.Contains(files["gitrepos_fleet-default_dumped"], "commit: "+commit) {
		t.Errorf("the GitRepo has no status:\n%s", files["gitrepos_fleet-default_dumped"])
	}
	for name, text := range files {
		if harness.HoldsSecret([]byte(text), canary) {
			t.Errorf("%s holds the password", name)
		}
		if strings.HasPrefix(name, "errors_") && !strings.HasPrefix(name, "errors_metrics_") && !strings.HasPrefix(name, "errors_logs_") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// unpack reads a tar.gz.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}
