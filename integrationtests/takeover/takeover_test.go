package takeover_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

func TestMain(m *testing.M) {
	code := harness.Parallel(m)
	harness.RemoveProgram()
	os.Exit(code)
}

// A manager is taken over step by step, and back: with two of our own side by
// side, and with one of another implementation where its path is given.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const ws = "fleet-default"
	w.namespace(ws)
	w.join(t, ws, "c1")
	w.join(t, ws, "c2")
	w.manage(t, "green", fleet.NamespaceSystem, scope.Scope{})
	web, db := w.repo(t, ws, "web", ""), w.repo(t, ws, "db", "")
	w.lone(ws, "alone", "1")
	was := map[string][]string{}
	for _, name := range []string{"web", "db", "alone"} {
		was[name] = w.runs(ws, name, 2, nil)
	}
	reported := &takeover{world: w, ws: ws, web: web, db: db, was: was}

	for _, part := range []struct {
		name   string
		report func(*takeover)
	}{
		{"NothingWouldChange", (*takeover).check},
		{"NoManager", (*takeover).refused},
		{"PassedOn", (*takeover).start},
		{"SideBySide", (*takeover).sideBySide},
		{"LeftAloneWhileItsManagerIsAway", (*takeover).away},
		{"RemovedByItsManager", (*takeover).removed},
		{"GivenBack", (*takeover).undo},
	} {
		if !t.Run(part.name, func(t *testing.T) { reported.on(t, part.report) }) {
			return
		}
	}
}

// A takeover moves a shard to another manager. green is the manager of
// everything, blue that of the shard.
type takeover struct {
	*world
	t       *testing.T
	outer   *testing.T
	ws      string
	web, db *repository
	was     map[string][]string // what runs
	stop    func()              // ends blue
}

func (s *takeover) on(t *testing.T, report func(*takeover)) {
	if s.outer == nil {
		s.outer = s.TB.(*testing.T)
	}
	part := *s
	part.world, part.t = s.world.on(t), t
	report(&part)
	s.stop = part.stop
}

// same fails where something runs in another version than before.
func (s *takeover) same(names ...string) {
	s.Helper()
	for _, name := range names {
		if diff := cmp.Diff(s.was[name], s.ids(s.ws, name)); diff != "" {
			s.Errorf("%s was deployed again\n%s", name, diff)
		}
	}
}

// only fails where others than a manager have written what is from something.
func (s *takeover) only(since time.Time, manager string, names ...string) {
	s.Helper()
	for _, name := range names {
		if got := s.writers(since, about(name)); !slices.Equal(got, []string{manager}) {
			s.Errorf("%s was written by %v, want %s\n%s", name, got, manager, s.lines(since, about(name)))
		}
	}
}

func (s *takeover) lines(since time.Time, keep func(harness.Request) bool) string {
	return harness.Lines(slices.DeleteFunc(s.writes(since), func(r harness.Request) bool { return !keep(r) }))
}

// commit changes what a repository deploys, and waits until it runs.
func (s *takeover) commit(r *repository, value string) {
	s.Helper()
	r.Commit(value, map[string]string{"cm.yaml": manifest(r.name, value)})
	s.was[r.name] = s.runs(s.ws, r.name, 2, s.was[r.name])
	s.reported(r.name)
}

// reported waits until the manager of a repository's Bundles has written that they
// are Ready everywhere: then it has nothing more to write about them.
func (s *takeover) reported(from string) {
	s.Helper()
	s.until(from+" is reported ready", func() bool {
		list, err := kube.StoreOf[*fleet.Bundle](s.admin).List(s.Context(), s.ws, "")
		s.must(err)
		for _, b := range list {
			if of(from, b.Name) && (b.Status.ObservedGeneration != b.Generation || b.Status.Display.ReadyClusters != "2/2") {
				return false
			}
		}
		return true
	})
}

// heard waits until the manager of a shard, or of everything, has heard of all labels
// that were written before: it deploys a repository that is made after them, and it sees
// repositories, and Bundles, in order. Until then it may still write what it had.
func (s *takeover) heard(repo, shard string) {
	s.Helper()
	s.repo(s.outer, s.ws, repo, shard)
	s.runs(s.ws, repo, 2, nil)
	s.reported(repo)
}

// labelled waits until all that is from something has a label, as who has it now puts
// right what the other has written last.
func (s *takeover) labelled(from, shard string, kinds ...string) {
	s.Helper()
	var got, want []string
	for _, kind := range kinds {
		want = append(want, kind+" "+shard)
	}
	defer func() {
		if s.Failed() {
			s.Logf("%s has %v", from, got)
		}
	}()
	s.until(from+" has the label "+shard, func() bool {
		got = s.shards(s.ws, from)
		return slices.Equal(got, want)
	})
}

func (s *takeover) check() {
	since := time.Now()
	said := s.Types(s.hub, "fleet takeover check -n "+s.ws)
	for _, line := range strings.Split(strings.TrimSpace(said.Out), "\n")[1:] {
		if !strings.Contains(line, " identical ") {
			s.Errorf("not identical: %s", line)
		}
	}
	for _, r := range s.writes(since) {
		if strings.HasPrefix(r.Agent, "fleet/") {
			s.Errorf("the check wrote: %s", r)
		}
	}
}

