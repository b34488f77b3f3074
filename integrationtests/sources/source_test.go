package sources

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// Charts come from wherever a fleet.yaml says, with one Secret for all of them:
// a Helm repository and a registry with TLS and passwords, an archive with a
// checksum, git over HTTPS and SSH, and the dependencies of a chart. Each
// cluster gets the version that is meant for it.
func TestEverySource(t *testing.T) {
	w := harness.Open(t)
	charts := webtest.Repository(t, webtest.Options{
		Charts:   append(versions("app", "1.0.0", "1.5.0", "2.0.0", "2.1.0-rc.1"), versions("part", "0.3.0", "0.4.0")...),
		Path:     "/stable",
		Username: robot, Password: canary, TLS: true,
	})
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: robot, Password: canary}}, TLS: true})
	for _, v := range []string{"1.0.0", "1.4.2+build.7", "2.0.0"} {
		registry.PushChart(t, "charts/app", v, ocitest.Chart(t, "app", v, files("app")))
	}
	remote := w.Repository("chart-source")
	remote.Write("deep/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.7.0\n")
	for name, text := range files("app") {
		remote.Write("deep/app/"+name, text)
	}
	remote.Commit("a chart in git")
	overHTTP := gittest.ServeTLS(t, remote.Root())
	overHTTP.Intercept(gittest.BasicAuth(robot, canary))
	overSSH := gittest.ServeSSH(t, remote.Root())
	access := secret(t, w, "every-source", corev1.SecretTypeOpaque, map[string]string{
		"username": robot, "password": canary,
		"cacerts":        strings.Join([]string{string(charts.CA), string(registry.CA()), string(overHTTP.PEM())}, "\n"),
		"ssh-privatekey": string(overSSH.ClientKey), "known_hosts": string(overSSH.KnownHosts),
	})

	repo := w.Repository("every")
	sum := sha256.Sum256(charts.File("/stable/archives/app-1.0.0.tgz"))
	archive := fmt.Sprintf("%s/archives/app-1.0.0.tgz?checksum=sha256:%s", charts.URL, hex.EncodeToString(sum[:]))
	bundles := map[string]struct{ helm, c1, c2 string }{
		"repository": {"repo: " + charts.URL + "\n  chart: app\n  version: '>=1.0.0 <2'", "1.5.0", "2.0.0"},
		"newest":     {"repo: " + charts.URL + "\n  chart: app", "2.0.0", "2.0.0"},
		"registry":   {"repo: oci://" + registry.Host + "/charts/app\n  version: ^1", "1.4.2+build.7", "2.0.0"},
		"archive":    {"chart: " + archive, "1.0.0", "1.0.0"},
		"git-https":  {"chart: git::" + overHTTP.URL + "/chart-source.git//deep/app?ref=main", "0.7.0", "0.7.0"},
		"git-ssh":    {"chart: git::ssh://git@" + overSSH.Addr + "/chart-source.git//deep/app", "0.7.0", "0.7.0"},
	}
	for name, b := range bundles {
		text := "defaultNamespace: every-" + name + "\nhelm:\n  releaseName: " + name + "\n  " + b.helm + "\n"
		if b.c1 != b.c2 {
			text += "targetCustomizations:\n- name: prod\n  clusterSelector: {matchLabels: {env: prod}}\n  helm: {version: 2.0.0}\n"
		}
		repo.Write(name+"/fleet.yaml", text)
	}
	repo.Write("parts/fleet.yaml", "defaultNamespace: every-parts\nhelm: {chart: whole}\n")
	repo.Write("parts/whole/Chart.yaml", "apiVersion: v2\nname: whole\nversion: 1.0.0\ndependencies:\n- name: part\n  version: ~0.3\n  repository: "+charts.URL+"\n")
	repo.Write("parts/whole/templates/whole.yaml", harness.ConfigMapYAML("whole", "as it is"))

	commit := deploy(t, w, repo, func(s *fleet.GitRepoSpec) {
		s.HelmSecretName = access.Name
		s.HelmRepoURLRegex = `(https://127\.0\.0\.1:|oci://127\.0\.0\.1:|(git::)?ssh://git@127\.0\.0\.1:)`
	})
	repo.EventuallyReady(commit, 2*(len(bundles)+1))

	for name, b := range bundles {
		harness.Eventually(w, name+" on c1", harness.Data(w, w.C1, "every-"+name, "app"), harness.ConfigMapData(b.c1))
		harness.Eventually(w, name+" on c2", harness.Data(w, w.C2, "every-"+name, "app"), harness.ConfigMapData(b.c2))
	}
	harness.Eventually(w, "the dependency", harness.Data(w, w.C1, "every-parts", "part"), harness.ConfigMapData("0.3.0"))
	harness.Eventually(w, "and what depends on it", harness.Data(w, w.C1, "every-parts", "whole"), harness.ConfigMapData("as it is"))
	if n := charts.Requests("/stable/archives/app-2.0.0.tgz"); n != 1 {
		t.Errorf("a chart that two bundles use was downloaded %d times", n)
	}
	search(t, w, canary)
}

