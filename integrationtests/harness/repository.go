package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Repository is a test's own git repository, served by a server of its own,
// and the GitRepo that is made from it by Deploy.
type Repository struct {
	// Name is that of the test, of the GitRepo, and the first word of every
	// namespace that the test uses in downstream clusters.
	Name string
	// Workspace is where the GitRepo is; fleet-default unless changed before
	// Deploy.
	Workspace string

	w      *World
	server *gitserver.Server
	tree   string // working copy
	bare   string
}

// Repository makes an empty repository with the branch main.
func (w *World) Repository(name string) *Repository {
	w.t.Helper()
	dir := w.t.TempDir()
	server, err := gitserver.Start(gitserver.Config{Dir: filepath.Join(dir, "served")})
	w.must(err)
	w.t.Cleanup(server.Close)
	w.must(server.Create(name))
	r := &Repository{
		Name: name, Workspace: fleet.NamespaceDefault,
		w: w, server: server, tree: filepath.Join(dir, "tree"), bare: server.Path(name),
	}
	w.must(gitserver.Clone(server.Path(name), r.tree))
	r.git("checkout", "--quiet", "-B", gitserver.Branch)
	return r
}

// Uncompressed lets git keep and send contents as they are: to compress what does not
// compress costs much time.
func (r *Repository) Uncompressed() {
	r.w.t.Helper()
	for _, dir := range []string{r.tree, r.bare} {
		_, err := gitserver.Git(dir, "config", "core.compression", "0")
		r.w.must(err)
	}
}

// URL is where the repository is served over HTTP.
func (r *Repository) URL() string { return r.server.URL(r.Name) }

// Root is the folder that holds the bare repository as Name.git, for servers
// of other kinds.
func (r *Repository) Root() string { return filepath.Dir(r.bare) }

// Write puts a file into the working copy.
func (r *Repository) Write(path, content string) {
	r.w.t.Helper()
	full := filepath.Join(r.tree, filepath.FromSlash(path))
	r.w.must(os.MkdirAll(filepath.Dir(full), 0o755))
	r.w.must(os.WriteFile(full, []byte(content), 0o644))
}

// Remove removes a file or a folder from the working copy.
func (r *Repository) Remove(path string) {
	r.w.t.Helper()
	r.w.must(os.RemoveAll(filepath.Join(r.tree, filepath.FromSlash(path))))
}

// Commit commits the working copy, pushes it and returns the commit.
func (r *Repository) Commit(message string) string {
	r.w.t.Helper()
	commit := r.Hold(message)
	r.Push()
	return commit
}

// Hold commits the working copy and returns the commit, which no reader of the
// repository sees before Push.
func (r *Repository) Hold(message string) string {
	r.w.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", message)
	return r.git("rev-parse", "HEAD")
}

// Push pushes what was committed.
func (r *Repository) Push() {
	r.w.t.Helper()
	r.git("push", "--quiet", "origin", gitserver.Branch)
}

func (r *Repository) git(args ...string) string {
	r.w.t.Helper()
	out, err := gitserver.Git(r.tree, args...)
	r.w.must(err)
	return out
}

// Unreachable makes the server refuse connections, until Reachable.
func (r *Repository) Unreachable() { r.server.Close() }

// Reachable undoes Unreachable.
func (r *Repository) Reachable() {
	r.w.t.Helper()
	r.w.must(r.server.Open())
}

// Deploy makes the GitRepo: all of the repository, polled each second, to all
// clusters of the workspace. The changes are made to its spec before.
//
// After the test the GitRepo is deleted, and the test fails if it or
// something of it stays.
func (r *Repository) Deploy(changes ...func(*fleet.GitRepoSpec)) {
	r.w.t.Helper()
	repo := &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Workspace, Name: r.Name},
		Spec: fleet.GitRepoSpec{
			Repo:            r.URL(),
			Branch:          gitserver.Branch,
			PollingInterval: &metav1.Duration{Duration: time.Second},
			Targets:         []fleet.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}},
		},
	}
	for _, change := range changes {
		change(&repo.Spec)
	}
	r.w.t.Cleanup(r.withdraw)
	Create(r.w, r.w.Local, repo)
}

// DeployReady commits the working copy, makes the GitRepo and returns the
// commit when so many deployments of it are Ready.
func (r *Repository) DeployReady(message string, deployments int, changes ...func(*fleet.GitRepoSpec)) string {
	r.w.t.Helper()
	commit := r.Commit(message)
	r.Deploy(changes...)
	r.EventuallyReady(commit, deployments)
	return commit
}

// Delete deletes the GitRepo and returns when it, its bundles and their
// deployments are gone.
func (r *Repository) Delete() {
	r.w.t.Helper()
	w := r.w
	w.must(kube.StoreOf[*fleet.GitRepo](w.Local.Client).Delete(w.ctx(), r.key(), kube.Precondition{}))
	w.Until("GitRepo "+r.Name+" is gone with all it made", func() string {
		var left []string
		if _, ok := Get[*fleet.GitRepo](w, w.Local, r.Workspace, r.Name); ok {
			left = append(left, "the GitRepo")
		}
		for _, b := range r.Bundles() {
			left = append(left, "Bundle "+b.Name)
		}
		for _, d := range r.Deployments(nil) {
			left = append(left, "BundleDeployment "+d.Namespace+"/"+d.Name)
		}
		return strings.Join(left, ", ")
	})
}