func (s *takeover) refused() {
	said := s.Tries(s.hub, "fleet takeover start -n "+s.ws+" -l app=web")
	if said.Code != 5 || !strings.Contains(said.Notes, `nobody works on shard "takeover"`) {
		s.Errorf("want refused, got %d: %s%s", said.Code, said.Out, said.Notes)
	}
	if diff := cmp.Diff([]string{"bundle none", "deployment none", "repo none"}, s.shards(s.ws, "web")); diff != "" {
		s.Error(diff)
	}
}

func (s *takeover) start() {
	since := time.Now()
	s.stop = s.manage(s.outer, "blue", fleet.NamespaceSystem, scope.Scope{Shard: "takeover"})
	s.until("the shard has its manager", func() bool {
		said := s.Tries(s.hub, "fleet takeover start -n "+s.ws+" -l app=web")
		return said.Code == 0
	})
	s.heard("second", "")
	s.labelled("web", "takeover", "bundle", "deployment", "repo")
	s.labelled("db", "none", "bundle", "deployment", "repo")
	again := s.Types(s.hub, "fleet takeover start -n "+s.ws+" -l app=web -o json")
	if strings.Contains(again.Out, `"changed": true`) {
		s.Errorf("a second start wrote: %s", again.Out)
	}
	for _, r := range s.writes(since) {
		if strings.HasPrefix(r.Agent, "fleet/") && r.Verb != "patch" {
			s.Errorf("more than labels: %s", r)
		}
	}
	s.same("web", "db", "alone")
}

func (s *takeover) sideBySide() {
	since := time.Now()
	s.commit(s.web, "2")
	s.commit(s.db, "2")
	s.lone(s.ws, "alone", "2")
	s.was["alone"] = s.runs(s.ws, "alone", 2, s.was["alone"])
	s.until("the clusters are reported ready", func() bool { return s.readyBundles("c1") == "4/4" && s.readyBundles("c2") == "4/4" })
	s.until("the repositories are reported ready", func() bool { return s.repoReady("web") && s.repoReady("db") })
	s.only(since, "blue", "web")
	s.only(since, "green", "db", "alone")
	clusters := func(r harness.Request) bool { return r.Resource == "clusters" }
	if got := s.writers(since, clusters); slices.Contains(got, "blue") {
		s.Errorf("a Cluster is not the shard's, and was written by it:\n%s", s.lines(since, clusters))
	}
	if diff := cmp.Diff([]string{"bundle takeover", "deployment takeover", "repo takeover"}, s.shards(s.ws, "web")); diff != "" {
		s.Errorf("a commit has taken labels away: %s", diff)
	}
}

func (s *takeover) readyBundles(name string) string {
	c, err := kube.StoreOf[*fleet.Cluster](s.admin).Get(s.Context(), kube.Key{Namespace: s.ws, Name: name})
	s.must(err)
	return c.Status.Display.ReadyBundles
}

func (s *takeover) repoReady(name string) bool {
	r, err := kube.StoreOf[*fleet.GitRepo](s.admin).Get(s.Context(), kube.Key{Namespace: s.ws, Name: name})
	s.must(err)
	return r.Status.Display.ReadyBundleDeployments == "2/2"
}

// away: the default manager does not do a shard's work, even if no manager
// does.
func (s *takeover) away() {
	s.stop()
	since := time.Now()
	s.web.Commit("3", map[string]string{"cm.yaml": manifest("web", "3")})
	s.commit(s.db, "3")
	s.same("web")
	if got := s.writers(since, about("web")); len(got) > 0 {
		s.Errorf("written by %v:\n%s", got, s.lines(since, about("web")))
	}
	since = time.Now()
	s.stop = s.manage(s.outer, "blue", fleet.NamespaceSystem, scope.Scope{Shard: "takeover"})
	s.was["web"] = s.runs(s.ws, "web", 2, s.was["web"])
	s.reported("web")
	s.only(since, "blue", "web")
	s.same("db", "alone")
}

// removed: what a shard has made goes by the shard's doing.
func (s *takeover) removed() {
	s.lone(s.ws, "brief", "1")
	s.was["brief"] = s.runs(s.ws, "brief", 2, nil)
	s.reported("brief")
	s.Types(s.hub, "fleet takeover start -n "+s.ws+" -l app=brief")
	s.heard("third", "")
	s.labelled("brief", "takeover", "bundle", "deployment")
	since := time.Now()
	s.must(kube.StoreOf[*fleet.Bundle](s.admin).Delete(s.Context(), kube.Key{Namespace: s.ws, Name: "brief"}, kube.Precondition{}))
	s.until("the bundle is gone", func() bool {
		_, err := kube.StoreOf[*fleet.Bundle](s.admin).Get(s.Context(), kube.Key{Namespace: s.ws, Name: "brief"})
		return kube.IsGone(err) && len(s.deployments(s.ws, "brief")) == 0
	})
	s.only(since, "blue", "brief")
	s.same("web", "db", "alone")
}

func (s *takeover) undo() {
	s.Types(s.hub, "fleet takeover undo -n "+s.ws+" -l app=web")
	s.heard("fourth", "takeover")
	s.labelled("web", "none", "bundle", "deployment", "repo")
	s.same("web", "db", "alone")
	since := time.Now()
	s.commit(s.web, "4")
	s.commit(s.db, "4")
	s.only(since, "green", "web", "db")
}