// Credentials by path: each directory has its own, and no other credentials are
// sent.
func TestCredentialsByPath(t *testing.T) {
	w := harness.Open(t)
	one := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0"), Username: "one", Password: canary + "-one", TLS: true})
	two := webtest.Repository(t, webtest.Options{Charts: versions("app", "2.0.0"), Username: "two", Password: canary + "-two"})
	access := secret(t, w, "by-path", corev1.SecretTypeOpaque, map[string]string{"secrets-path.yaml": fmt.Sprintf(
		"teams/one:\n  username: one\n  password: %s-one\n  caBundle: %s\nteams/t*:\n  username: two\n  password: %s-two\n",
		canary, base64.StdEncoding.EncodeToString(one.CA), canary)})
	repo := w.Repository("bypath")
	for name, s := range map[string]*webtest.Server{"one": one, "two": two} {
		repo.Write("teams/"+name+"/fleet.yaml", "defaultNamespace: bypath-"+name+"\nhelm: {repo: '"+s.URL+"', chart: app}\n")
	}
	commit := deploy(t, w, repo, func(s *fleet.GitRepoSpec) {
		s.Paths = []string{"teams/*"}
		s.HelmSecretNameForPaths = access.Name
		s.HelmRepoURLRegex = `https?://127\.0\.0\.1:`
	})
	repo.EventuallyReady(commit, 4)
	harness.Eventually(w, "one", harness.Data(w, w.C1, "bypath-one", "app"), harness.ConfigMapData("1.0.0"))
	harness.Eventually(w, "two", harness.Data(w, w.C1, "bypath-two", "app"), harness.ConfigMapData("2.0.0"))
	for _, s := range []*webtest.Server{one, two} {
		for _, reported := range s.Authorizations() {
			if reported != s.Authorizations()[0] {
				t.Errorf("a server got the credentials of another")
			}
		}
	}
	search(t, w, canary)
}

// User name and password go to the URLs that the GitRepo allows: no regular
// expression, no password; and no other host learns it, named by an index or by
// a redirect.
func TestPasswordsStayAtHome(t *testing.T) {
	w := harness.Open(t)
	other := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0")})
	moved := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0")})
	home := webtest.Repository(t, webtest.Options{
		Charts:   []webtest.Chart{{Name: "app", Version: "1.0.0", Files: files("app"), URL: other.URL + "/archives/app-1.0.0.tgz"}},
		Username: robot, Password: canary,
	})
	home.Put("/moved/index.yaml", home.File("/index.yaml"))
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: robot, Password: canary}}})
	registry.PushChart(t, "app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", files("app")))
	registry.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if _, p, _ := r.BasicAuth(); p != canary || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		rw.Header().Set("WWW-Authenticate", "Bearer realm=\""+moved.URL+"/token\"")
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	})
	access := secret(t, w, "at-home", corev1.SecretTypeOpaque, map[string]string{"username": robot, "password": canary, "basicHTTP": "true"})
	repo := w.Repository("athome")
	repo.Write("app/fleet.yaml", "defaultNamespace: athome-app\nhelm: {repo: '"+home.URL+"', chart: app}\n")
	repo.Write("hijack/fleet.yaml", "defaultNamespace: athome-hijack\nhelm: {repo: 'oci://"+registry.Host+"/app', version: 1.0.0}\n")
	deploy(t, w, repo, func(s *fleet.GitRepoSpec) { s.HelmSecretName = access.Name })

	w.Until("without a regular expression nothing is sent", func() string { return harness.Missing(said(repo), home.Host) })
	if reported := home.Authorizations(); len(reported) > 0 {
		t.Errorf("the repository got the credentials %q", reported)
	}
	for _, q := range registry.Requests() {
		if q.Authorization != "" {
			t.Errorf("the registry got the credentials %q", q.Authorization)
		}
	}

	repo.Change(func(s *fleet.GitRepoSpec) { s.HelmRepoURLRegex = "http://" + home.Host + "|oci://" + registry.Host })

	harness.Eventually(w, "now it is", harness.Data(w, w.C1, "athome-app", "app"), harness.ConfigMapData("1.0.0"))
	if len(home.Authorizations()) == 0 {
		t.Error("the repository got no credentials, and answered")
	}
	w.Until("the registry that hands us on is refused", func() string { return harness.Missing(said(repo), registry.Host, moved.Host) })
	for name, s := range map[string]*webtest.Server{"that the index names": other, "that the registry names": moved} {
		if reported := s.Authorizations(); len(reported) > 0 {
			t.Errorf("the host %s got the credentials %q", name, reported)
		}
	}
	if moved.Requests("") > 0 {
		t.Error("the foreign token service was asked")
	}
	search(t, w, canary)
}