// withdraw ends the test: nothing of it stays.
func (r *Repository) withdraw() {
	r.Delete()
	for _, m := range r.w.Members() {
		for _, ns := range List[*corev1.Namespace](r.w, m, "", "") {
			if ns.Name == r.Name || strings.HasPrefix(ns.Name, r.Name+"-") {
				Delete(r.w, m, ns)
			}
		}
	}
}

func (r *Repository) key() kube.Key { return kube.Key{Namespace: r.Workspace, Name: r.Name} }

// GitRepo reads the GitRepo, which must exist.
func (r *Repository) GitRepo() *fleet.GitRepo {
	r.w.t.Helper()
	repo, ok := Get[*fleet.GitRepo](r.w, r.w.Local, r.Workspace, r.Name)
	if !ok {
		r.w.t.Fatalf("GitRepo %s is gone", r.key())
	}
	return repo
}

// Change changes the spec of the GitRepo.
func (r *Repository) Change(change func(*fleet.GitRepoSpec)) {
	r.w.t.Helper()
	Change(r.w, r.w.Local, r.GitRepo(), func(repo *fleet.GitRepo) { change(&repo.Spec) })
}

// Bundles lists the bundles of the GitRepo, by name.
func (r *Repository) Bundles() []*fleet.Bundle {
	r.w.t.Helper()
	return List[*fleet.Bundle](r.w, r.w.Local, r.Workspace, fleet.LabelRepoName+"="+r.Name)
}

// Deployments lists the deployments of the GitRepo, by namespace and name: of
// one cluster, or of all where m is nil.
func (r *Repository) Deployments(m *Member) []*fleet.BundleDeployment {
	r.w.t.Helper()
	namespace := ""
	if m != nil {
		namespace = r.w.Namespace(m)
	}
	all := List[*fleet.BundleDeployment](r.w, r.w.Local, namespace, fleet.LabelRepoName+"="+r.Name)
	var own []*fleet.BundleDeployment
	for _, d := range all {
		if d.Labels[fleet.LabelBundleNamespace] == r.Workspace {
			own = append(own, d)
		}
	}
	return own
}

// Deployment reads the deployment of a bundle on a cluster, which must exist.
func (r *Repository) Deployment(m *Member, bundle string) *fleet.BundleDeployment {
	r.w.t.Helper()
	d, ok := Get[*fleet.BundleDeployment](r.w, r.w.Local, r.w.Namespace(m), bundle)
	if !ok {
		r.w.t.Fatalf("bundle %s has no deployment on %s", bundle, m.Name)
	}
	return d
}

// A State is what a user sees of a GitRepo.
type State struct {
	Commit string
	Ready  bool
	Counts string // deployments that are Ready, e.g. "2/2"
}

// State reads the state of the GitRepo.
func (r *Repository) State() State {
	r.w.t.Helper()
	repo := r.GitRepo()
	return State{
		Commit: repo.Status.Commit,
		Ready:  isTrue(repo.Status.Conditions, fleet.ConditionReady) && repo.Status.ObservedGeneration == repo.Generation,
		Counts: fmt.Sprintf("%d/%d", repo.Status.Summary.Ready, repo.Status.Summary.DesiredReady),
	}
}

// EventuallyReady returns when commit is deployed: so many deployments, all
// of them Ready.
func (r *Repository) EventuallyReady(commit string, deployments int) {
	r.w.t.Helper()
	want := State{Commit: commit, Ready: true, Counts: fmt.Sprintf("%d/%d", deployments, deployments)}
	Eventually(r.w, "GitRepo "+r.Name+" Ready", r.State, want)
}

// Message is the message of a condition of the GitRepo, or "" where it does
// not have that status.
func (r *Repository) Message(condition string, status corev1.ConditionStatus) string {
	r.w.t.Helper()
	for _, c := range r.GitRepo().Status.Conditions {
		if c.Type == condition && c.Status == status {
			return c.Message
		}
	}
	return ""
}

// ErrNoRelease is returned by ParseRelease.
var ErrNoRelease = errors.New("no release")

// A Release is what a BundleDeployment says was deployed: namespace, name and
// revision of a Helm release.
type Release struct {
	Namespace, Name string
	Revision        int
}

// ParseRelease reads the release of a BundleDeployment's status,
// "namespace/name:revision".
func ParseRelease(text string) (Release, error) {
	var r Release
	namespace, rest, ok := strings.Cut(text, "/")
	name, revision, ok2 := strings.Cut(rest, ":")
	if _, err := fmt.Sscanf(revision, "%d", &r.Revision); !ok || !ok2 || err != nil {
		return r, fmt.Errorf("read %q: %w", text, ErrNoRelease)
	}
	r.Namespace, r.Name = namespace, name
	return r, nil
}

// Release reads the release of a deployment from its status.
func (r *Repository) Release(m *Member, bundle string) Release {
	r.w.t.Helper()
	release, err := ParseRelease(r.Deployment(m, bundle).Status.Release)
	r.w.must(err)
	return release
}
