// Package sources tests charts and contents that are not in git: Helm
// repositories, OCI registries, archives, other git repositories, each as a real
// server on loopback, read by the real programs and deployed by real agents.
package sources

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// All tests share one fleet, which starts with the first of them.
func TestMain(m *testing.M) {
	harness.ScanImages()
	harness.ServeMetrics()
	os.Exit(harness.MainInMemory(m))
}

const (
	robot  = "robot"
	canary = "canary-3b9d" // the password of everything
)

// files are those of a chart that says its version in a ConfigMap.
func files(name string) map[string]string {
	return map[string]string{"templates/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name +
		"\ndata:\n  value: {{ .Chart.Version | quote }}\n"}
}

// versions are charts of one name.
func versions(name string, list ...string) []webtest.Chart {
	var charts []webtest.Chart
	for _, v := range list {
		charts = append(charts, webtest.Chart{Name: name, Version: v, Files: files(name)})
	}
	return charts
}

// secret makes a Secret beside the GitRepos, which is gone after the test.
func secret(t *testing.T, w *harness.World, name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
	t.Helper()
	s := harness.Create(w, w.Local, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name}, Type: kind, StringData: data,
	})
	t.Cleanup(func() { harness.Delete(w, w.Local, s) })
	return s
}

// search fails the test if a password is anywhere but in the Secrets that hold
// it by right: those beside the GitRepos, and copies that agents pull with.
func search(t *testing.T, w *harness.World, passwords ...string) {
	t.Helper()
	for _, m := range w.Members() {
		all := w.Everything(m)
		for _, s := range harness.List[*corev1.Secret](w, m, "", "") {
			if own(w, m, s) {
				continue
			}
			for key, data := range s.Data {
				all["secret "+kube.KeyOf(s).String()+" "+key] = data
			}
		}
		for name, text := range all {
			for _, p := range passwords {
				if harness.HoldsSecret(text, p) {
					t.Errorf("%s on %s holds a password", name, m.Name)
				}
			}
		}
	}
	for path, text := range w.Logs() {
		for _, p := range passwords {
			if harness.HoldsSecret(text, p) {
				t.Errorf("log %s holds a password", path)
			}
		}
	}
}

func own(w *harness.World, m *harness.Member, s *corev1.Secret) bool {
	return m == w.Local && (s.Namespace == fleet.NamespaceDefault || s.Type == fleet.SecretTypeOCIStorage || s.Type == fleet.SecretTypeHelmOpsAccess)
}

// deploy commits and makes the GitRepo. What it says is logged if the test
// fails.
func deploy(t *testing.T, w *harness.World, repo *harness.Repository, change func(*fleet.GitRepoSpec)) (commit string) {
	t.Helper()
	commit = repo.Commit("the test begins")
	repo.Deploy(change)
	t.Cleanup(func() {
		if _, ok := harness.Get[*fleet.GitRepo](w, w.Local, repo.Workspace, repo.Name); !ok || !t.Failed() {
			return
		}
		for _, c := range repo.GitRepo().Status.Conditions {
			t.Logf("GitRepo %s: %s=%s %s %s", repo.Name, c.Type, c.Status, c.Reason, c.Message)
		}
		for _, b := range repo.Bundles() {
			for _, c := range b.Status.Conditions {
				t.Logf("Bundle %s: %s=%s %s %s", b.Name, c.Type, c.Status, c.Reason, c.Message)
			}
		}
	})
	return commit
}

// said returns the GitRepo's message about a source that it cannot read.
func said(repo *harness.Repository) string {
	return repo.Message(fleet.ConditionReady, corev1.ConditionFalse)
}
