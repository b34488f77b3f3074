// Package gitrepo_test tests how commits become Bundles and status, on a real
// API server and from real git servers, with the worker of the role gitjob
// alone: the engine, which lets removed Bundles go, is played by the test.
package gitrepo_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/controllers/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/controllers/imagecommit"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// agent is the User-Agent of the worker, by which its requests are known.
const agent = "fleet-gitjob/test"

// A world is an API server with the worker.
type world struct {
	t       *testing.T
	cluster harness.ControlPlane
	admin   *kube.Client
	worker  *worker
}

// A worker runs beside all tests: there is one at a time, whichever test
// started it. It outlives the test, and so does what it keeps on disk.
type worker struct {
	t    *testing.T
	halt func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cluster: harness.Memory(t, "management"), worker: &worker{t: t}}
	w.admin = w.client("sandbox-admin", "test")
	harness.InstallCRDs(w.t, w.admin)
	w.namespace(fleet.NamespaceSystem)
	w.start()
	t.Cleanup(w.halt)
	return w
}

func (w *world) client(agent, manager string) *kube.Client {
	w.t.Helper()
	c, err := kube.Connect(kube.Config{REST: w.cluster.REST(), UserAgent: agent, FieldManager: manager})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// start runs the worker. halt ends it.
func (w *world) start() {
	w.t.Helper()
	if w.worker.halt != nil {
		w.t.Fatal("a worker runs already")
	}
	t := w.worker.t
	remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Timeout: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(logWriter{t})
	read, err := bundlesource.New(bundlesource.Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Git: remotes})
	if err != nil {
		w.t.Fatal(err)
	}
	worker := gitrepo.New(gitrepo.Config{
		Namespace: fleet.NamespaceSystem, Remotes: remotes, Reader: read, OCI: oci.New(oci.Config{Addresses: address.WithLoopback()}), ImageScans: true,
	},
		w.client(agent, fleet.FieldManagerGitJob), logrus.NewEntry(log))
	commits := imagecommit.New(imagecommit.Config{Remotes: remotes, Repositories: worker}, w.client(agent, fleet.FieldManagerGitJob), logrus.NewEntry(log))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		report := func(loop string, key kube.Key, err error) { t.Logf("%s %s: %v", loop, key, err) }
		if err := kube.Run(ctx, report, append(worker.Runnables(), commits.Runnables()...)...); err != nil {
			t.Errorf("the worker ended: %v", err)
		}
	}()
	w.worker.halt = func() {
		stop()
		<-done
		_, _ = read.Close(), remotes.Close()
	}
}

func (w *world) halt() {
	if w.worker.halt != nil {
		w.worker.halt()
		w.worker.halt = nil
	}
}

type logWriter struct{ t *testing.T }

func (l logWriter) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// namespace makes a namespace and returns its name.
func (w *world) namespace(name string) string {
	w.t.Helper()
	create(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

func create[P kube.Object](w *world, obj P) P {
	w.t.Helper()
	made, err := kube.StoreOf[P](w.admin).Create(context.Background(), obj)
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func get[P kube.Object](w *world, namespace, name string) (P, bool) {
	w.t.Helper()
	obj, err := kube.StoreOf[P](w.admin).Get(context.Background(), kube.Key{Namespace: namespace, Name: name})
	if kube.IsGone(err) {
		return obj, false
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return obj, true
}

// change changes an object, again after each conflict.
func change[P kube.Object](w *world, obj P, f func(P)) {
	w.t.Helper()
	harness.Revise(w.t, w.admin, kube.KeyOf(obj), f)
}

func remove[P kube.Object](w *world, obj P) {
	w.t.Helper()
	if err := kube.StoreOf[P](w.admin).Delete(context.Background(), kube.KeyOf(obj), kube.Precondition{}); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for a state.
func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(harness.Timeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			w.t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// A fixture is one GitRepo in a namespace of its own, and its repository.
type fixture struct {
	*world
	ns     string
	git    *gittest.Repo
	server *gittest.HTTPServer
	repo   *fleet.GitRepo
}

func (w *world) fixture(t *testing.T) *fixture {
	t.Helper()
	inner := *w
	inner.t = t
	s := &fixture{world: &inner, ns: inner.namespace(strings.ToLower(strings.ReplaceAll(t.Name()[strings.Index(t.Name(), "/")+1:], "/", "-"))), git: gittest.NewRepo(t)}
	s.server = gittest.ServeHTTP(t, filepath.Dir(s.git.Dir))
	return s
}

// follow creates the GitRepo.
func (s *fixture) follow(f func(*fleet.GitRepoSpec)) {
	s.t.Helper()
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "repo"}, Spec: fleet.GitRepoSpec{
		Repo: s.server.URL + "/repo", Branch: "main", PollingInterval: &metav1.Duration{Duration: time.Second},
	}}
	if f != nil {
		f(&repo.Spec)
	}
	s.repo = create(s.world, repo)
}

// status is the present status of the GitRepo.
func (s *fixture) status() fleet.GitRepoStatus {
	s.t.Helper()
	r, ok := get[*fleet.GitRepo](s.world, s.ns, s.repo.Name)
	if !ok {
		s.t.Fatal("the GitRepo is gone")
	}
	return r.Status
}

// read waits until a commit was read.
func (s *fixture) read(commit string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%.7s was read", commit), func() bool {
		st := s.status()
		return st.Commit == commit && st.GitJobStatus != "InProgress"
	})
}

// says waits for a condition.
func (s *fixture) says(kind, status, reason, message string) {
	s.t.Helper()
	last := ""
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s is now %s; %+v", kind, last, s.status().Conditions)
		}
	}()
	s.until(fmt.Sprintf("%s=%s %s: %s", kind, status, reason, message), func() bool {
		c := condition.Find(s.status().Conditions, kind)
		if c == nil {
			return false
		}
		last = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		return string(c.Status) == status && c.Reason == reason && (message == "" || c.Message == message)
	})
}

