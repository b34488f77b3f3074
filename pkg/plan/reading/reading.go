// Package reading says which Bundles gitjob has written for a commit, and whether the
// Bundles that a client sees are the same.
//
// gitjob writes the Bundles of a commit one after the other, and the status of the
// GitRepo last. A client that lists GitRepos and Bundles separately may see one without
// the other. The digest in the status says which Bundles belong to the commit.
package reading

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxRemoved is how many names of removed Bundles a status holds.
const maxRemoved = 20

// Digest covers the names of Bundles and the commits in their labels.
func Digest(commits map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(commits)) {
		fmt.Fprintf(sum, "%s=%s\n", name, commits[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// IsLeaving reports whether a Bundle of a GitRepo is on its way out: it is being
// deleted, or the manager was asked to remove it.
func IsLeaving(repo *fleet.GitRepo, b *fleet.Bundle) bool {
	mark := b.Annotations[fleet.AnnotationPrune]
	return b.DeletionTimestamp != nil || mark != "" && repo != nil && mark == repo.Annotations[fleet.AnnotationPrune]
}

// Commits returns the commits in the labels of those Bundles of a GitRepo that stay, by
// name. own are all Bundles that it has.
func Commits(repo *fleet.GitRepo, own []*fleet.Bundle) map[string]string {
	out := make(map[string]string, len(own))
	for _, b := range own {
		if !IsLeaving(repo, b) {
			out[b.Name] = b.Labels[fleet.LabelCommit]
		}
	}
	return out
}

// Shows reports whether own, all Bundles of a GitRepo that a client sees, are those that
// the last reading left. known is false where the manager does not say what that reading
// left.
func Shows(repo *fleet.GitRepo, own []*fleet.Bundle) (shows, known bool) {
	r := repo.Status.Reading
	if r == nil || r.Commit != repo.Status.Commit || r.Generation != repo.Status.ObservedGeneration {
		return false, false
	}
	return r.Digest == Digest(Commits(repo, own)), true
}

// Next returns what a status says of a reading. before is what it said of the reading
// before. commits are those of the Bundles that stay. gone are the names of the Bundles
// that this reading was the first to remove: those of readings of the same commit add up.
func Next(before *fleet.Reading, next fleet.Reading, commits map[string]string, gone []string) *fleet.Reading {
	next.Bundles, next.Digest = len(commits), Digest(commits)
	removed := slices.Clone(gone)
	if before != nil && before.Commit == next.Commit {
		removed = append(removed, before.Removed...)
	}
	slices.Sort(removed)
	removed = slices.DeleteFunc(slices.Compact(removed), func(name string) bool { _, back := commits[name]; return back })
	if len(removed) > 0 {
		next.Removed = removed[:min(len(removed), maxRemoved)]
	}
	return &next
}