// A source that is away, or refuses the password, holds up its own bundle only;
// when it is back, or the Secret is right, the bundle is deployed without a
// commit.
func TestBrokenSourceAndItsNeighbours(t *testing.T) {
	w := harness.Open(t)
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", files("app")))
	registry.Break(http.StatusServiceUnavailable)
	closed := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0"), Username: robot, Password: canary})
	fine := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0")})
	access := secret(t, w, "neighbours", corev1.SecretTypeOpaque, map[string]string{"username": robot, "password": canary + "-wrong", "basicHTTP": "true"})
	repo := w.Repository("neighbours")
	for name, helm := range map[string]string{
		"registry": "{repo: 'oci://" + registry.Host + "/app', version: 1.0.0}",
		"closed":   "{repo: '" + closed.URL + "', chart: app}",
		"fine":     "{repo: '" + fine.URL + "', chart: app}",
	} {
		repo.Write(name+"/fleet.yaml", "defaultNamespace: neighbours-"+name+"\nhelm: "+helm+"\n")
	}
	repo.Write("plain/fleet.yaml", "defaultNamespace: neighbours-plain\n")
	repo.Write("plain/settings.yaml", harness.ConfigMapYAML("app", "plain"))
	deploy(t, w, repo, func(s *fleet.GitRepoSpec) { s.HelmSecretName, s.HelmRepoURLRegex = access.Name, "http://"+closed.Host })

	harness.Eventually(w, "a neighbour", harness.Data(w, w.C1, "neighbours-fine", "app"), harness.ConfigMapData("1.0.0"))
	harness.Eventually(w, "another", harness.Data(w, w.C2, "neighbours-plain", "app"), harness.ConfigMapData("plain"))
	w.Until("the GitRepo says what is wrong with the others", func() string { return harness.Missing(said(repo), closed.Host, "1 more") })
	if _, ok := harness.Get[*fleet.Bundle](w, w.Local, repo.Workspace, "neighbours-closed"); ok {
		t.Error("there is a Bundle of a chart that does not exist")
	}
	search(t, w, canary)

	harness.Change(w, w.Local, access, func(s *corev1.Secret) { s.Data["password"] = []byte(canary) })
	harness.Eventually(w, "the right password is noticed", harness.Data(w, w.C1, "neighbours-closed", "app"), harness.ConfigMapData("1.0.0"))
	w.Until("and now what is wrong with the last", func() string { return harness.Missing(said(repo), registry.Host, "503") })
	registry.Intercept(nil)
	harness.Eventually(w, "the registry is back", harness.Data(w, w.C1, "neighbours-registry", "app"), harness.ConfigMapData("1.0.0"))
	repo.EventuallyReady(repo.GitRepo().Status.Commit, 8)
}

// A checksum that is not that of the archive deploys nothing.
func TestWrongChecksum(t *testing.T) {
	w := harness.Open(t)
	charts := webtest.Repository(t, webtest.Options{Charts: versions("app", "1.0.0")})
	repo := w.Repository("checksum")
	repo.Write("app/fleet.yaml", "defaultNamespace: checksum\nhelm: {chart: '"+charts.URL+"/archives/app-1.0.0.tgz?checksum=sha256:"+strings.Repeat("0", 64)+"'}\n")
	deploy(t, w, repo, func(s *fleet.GitRepoSpec) {
		s.Targets = []fleet.GitTarget{{Name: "c1", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}}}
	})
	w.Until("the GitRepo says so, with file and line", func() string { return harness.Missing(said(repo), "app/fleet.yaml:2", "is not what was expected") })
	if list := repo.Bundles(); len(list) > 0 {
		t.Errorf("%d bundles were made of it", len(list))
	}
}