// bundles are the names and resourceVersions of the Bundles.
func (s *fixture) bundles() map[string]string {
	s.t.Helper()
	list, err := kube.StoreOf[*fleet.Bundle](s.admin).List(context.Background(), s.ns, "")
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, b := range list {
		out[b.Name] = b.ResourceVersion
	}
	return out
}

// engine removes Bundles that the worker asks to remove, and lets removed ones
// go, as the engine does when all is withdrawn.
func (s *fixture) engine(name string) {
	s.t.Helper()
	s.until("bundle "+name+" is being removed", func() bool {
		b, ok := get[*fleet.Bundle](s.world, s.ns, name)
		if ok && b.DeletionTimestamp == nil && s.asked(name) {
			remove(s.world, b)
			return true
		}
		return ok && b.DeletionTimestamp != nil
	})
	b, _ := get[*fleet.Bundle](s.world, s.ns, name)
	change(s.world, b, func(b *fleet.Bundle) { b.Finalizers = nil })
}

// asked reports whether the worker asks to remove a Bundle.
func (s *fixture) asked(name string) bool {
	s.t.Helper()
	b, ok := get[*fleet.Bundle](s.world, s.ns, name)
	r, there := get[*fleet.GitRepo](s.world, s.ns, s.repo.Name)
	return ok && there && b.Annotations[fleet.AnnotationPrune] != "" && b.Annotations[fleet.AnnotationPrune] == r.Annotations[fleet.AnnotationPrune]
}

// force asks for the repository to be read again, and waits until the worker has looked at
// that.
func (s *fixture) force() {
	s.t.Helper()
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.ForceSyncGeneration++ })
	s.until("the worker has looked at it", func() bool {
		r, _ := get[*fleet.GitRepo](s.world, s.ns, s.repo.Name)
		c := condition.Find(r.Status.Conditions, fleet.ConditionAccepted)
		return c != nil && c.ObservedGeneration == r.Generation
	})
}

// writes are the worker's requests in the test's namespace that asked for a
// change.
func (s *fixture) writes() []string {
	s.t.Helper()
	return s.writesSince(time.Time{})
}

// writesSince are those that came after a moment and were not refused. One that is
// refused has changed nothing: the worker's cache was behind what it had just written.
func (s *fixture) writesSince(moment time.Time) []string {
	s.t.Helper()
	all, err := harness.RequestsOf(s.cluster, moment)
	if err != nil {
		s.t.Fatal(err)
	}
	var list []string
	for _, r := range all {
		if r.Writes() && r.Code < 300 && r.Namespace == s.ns && r.Resource != "events" && strings.HasPrefix(r.Agent, agent) {
			list = append(list, strings.TrimSuffix(fmt.Sprintf("%s %s/%s %s", r.Verb, r.Resource, r.Name, r.Subresource), " "))
		}
	}
	return list
}
