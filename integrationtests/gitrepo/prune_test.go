package gitrepo_test

import (
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

func dirs(names string) map[string]string {
	files := map[string]string{}
	for _, name := range strings.Fields(names) {
		files[name+"/fleet.yaml"] = "namespace: " + name + "\n"
		files[name+"/cm.yaml"] = manifest(name)
	}
	return files
}

// mark returns the GitRepo's annotation for the removal of Bundles.
func (s *fixture) mark() string {
	s.t.Helper()
	r, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
	return r.Annotations[fleet.AnnotationPrune]
}

// What the repository does not yield any more is asked to go, all of it in one
// word, and that is taken back before anything of it is wanted again.
func pruning(s *fixture) {
	s.read2(s.git.Commit("first", dirs("a b c d")))
	if s.mark() != "" {
		s.t.Error("nothing is to be removed")
	}
	s.read(s.git.Commit("second", map[string]string{"a": "", "b": ""}))
	s.until("both are asked to go", func() bool { return s.asked("repo-a") && s.asked("repo-b") })
	a, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-b")
	if want := withdrawal.PruneMark([]*fleet.Bundle{a, b}); s.mark() != want {
		s.t.Errorf("asked with %q, want %q", s.mark(), want)
	}
	// The API server answers a request before the request is in the audit log.
	s.until("the log has the request after all marks", func() bool {
		writes := strings.Join(s.writes(), "\n") + "\n"
		return strings.LastIndex(writes, "patch gitrepos/repo\n") > strings.LastIndex(writes, "patch bundles/repo-b")
	})
	before := len(s.writes())

	s.read(s.git.Commit("third", dirs("b")))
	s.until("a alone is asked to go", func() bool { return s.asked("repo-a") && !s.asked("repo-b") })
	again, _ := get[*fleet.Bundle](s.world, s.ns, "repo-b")
	if again.UID != b.UID || again.DeletionTimestamp != nil || again.Annotations[fleet.AnnotationPrune] != "" {
		s.t.Errorf("what is wanted again has never been away: %+v", again.ObjectMeta)
	}
	s.until("the log has that first the request is taken back", func() bool {
		later := strings.Join(s.writes()[before:], "\n")
		i := strings.Index(later, "patch gitrepos/repo\n")
		return i >= 0 && i < strings.Index(later, "patch bundles/repo-b")
	})
	s.engine("repo-a")
	s.until("it is gone", func() bool { return s.bundles()["repo-a"] == "" })
	s.read(s.git.Commit("fourth", dirs("a b c d e")))
	s.until("no word is left", func() bool { return s.mark() == "" && s.bundles()["repo-a"] != "" })
}

// While a request waits to be approved, new commits are rolled out, and a
// mistake in one takes the request back.
func pruningHeld(s *fixture) {
	s.read2(s.git.Commit("first", dirs("a b c d e")))
	s.read(s.git.Commit("second", map[string]string{"a": "", "b": "", "c": "", "d": ""}))
	s.until("asked", func() bool { return s.asked("repo-a") && s.asked("repo-d") })
	mark := s.mark()
	before := s.bundles()
	a, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	change(s.world, a, func(b *fleet.Bundle) { b.Annotations[fleet.AnnotationDeletionHeld] = "0123 would remove" })

	s.read(s.git.Commit("third", map[string]string{"e/cm.yaml": manifest("new")}))
	if s.mark() != mark || !s.asked("repo-a") || !s.asked("repo-b") {
		s.t.Error("the same is asked as before")
	}
	if now := s.bundles(); now["repo-b"] != before["repo-b"] || now["repo-e"] == before["repo-e"] {
		s.t.Errorf("want repo-e written alone: %v, %v", before, now)
	}

	s.read(s.git.Commit("fourth", map[string]string{"f/fleet.yaml": "namespace: f\n", "f/cm.yaml": "a: 1\nb:\n\tc: 2\n"}))
	s.says("Stalled", "True", "InvalidYAML", "")
	s.until("taken back: what is broken may be what takes their place", func() bool { return s.mark() == "" })
	s.read(s.git.Commit("fifth", dirs("f")))
	s.until("asked again", func() bool { return s.mark() == mark && s.asked("repo-a") })

	s.halt()
	s.start()
	s.read(s.git.Commit("sixth", dirs("a b c d")))
	s.until("taken back by another worker", func() bool { return s.mark() == "" })
	s.until("all are as they were", func() bool {
		for name, uid := range map[string]string{"repo-a": string(a.UID)} {
			b, ok := get[*fleet.Bundle](s.world, s.ns, name)
			if !ok || string(b.UID) != uid || b.Annotations[fleet.AnnotationPrune] != "" {
				return false
			}
		}
		return true
	})
	if now, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a"); now.Annotations[fleet.AnnotationDeletionHeld] == "" {
		s.t.Error("what the engine has noted is not the worker's to take off")
	}
}

// A mistyped path removes nothing, until it is put right; a directory that a commit
// removes takes its bundle along.
func mistyped(s *fixture) {
	paths := func(list ...string) {
		change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Paths = list })
	}
	first := s.git.Commit("first", dirs("pa pb pc"))
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths = []string{"pa", "pb", "pc"} })
	s.read(first)
	paths("pa", "pbb", "pc")
	s.says("Stalled", "True", "File", `path "pbb" is not in the repository; did you mean "pb"? nothing is removed until it is there or taken out of spec.paths`)
	s.read(s.git.Commit("second", map[string]string{"pa/cm.yaml": manifest("new")}))
	if s.mark() != "" || s.asked("repo-pb") {
		s.t.Error("a mistyped path asks for a removal")
	}
	paths("pa", "pb", "pc")
	s.says("Stalled", "False", "", "")
	s.read(s.git.Commit("third", map[string]string{"pb": ""}))
	s.until("its bundle is asked to go", func() bool { return s.asked("repo-pb") })
}
