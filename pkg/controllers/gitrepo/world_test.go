package gitrepo

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

const (
	ws     = "team"   // the workspace of most tests
	system = "system" // the namespace of the manager
	// loopName is that of the loop, whose requests fail in most tests, and processAgent
	// the User-Agent of its requests.
	loopName     = "gitrepo"
	processAgent = "process/v0 (" + loopName + ")"
)

// object is a manifest.
const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// Kinds as the API server has them.
var (
	gitRepos = fleet.GroupVersion.WithResource("gitrepos")
	bundles  = fleet.GroupVersion.WithResource("bundles")
)

// hashedFiles is a tree that knows hashes: those of its files are their texts.
type hashedFiles struct{ fstest.MapFS }

func (h hashedFiles) Hash(name string) (string, bool) {
	text := ""
	for _, p := range slices.Sorted(maps.Keys(h.MapFS)) {
		if name == "." || p == name || strings.HasPrefix(p, name+"/") {
			text += p + "\x00" + string(h.MapFS[p].Data) + "\x00"
		}
	}
	return text, text != ""
}

func (hashedFiles) Close() error { return nil }

// memoryGit is a repository in memory, which all URLs lead to.
type memoryGit struct {
	reader  *bundlesource.Reader
	metrics *Metrics

	mu       sync.Mutex
	heads    map[string]git.Commit // by branch
	trees    map[git.Commit]hashedFiles
	asked    error  // what ResolveAll answers, if not nil
	broken   error  // what Fetch answers, if not nil
	meantime func() // what happens while the next commit is fetched
	fetched  int
	resolved int          // how often ResolveAll was called
	sources  []git.Source // that were asked, each once
}

// newGit returns an empty repository.
func newGit(t *testing.T) *memoryGit {
	t.Helper()
	r, err := bundlesource.New(bundlesource.Config{Dir: t.TempDir(), Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	g := &memoryGit{reader: r}
	g.reset()
	return g
}

// reset makes the repository empty.
func (g *memoryGit) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heads, g.trees = map[string]git.Commit{}, map[git.Commit]hashedFiles{}
	g.asked, g.broken, g.meantime, g.fetched, g.resolved, g.sources = nil, nil, nil, 0, 0, nil
}

// push makes a commit the head of a branch, with these directories: each has a manifest
// whose text is that behind the = in its name, or the name.
func (g *memoryGit) push(branch, dirs string) string {
	files := map[string]string{}
	for dir := range strings.FieldsSeq(dirs) {
		name, text, ok := strings.Cut(dir, "=")
		if !ok {
			text = name
		}
		files[name+"/cm.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + text + "}\n"
	}
	return g.pushFiles(branch, files)
}

// pushFiles makes a commit with these files the head of a branch.
func (g *memoryGit) pushFiles(branch string, files map[string]string) string {
	tree := hashedFiles{fstest.MapFS{}}
	for name, text := range files {
		tree.MapFS[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := sha1.Sum(fmt.Appendf(nil, "%d %s", len(g.trees), branch))
	commit := git.Commit(hex.EncodeToString(sum[:]))
	g.heads[branch], g.trees[commit] = commit, tree
	return string(commit)
}

// set changes what the repository answers.
func (g *memoryGit) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// during runs f while the next commit is fetched.
func (g *memoryGit) during(f func()) { g.set(func() { g.meantime = f }) }

// fetches is how many commits were fetched.
func (g *memoryGit) fetches() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fetched
}

// questions is how often the repository was asked for its heads.
func (g *memoryGit) questions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resolved
}

// lastSource is the newest of the sources that were asked.
func (g *memoryGit) lastSource() git.Source {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sources[len(g.sources)-1]
}

// fault is what the repository answers instead of a commit.
func (g *memoryGit) fault() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return cmp.Or(g.asked, g.broken)
}

func (g *memoryGit) ResolveAll(_ context.Context, src git.Source, refs []git.Reference) []git.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resolved++
	if !slices.ContainsFunc(g.sources, func(s git.Source) bool { return s.ID() == src.ID() }) {
		g.sources = append(g.sources, src)
	}
	answers := make([]git.Answer, len(refs))
	for i, ref := range refs {
		head, ok := g.heads[ref.Branch]
		switch {
		case g.asked != nil:
			answers[i].Err = g.asked
		case !ok:
			answers[i].Err = reconcile.TerminalError(git.ReasonBranchNotFound, fmt.Errorf("branch %q does not exist", ref.Branch))
		default:
			answers[i].Commit = head
		}
	}
	return answers
}

func (g *memoryGit) Fetch(_ context.Context, _ git.Source, _ git.Reference, commit git.Commit) (files, error) {
	g.mu.Lock()
	meantime := g.meantime
	g.meantime = nil
	g.fetched++
	g.mu.Unlock()
	if meantime != nil {
		meantime()
		time.Sleep(time.Second) // the caches hear of it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken != nil {
		return nil, g.broken
	}
	return g.trees[commit], nil
}

