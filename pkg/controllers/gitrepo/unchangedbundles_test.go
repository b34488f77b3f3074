package gitrepo

import (
	"testing"
	"testing/fstest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

// A bundle keeps the commit in its label while nothing but the GitRepo changes, also
// beside one that is broken, and when another manager has read the repository meanwhile.
func TestUnmoved(t *testing.T) {
	repo := &fleet.GitRepo{}
	repo.Name, repo.Namespace, repo.UID, repo.Generation = "r", "fleet-default", "u", 1
	files := hashedFiles{fstest.MapFS{
		"a/cm.yaml": {Data: []byte(object)}, "b/cm.yaml": {Data: []byte(object)}, "c/cm.yaml": {Data: []byte("a:\n\tb\n")},
	}}
	read := func(commit string) bundle.Set {
		return bundle.Read(files, []string{"*"}, nil, gitrepo.Options(repo, commit))
	}
	first := read("c1")
	own := []*fleet.Bundle{}
	for _, r := range first.Results {
		if r.Bundle != nil && !r.Broken() {
			own = append(own, r.Bundle)
		}
	}
	cases := map[string]struct {
		why      string
		complete bool
		was      gitrepo.Read // of what is remembered
		commit   string
		refused  []finding.Finding
		want     map[string]bool
	}{
		"BesideABroken": {"the others are what they were", false, gitrepo.Read{Commit: "c1", Generation: 1}, "c1", nil, map[string]bool{"r-a": true, "r-b": true, "r-c": false}},
		"NotWritten": {"what was refused is not what it was made of", false, gitrepo.Read{Commit: "c1", Generation: 1}, "c1", []finding.Finding{{Path: "r-b"}},
			map[string]bool{"r-a": true, "r-b": false, "r-c": false}},
		"AnotherManager":           {"the same commit has the same files, whoever has read it", true, gitrepo.Read{Commit: "c0", Generation: 1}, "c1", nil, map[string]bool{"r-a": true, "r-b": true}},
		"AnotherManagerIncomplete": {"what was broken there may be whole now", false, gitrepo.Read{Commit: "c0", Generation: 1}, "c1", nil, map[string]bool{"r-a": false}},
		"AnotherCommit":            {"of what another manager read before nothing is known", true, gitrepo.Read{Commit: "c0", Generation: 1}, "c2", nil, map[string]bool{"r-a": false}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			repo := repo.DeepCopy()
			repo.Status.Commit, repo.Status.ObservedGeneration = "c1", 1
			repo.Status.Reading = reading.Next(nil, fleet.Reading{Commit: "c1", Generation: 1, Complete: c.complete}, reading.Commits(repo, own), nil)
			w := &Worker{memories: &memories{memory: map[kube.Key]*memory{}}}
			w.memories.update(kube.KeyOf(repo), repo.UID, func(m *memory) { m.read, m.inputs = c.was, inputsOf(first, c.was, c.refused) })
			unmoved := w.unchangedBundles(repo, c.commit, read(c.commit))(own)
			for bundle, want := range c.want {
				if got := unmoved != nil && unmoved(bundle); got != want {
					t.Errorf("%s: %s: want %t, got %t", c.why, bundle, want, got)
				}
			}
		})
	}
}
