package gitrepo_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// marked is a bundle with two values that follow image scans.
func marked() map[string]string {
	scans := "imageScans:\n- image: nginx\n  tagName: web\n  interval: 5m\n- image: redis\n  tagName: db\n  interval: 5m\n"
	values := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  web: \"nginx:1\"  # {\"$imagescan\": \"web\"}\n  db:  redis:1 # {\"$imagescan\": \"db\"}\n"
	return map[string]string{"web/fleet.yaml": scans, "web/cm.yaml": values}
}

// find writes into the ImageScans of a GitRepo what a scanner would have found.
func (s *fixture) find(tag string) {
	s.t.Helper()
	for name, image := range map[string]string{"imagescan-repo-web-0": "docker.io/nginx:", "imagescan-repo-web-1": "docker.io/redis:"} {
		s.until("ImageScan "+name, func() bool { _, ok := get[*fleet.ImageScan](s.world, s.ns, name); return ok })
		s.until("the status of "+name, func() bool {
			scan, _ := get[*fleet.ImageScan](s.world, s.ns, name)
			found := scan.DeepCopy()
			found.Status.LatestImage, found.Status.LatestTag = image+tag, tag
			_, err := kube.StoreOf[*fleet.ImageScan](s.admin).PatchStatus(s.t.Context(), scan, found)
			return err == nil
		})
	}
}

// images: two scans are one commit, over HTTPS and over SSH, also where another client pushes
// first, and the commit is read like any other. A repository that refuses commits, beside a
// healthy one, says so.
func images(s *fixture) {
	s.git.Git("config", "http.receivepack", "true")
	s.git.Git("config", "receive.denyCurrentBranch", "ignore")
	s.git.Commit("first", marked())
	root := filepath.Dir(s.git.Dir)
	web, sshd := gittest.ServeTLS(s.t, root), gittest.ServeSSH(s.t, root)
	web.Intercept(gittest.BasicAuth("ana", "canary"))
	create(s.world, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "web"}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{"username": "ana", "password": "canary"},
	})
	create(s.world, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "ssh"}, Type: corev1.SecretTypeSSHAuth,
		Data: map[string][]byte{"ssh-privatekey": sshd.ClientKey, "known_hosts": sshd.KnownHosts},
	})
	s.follow(func(spec *fleet.GitRepoSpec) {
		spec.Repo, spec.CABundle, spec.ClientSecretName, spec.Paths = web.URL+"/repo", web.PEM(), "web", []string{"web"}
		spec.ImageScanInterval = &metav1.Duration{Duration: time.Second}
	})
	s.find("2")
	s.says("ImageSynced", "False", "CommitSettingsMissing", "")
	change(s.world, s.repo, func(r *fleet.GitRepo) {
		r.Spec.ImageScanCommit = &fleet.CommitSpec{AuthorName: "Robot", AuthorEmail: "robot@example.invalid", MessageTemplate: "{{.Total}} images"}
	})
	s.committed("2", "2 images")

	// Another client is faster, once.
	var once sync.Once
	web.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			once.Do(func() {
				s.git.Git("reset", "--quiet", "--hard", "main")
				s.git.Commit("theirs", map[string]string{"web/README.md": "theirs"})
			})
		}
		return gittest.BasicAuth("ana", "canary")(w, r)
	})
	s.find("3")
	s.committed("3", "2 images")
	if text := s.git.Git("show", "main:web/README.md"); text != "theirs" {
		s.t.Errorf("the other commit was lost: %q", text)
	}

	// Over SSH, with a hook that refuses at first.
	change(s.world, s.repo, func(r *fleet.GitRepo) {
		r.Spec.Repo, r.Spec.CABundle, r.Spec.ClientSecretName = "ssh://anybody@"+sshd.Addr+"/repo", nil, "ssh"
	})
	sshd.Refuse("this key is read only")
	s.find("4")
	s.says("ImageSynced", "False", "PushRefused", "")
	sshd.Refuse("")
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.ImageScanCommit.MessageTemplate = "over SSH" })
	s.committed("4", "over SSH")

	// Entries that leave fleet.yaml leave nothing behind.
	s.git.Git("reset", "--quiet", "--hard", "main")
	s.read(s.git.Commit("no scans", map[string]string{"web/fleet.yaml": "labels: {a: b}\n"}))
	s.until("the ImageScans are gone", func() bool {
		_, first := get[*fleet.ImageScan](s.world, s.ns, "imagescan-repo-web-0")
		_, second := get[*fleet.ImageScan](s.world, s.ns, "imagescan-repo-web-1")
		return !first && !second
	})
}

// committed waits for one commit with both images of a tag, and until it was read.
func (s *fixture) committed(tag, message string) {
	s.t.Helper()
	want := "data:\n  web: \"docker.io/nginx:" + tag + "\"  # {\"$imagescan\": \"web\"}\n  db:  docker.io/redis:" + tag + " # {\"$imagescan\": \"db\"}"
	s.until("the images are committed", func() bool { return strings.HasSuffix(s.git.Git("show", "main:web/cm.yaml"), want) })
	if log := s.git.Git("log", "-1", "--format=%an %s", "main"); log != "Robot "+message {
		s.t.Errorf("the commit says %q", log)
	}
	if changed := s.git.Git("diff", "--name-only", "main^", "main"); changed != "web/cm.yaml" {
		s.t.Errorf("the commit changes %q", changed)
	}
	s.read(s.git.Git("rev-parse", "main"))
	s.says("ImageSynced", "True", "", "")
	if at := s.status().LastSyncedImageScanTime; at.IsZero() {
		s.t.Error("want the time of the commit")
	}
}

// uncommitted is a repository that cannot be committed to, beside the others: it is read and
// says what is wrong.
func uncommitted(s *fixture) {
	first := s.git.Commit("first", marked())
	s.follow(func(spec *fleet.GitRepoSpec) {
		spec.Paths, spec.ImageScanCommit = []string{"web"}, &fleet.CommitSpec{}
	})
	s.read(first)
	s.find("2")
	s.says("ImageSynced", "False", "NoWriteCredentials", "requires git secret for write access: set spec.clientSecretName")
	s.says("Stalled", "False", "", "")
	create(s.world, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: fleet.SecretGitCredential}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{"username": "ana", "password": "canary"},
	})
	s.says("ImageSynced", "False", "PushRefused", "") // http.receivepack is off
	if at := s.git.Git("rev-parse", "main"); at != first {
		s.t.Errorf("the branch has moved to %s", at)
	}
}

// TestImages runs the tests of images with the loop that commits.
func TestImages(t *testing.T) {
	w := newWorld(t)
	for name, report := range map[string]func(*fixture){"Images": images, "Uncommitted": uncommitted} {
		t.Run(name, func(t *testing.T) { report(w.fixture(t)) })
	}
}