// start returns what a process runs that reads the repository.
func (g *memoryGit) start(s scope.Scope) func(*kube.Client) []kube.Runner {
	return func(c *kube.Client) []kube.Runner {
		log := logrus.New()
		log.SetOutput(io.Discard)
		return newWorker(Config{Namespace: system, Scope: s, Reader: g.reader, Metrics: g.metrics}, g, c, logrus.NewEntry(log)).Runnables()
	}
}

// given returns a Given that begins with these directories on branch main.
func (g *memoryGit) given(dirs string, others ...func(w *looptest.World)) func(w *looptest.World) {
	return func(w *looptest.World) {
		g.reset()
		g.push("main", dirs)
		w.Server.MakeNamespace(ws)
		w.Server.MakeNamespace(system)
		for _, f := range others {
			f(w)
		}
	}
}

// read runs a process until it has done all that it can, and ends it.
func (g *memoryGit) read(w *looptest.World) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- kube.Run(ctx, nil, g.start(scope.Scope{})(w.Server.Connect("before"))...) }()
	time.Sleep(5 * time.Second)
	cancel()
	w.Must(<-done)
}

// made makes the GitRepo that most tests are about.
func made(w *looptest.World) { makeRepo(w, "repo", nil) }

// makeRepo makes a GitRepo that follows branch main.
func makeRepo(w *looptest.World, name string, change func(*fleet.GitRepo)) {
	w.Helper()
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: name}}
	r.Spec.Repo, r.Spec.Branch, r.Spec.Paths = "https://git.example/repo", "main", []string{"*"}
	if change != nil {
		change(r)
	}
	looptest.Make(w, r)
}

func repo(w *looptest.World) *fleet.GitRepo { return looptest.Read[*fleet.GitRepo](w, ws, "repo") }

func bundleOf(w *looptest.World, name string) *fleet.Bundle {
	return looptest.Read[*fleet.Bundle](w, ws, name)
}

func changeRepo(w *looptest.World, change func(*fleet.GitRepo)) {
	w.Helper()
	looptest.Change(w, ws, "repo", change)
}

// removeBundle deletes a Bundle as a user does, and lets go of it as the controllers of
// Bundles do when its deployments are gone.
func removeBundle(w *looptest.World, name string) {
	w.Helper()
	looptest.Remove[*fleet.Bundle](w, ws, name)
	looptest.Change(w, ws, name, func(b *fleet.Bundle) { b.Finalizers = nil })
}

// wantBundles checks which Bundles there are.
func wantBundles(w *looptest.World, names ...string) {
	w.Helper()
	if got := looptest.Names[*fleet.Bundle](w, ws); !slices.Equal(got, names) {
		w.Errorf("want Bundles %v, got %v", names, got)
	}
}

// wantCondition checks a condition of the GitRepo; its message must contain text.
func wantCondition(w *looptest.World, kind, status, reason, text string) {
	w.Helper()
	c := condition.Find(repo(w).Status.Conditions, kind)
	if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, text) {
		w.Errorf("want %s %s, %q with %q; got %+v", kind, status, reason, text, c)
	}
}

// wantRead checks that the GitRepo shows a commit as read, and nothing that is wrong.
func wantRead(w *looptest.World, commit string) {
	w.Helper()
	r := repo(w)
	if r.Status.Commit != commit || r.Status.GitJobStatus != "Current" || r.Status.ObservedGeneration != r.Generation {
		w.Errorf("want generation %d of commit %s read, got %+v", r.Generation, commit, r.Status)
	}
	wantCondition(w, fleet.ConditionStalled, "False", "", "")
	wantCondition(w, fleet.ConditionReconciling, "False", "", "")
}

// head is the commit that branch main is at.
func (g *memoryGit) head() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return string(g.heads["main"])
}

// late runs f while the process does not hear of changes of a kind, and lets some time
// pass.
func late(w *looptest.World, kind schema.GroupVersionResource, d time.Duration, f func()) {
	w.Helper()
	release := w.Server.HoldWatches(kind)
	defer release()
	f()
	w.Pass(d)
}

// process are the requests that a process has sent to change something, those that were
// refused included.
func process(w *looptest.World) []kubetest.Request {
	return slices.DeleteFunc(w.Server.Writes(), func(r kubetest.Request) bool { return r.Resource == "events" || r.UserAgent != processAgent })
}

// of selects the requests about one object, without its status.
func of(verb, resource, name string) func(kubetest.Request) bool {
	return func(r kubetest.Request) bool {
		return r.Verb == verb && r.Resource == resource && r.Name == name && r.Subresource == ""
	}
}

// wantOrder checks that both requests were sent, one before the other.
func wantOrder(w *looptest.World, first, then func(kubetest.Request) bool) {
	w.Helper()
	sent := process(w)
	if i, j := slices.IndexFunc(sent, first), slices.IndexFunc(sent, then); i < 0 || j < i {
		w.Errorf("want two requests in order, got number %d and number %d of %v", i, j, sent)
	}
}
