package gitrepo_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

// gitPage is the page whose examples are tried.
const gitPage = "../../docs/git.md"

// gitCase is an example of the page: its name, and the objects.
var gitCase = regexp.MustCompile("(?s)\n```yaml case=([a-z]+)\n(.*?)```")

// Each example of docs/git.md reads a repository, on a server that asks for
// what the example brings. Only addresses, keys and certificates are replaced.
func documented(s *fixture) {
	data, err := os.ReadFile(gitPage)
	if err != nil {
		s.t.Fatal(err)
	}
	found := gitCase.FindAllStringSubmatch(string(data), -1)
	if len(found) < 6 {
		s.t.Fatalf("docs/git.md has %d examples", len(found))
	}
	commit := s.git.Commit("first", map[string]string{"web/cm.yaml": manifest("one")})
	for _, c := range found {
		s.t.Run(c[1], func(t *testing.T) {
			inner := s.fixture(t)
			inner.git, inner.server = s.git, s.server
			inner.example(c[1], c[2])
			inner.read(commit)
			inner.says("GitPolling", "True", "", "")
			if len(inner.bundles()) == 0 {
				t.Error("no Bundle was made")
			}
		})
	}
}

// example applies the objects of an example, and serves the repository as it
// says.
func (s *fixture) example(name, text string) {
	s.t.Helper()
	root := filepath.Dir(s.git.Dir)
	server := gittest.ServeTLS(s.t, root)
	shell := gittest.ServeSSH(s.t, root)
	real := map[string]string{
		"username": "robot", "password": "s3cret", "ssh-privatekey": string(shell.ClientKey), "known_hosts": string(shell.KnownHosts),
	}
	for _, doc := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			s.t.Fatal(err)
		}
		if kind.Kind == "Secret" {
			var secret corev1.Secret
			strict(s.t, doc, &secret)
			for key, value := range secret.StringData {
				switch {
				case real[key] == "":
					s.t.Fatalf("%s: key %q of the Secret", name, key)
				case name == "token":
					server.Intercept(gittest.BasicAuth(value, ""))
				default:
					secret.StringData[key] = real[key]
				}
			}
			if name == "password" || name == "ca" {
				server.Intercept(gittest.BasicAuth(real["username"], real["password"]))
			}
			secret.Namespace = s.ns
			create(s.world, &secret)
			continue
		}
		var repo fleet.GitRepo
		strict(s.t, doc, &repo)
		repo.Namespace = s.ns
		repo.Spec.PollingInterval = &metav1.Duration{Duration: time.Second}
		switch {
		case strings.HasPrefix(repo.Spec.Repo, "ssh://git@git.example.com/"):
			repo.Spec.Repo = "ssh://git@" + shell.Addr + "/repo"
		case repo.Spec.Repo != "https://git.example.com/org/apps":
			s.t.Fatalf("%s: repository %q", name, repo.Spec.Repo)
		default:
			if name == "ca" && !strings.HasPrefix(string(repo.Spec.CABundle), "-----BEGIN CERTIFICATE-----") {
				s.t.Errorf("caBundle is %q, want the base64 of PEM", repo.Spec.CABundle)
			}
			repo.Spec.Repo, repo.Spec.CABundle = server.URL+"/repo", server.PEM()
		}
		s.repo = create(s.world, &repo)
	}
}

func strict(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
