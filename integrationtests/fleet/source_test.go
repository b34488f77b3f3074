package fleet

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

// A manifest that cannot be read keeps its bundle at the last version that
// could, lets the others go on, and shows its file and line on the GitRepo.
func TestBrokenManifest(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("broken")
	for _, dir := range []string{"good", "bad"} {
		repo.Write(dir+"/fleet.yaml", harness.FleetYAML("broken"))
		repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML(dir, "one"))
	}
	repo.DeployReady("all is well", 4)

	repo.Write("good/settings.yaml", harness.ConfigMapYAML("good", "two"))
	repo.Write("bad/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: bad\n")
	repo.Commit("a tab where spaces indent")

	harness.Eventually(w, "the good one goes on", harness.Data(w, w.C1, "broken", "good"), harness.ConfigMapData("two"))
	w.Until("the GitRepo shows file and line", func() string {
		return harness.Missing(repo.Message(fleet.ConditionStalled, corev1.ConditionTrue), "bad/settings.yaml:4")
	})
	w.Until("and is not Ready for the same reason", func() string {
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), "bad/settings.yaml:4")
	})
	harness.Throughout(w, watchFor, "the bad one stays", harness.Data(w, w.C1, "broken", "bad"), harness.ConfigMapData("one"))

	repo.Write("bad/settings.yaml", harness.ConfigMapYAML("bad", "three"))
	repo.EventuallyReady(repo.Commit("mended"), 4)
	harness.Eventually(w, "the mended one", harness.Data(w, w.C1, "broken", "bad"), harness.ConfigMapData("three"))
}

// A manifest that the cluster's API server refuses fails on its own: the
// GitRepo names bundle and cause, the other bundles are Ready.
func TestRefusedManifest(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("refused")
	repo.Write("good/fleet.yaml", harness.FleetYAML("refused"))
	repo.Write("good/settings.yaml", harness.ConfigMapYAML("good", "one"))
	repo.Write("bad/fleet.yaml", harness.FleetYAML("refused"))
	repo.Write("bad/settings.yaml", harness.ConfigMapYAML("Not_A_Name", "one"))
	commit := repo.Commit("a name that Kubernetes does not allow")

	repo.Deploy()

	harness.Eventually(w, "two of four", repo.State, harness.State{Commit: commit, Counts: "2/4"})
	w.Until("the GitRepo says why", func() string {
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), "not installed: ", "Not_A_Name")
	})
	w.Until("the GitRepo names the bundle", func() string {
		var names []string
		for _, r := range repo.GitRepo().Status.Summary.NonReadyResources {
			names = append(names, r.Name)
		}
		return harness.Missing(strings.Join(names, " "), "refused-bad")
	})

	repo.Write("bad/settings.yaml", harness.ConfigMapYAML("a-name", "one"))
	repo.EventuallyReady(repo.Commit("mended"), 4)
}

// A repository that cannot be reached keeps what is deployed, and the GitRepo
// says so until it can be reached again.
func TestUnreachableRepository(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("unreachable")
	repo.Write("app/fleet.yaml", harness.FleetYAML("unreachable"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	commit := repo.DeployReady("one", 2)
	before := look(w, repo, w.C1, "unreachable-app", "app")

	repo.Unreachable()

	w.Until("the GitRepo says so", func() string {
		host := strings.TrimPrefix(repo.URL(), "http://")
		host, _, _ = strings.Cut(host, "/")
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), host)
	})
	harness.Throughout(w, watchFor, "what is deployed stays", func() trace { return look(w, repo, w.C1, "unreachable-app", "app") }, before)

	repo.Reachable()

	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "still untouched", func() trace { return look(w, repo, w.C1, "unreachable-app", "app") }, before)
}

