package reading

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func bundle(name, commit, mark string) *fleet.Bundle {
	return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{fleet.LabelCommit: commit}, Annotations: map[string]string{fleet.AnnotationPrune: mark},
	}}
}

func TestShows(t *testing.T) {
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationPrune: "1-x"}}}
	repo.Status.Commit, repo.Status.ObservedGeneration = "c2", 3
	repo.Status.Reading = Next(nil, fleet.Reading{Commit: "c2", Generation: 3}, map[string]string{"a": "c1", "b": "c2"}, nil)
	deleted := bundle("d", "c1", "")
	deleted.DeletionTimestamp = &metav1.Time{}
	left := []*fleet.Bundle{bundle("b", "c2", ""), bundle("a", "c1", "")}
	for name, c := range map[string]struct {
		why    string
		own    []*fleet.Bundle
		change func(*fleet.GitRepo)
		shows  bool
		known  bool
	}{
		"Same":      {why: "their order does not matter", own: left, shows: true, known: true},
		"Behind":    {why: "one bundle has not come yet", own: []*fleet.Bundle{bundle("a", "c1", ""), bundle("b", "c1", "")}, known: true},
		"Ahead":     {why: "one belongs to the next commit already", own: []*fleet.Bundle{bundle("a", "c3", ""), bundle("b", "c2", "")}, known: true},
		"Missing":   {why: "a new bundle is not seen yet", own: left[1:], known: true},
		"Leaving":   {why: "what goes is none of what was left", own: append(left[:2:2], bundle("c", "c1", "1-x"), deleted), shows: true, known: true},
		"OtherMark": {why: "a mark that the repository does not have any more asks for nothing", own: append(left[:2:2], bundle("c", "c1", "2-y")), known: true},
		"Older": {
			why: "a manager that does not know the field has read another commit since", own: left,
			change: func(r *fleet.GitRepo) { r.Status.Commit = "c4" },
		},
		"OtherSpec": {
			why: "or the same commit for another spec", own: left,
			change: func(r *fleet.GitRepo) { r.Status.ObservedGeneration = 4 },
		},
		"Silent": {why: "or never a commit", own: left, change: func(r *fleet.GitRepo) { r.Status.Reading = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := repo.DeepCopy()
			if c.change != nil {
				c.change(r)
			}
			if shows, known := Shows(r, c.own); shows != c.shows || known != c.known {
				t.Errorf("%s: want %t and known %t, got %t, %t", c.why, c.shows, c.known, shows, known)
			}
		})
	}
}

// Removals of readings of one commit add up, until the commit is another or the
// bundle is back; a status names 20 at most.
func TestNext(t *testing.T) {
	first := Next(nil, fleet.Reading{Commit: "c1"}, map[string]string{"a": "c1"}, []string{"x", "y"})
	again := Next(first, fleet.Reading{Commit: "c1", Generation: 2}, map[string]string{"a": "c1", "x": "c1"}, []string{"w"})
	if diff := cmp.Diff([]string{"w", "y"}, again.Removed); diff != "" {
		t.Errorf("the same commit: -want +got\n%s", diff)
	}
	if next := Next(again, fleet.Reading{Commit: "c2"}, nil, nil); next.Removed != nil {
		t.Errorf("another commit removed nothing, got %v", next.Removed)
	}
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("b%02d", i))
	}
	if next := Next(nil, fleet.Reading{}, nil, many); len(next.Removed) != maxRemoved {
		t.Errorf("want %d names, got %d", maxRemoved, len(next.Removed))
	}
}
