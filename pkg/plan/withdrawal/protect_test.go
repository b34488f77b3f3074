package withdrawal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestGuard(t *testing.T) {
	cases := map[string]struct {
		why    string
		bundle string
		repo   string
		alone  bool // without a GitRepo
		want   string
	}{
		"Nothing":       {why: "nothing is protected"},
		"Bundle":        {why: "it says so itself", bundle: "true", want: "the Bundle is protected"},
		"BundleAlone":   {why: "it needs no GitRepo", bundle: "true", alone: true, want: "the Bundle is protected"},
		"Typo":          {why: "any value but false protects", bundle: "True", want: "the Bundle is protected"},
		"Repo":          {why: "its GitRepo is", repo: "true", want: `its GitRepo "shop" is protected`},
		"RepoNot":       {why: "its GitRepo says that it is not", repo: "false"},
		"Exempt":        {why: "it says itself that it is not", bundle: "false", repo: "true"},
		"Alone":         {why: "nothing is protected", alone: true},
		"ExemptWithout": {why: "the same, without a GitRepo", bundle: "false", alone: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{fleet.AnnotationProtect: c.bundle}}}
			repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{fleet.AnnotationProtect: c.repo}}}
			if c.alone {
				repo = nil
			}
			if got := Guard(b, repo); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}

// A protected object waits for exactly its own list, whatever the budget.
func TestJudgeProtected(t *testing.T) {
	r := Removal{Unit: "bundle", Total: 1, Deleted: "r1", Items: []Item{{Name: "web", UID: "b1"}}, Budget: Budget{off: true}}
	v := DecideProtected(r, "the GitRepo is protected")
	if !v.Held || !v.Protected || v.Summary != "would remove 1 of 1 bundle: the GitRepo is protected" {
		t.Fatalf("got %+v", v)
	}
	other := r
	other.Deleted = "r2"
	if Hash(other) == v.Hash {
		t.Error("the approval of one object approves the same list of another one")
	}
	change := r
	change.Deleted = ""
	if Hash(change) == v.Hash {
		t.Error("the approval of a change approves the deletion")
	}
	empty := DecideProtected(Removal{Unit: "bundle", Deleted: "r1"}, "the GitRepo is protected")
	if !empty.Held {
		t.Error("an object that has nothing goes without an approval")
	}
	r.Approved = Hash(other)
	if !DecideProtected(r, "the GitRepo is protected").Held {
		t.Error("another hash approves it")
	}
	r.Approved = v.Hash
	if v = DecideProtected(r, "the GitRepo is protected"); v.Held || !v.Approved {
		t.Errorf("approved, and got %+v", v)
	}
}

// A change that removes a protected Bundle is held within the budget, too.
func TestJudgeChangeOfProtected(t *testing.T) {
	for name, b := range map[string]Budget{"Default": BundleBudget, "Off": {off: true}} {
		r := Removal{Unit: "bundle", Total: 50, Budget: b, Items: []Item{{Name: "db", UID: "1", Protected: true}, {Name: "web", UID: "2"}}}
		free, rest := Part(r)
		if len(free.Items) != 0 || len(rest.Items) != 2 {
			t.Errorf("%s: %d go at once", name, len(free.Items))
		}
		v := DecideRemoval(rest)
		if !v.Held || !strings.Contains(v.Summary, "1 protected") {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

func TestUnprotected(t *testing.T) {
	old := map[string]string{fleet.AnnotationProtect: "true", fleet.AnnotationDeletionHeld: "h", "a": "b"}
	want := map[string]string{fleet.AnnotationProtect: "false", "a": "b"}
	if diff := cmp.Diff(want, Unprotected(old)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if old[fleet.AnnotationProtect] != "true" {
		t.Error("the argument was changed")
	}
}