// A GitRepo whose repository, branch or path does not exist, or that matches
// no cluster, is never Ready and says what is wrong.
func TestNeverReady(t *testing.T) {
	w := harness.Open(t)
	cases := map[string]struct {
		why    string
		change func(*fleet.GitRepoSpec)
		says   []string
	}{
		"repository": {
			why:    "the server has no such repository",
			change: func(s *fleet.GitRepoSpec) { s.Repo = strings.Replace(s.Repo, ".git", "-other.git", 1) },
			says:   []string{"-other.git"},
		},
		"branch": {
			why:    "the message names the branch that there is",
			change: func(s *fleet.GitRepoSpec) { s.Branch = "maim" },
			says:   []string{`"maim"`, "main"},
		},
		"path": {
			why:    "the message names the path",
			change: func(s *fleet.GitRepoSpec) { s.Paths = []string{"nowhere"} },
			says:   []string{"nowhere"},
		},
		"cluster": {
			why: "the message names the first rule and what it asks for",
			change: func(s *fleet.GitRepoSpec) {
				s.Targets = []fleet.GitTarget{{Name: "moon", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"place": "moon"}}}}
			},
			says: []string{`"moon"`, "place=moon"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := w.For(t)
			repo := w.Repository("never-" + name)
			repo.Write("app/fleet.yaml", harness.FleetYAML("never-"+name))
			repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
			repo.Commit("one")
			repo.Deploy(c.change)
			w.Until(c.why, func() string {
				return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), c.says...)
			})
			harness.Throughout(w, watchFor, c.why, func() bool { return repo.State().Ready }, false)
		})
	}
}

// A private repository over HTTPS is read with user and password from a
// Secret, and trusted by the CA that the GitRepo names.
func TestPrivateRepositoryOverHTTPS(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("https")
	repo.Write("app/fleet.yaml", harness.FleetYAML("https"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	commit := repo.Commit("one")
	server := gittest.ServeTLS(t, repo.Root())
	ask := gittest.BasicAuth("robot", "secret-of-https")
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool { return ask(rw, r) })
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "https-credential"},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{"username": []byte("robot"), "password": []byte("wrong")},
	}
	secret = harness.Create(w, w.Local, secret)
	t.Cleanup(func() { harness.Delete(w, w.Local, secret) })

	repo.Deploy(func(s *fleet.GitRepoSpec) {
		s.Repo = server.URL + "/https.git"
		s.ClientSecretName = secret.Name
		s.CABundle = server.PEM()
	})

	w.Until("a wrong password is refused", func() string {
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), "refuses the credentials")
	})
	harness.Change(w, w.Local, secret, func(s *corev1.Secret) { s.Data["password"] = []byte("secret-of-https") })
	repo.EventuallyReady(commit, 2)
}

// A private repository over SSH is read with a key and known hosts from a
// Secret; a server whose key is not among the known hosts is not trusted.
func TestPrivateRepositoryOverSSH(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("ssh")
	repo.Write("app/fleet.yaml", harness.FleetYAML("ssh"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	commit := repo.Commit("one")
	server := gittest.ServeSSH(t, repo.Root())
	other := gittest.ServeSSH(t, repo.Root())
	foreign := strings.Replace(string(other.KnownHosts), other.Addr[strings.LastIndex(other.Addr, ":"):], server.Addr[strings.LastIndex(server.Addr, ":"):], 1)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "ssh-credential"},
		Type:       corev1.SecretTypeSSHAuth,
		Data:       map[string][]byte{"ssh-privatekey": server.ClientKey, "known_hosts": []byte(foreign)},
	}
	secret = harness.Create(w, w.Local, secret)
	t.Cleanup(func() { harness.Delete(w, w.Local, secret) })

	repo.Deploy(func(s *fleet.GitRepoSpec) {
		s.Repo = "ssh://git@" + server.Addr + "/ssh.git"
		s.ClientSecretName = secret.Name
	})

	w.Until("an unknown server is not trusted", func() string {
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), "host key")
	})
	harness.Change(w, w.Local, secret, func(s *corev1.Secret) { s.Data["known_hosts"] = server.KnownHosts })
	repo.EventuallyReady(commit, 2)
}

// A changed GitRepo is read at once: forcing it does not wait for the next
// poll.
func TestForcedSync(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("forced")
	repo.Write("app/fleet.yaml", harness.FleetYAML("forced"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.DeployReady("one", 2, func(s *fleet.GitRepoSpec) { s.PollingInterval = &metav1.Duration{Duration: time.Hour} })

	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	commit := repo.Commit("two")
	repo.Change(func(s *fleet.GitRepoSpec) { s.ForceSyncGeneration++ })

	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "the new value", harness.Data(w, w.C1, "forced", "app"), harness.ConfigMapData("two"))
}
