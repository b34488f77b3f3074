package deploy

import (
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestBackOff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 5: 32 * time.Second, 9: lastDelay, 500: lastDelay} {
		if got := backOff(attempts); got != want {
			t.Errorf("after %d attempts: want %v, got %v", attempts, want, got)
		}
	}
}

// The first corrections come at once; then they come slower and slower, until
// nobody works against them any more.
func TestNextCorrection(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}}
	cases := map[string]struct {
		why    string
		before int           // corrections
		passed time.Duration // since the last one
		want   time.Duration
	}{
		"First":  {why: "nothing was corrected yet", want: 0},
		"Third":  {why: "a person may try twice", before: 2, passed: time.Second, want: 0},
		"Fourth": {why: "somebody is at work", before: 3, passed: time.Second, want: 4 * time.Second},
		"Sixth":  {why: "and does not stop", before: 5, want: 20 * time.Second},
		"Many":   {why: "but never longer than 5 minutes", before: 50, want: correctionLimit},
		"Calm":   {why: "it is over", before: 50, passed: correctionCalm, want: 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := &state{corrections: c.before, corrected: now.Add(-c.passed)}
			if got := r.nextCorrection(st); got != c.want {
				t.Errorf("%s: want %v, got %v", c.why, c.want, got)
			}
		})
	}
}

func TestSameRepository(t *testing.T) {
	git := func(ns, repo string) map[string]string {
		return map[string]string{fleet.LabelBundleNamespace: ns, fleet.LabelRepoName: repo}
	}
	op := map[string]string{fleet.LabelBundleNamespace: "a", fleet.LabelHelmOpName: "r"}
	cases := map[string]struct {
		a, b map[string]string
		want bool
	}{
		"Same":           {git("a", "r"), git("a", "r"), true},
		"OtherRepo":      {git("a", "r"), git("a", "s"), false},
		"OtherWorkspace": {git("a", "r"), git("b", "r"), false},
		"NoRepo":         {git("a", ""), git("a", ""), false},
		"HelmOp":         {op, op, true},
		"RepoAndHelmOp":  {git("a", "r"), op, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sameRepository(c.a, c.b); got != c.want {
				t.Errorf("want %v, got %v", c.want, got)
			}
		})
	}
}

func TestMustLook(t *testing.T) {
	at := ref{kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, key: kube.Key{Namespace: "n", Name: "a"}}
	v := &view{objects: map[ref]*seen{at: {object: report.Object{}, version: 10}}}
	cases := map[string]struct {
		why     string
		at      ref
		version string
		want    bool
	}{
		"Newer": {why: "a change after the last look", at: at, version: "11", want: true},
		"Seen":  {why: "the list that a watch begins with", at: at, version: "10"},
		"Older": {why: "news that arrived late", at: at, version: "9"},
		"Gone":  {why: "a deletion has no version", at: at, want: true},
		"Other": {why: "an object that the manifest does not have", at: ref{kind: at.kind}, version: "99"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := v.mustLook(c.at, c.version); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}

func TestAccepts(t *testing.T) {
	if !accepts(fleet.BundleRef{}, fleet.Ready) || accepts(fleet.BundleRef{}, fleet.Modified) {
		t.Error("by default only Ready is accepted")
	}
	ref := fleet.BundleRef{AcceptedStates: []fleet.BundleState{fleet.Modified}}
	if !accepts(ref, fleet.Modified) || accepts(ref, fleet.Ready) {
		t.Error("a list replaces the default")
	}
}
