package gitrepo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

func TestJudge(t *testing.T) {
	one := func(retry bool, list []finding.Finding) bundle.Result {
		return bundle.Result{Retry: retry, Findings: list}
	}
	warning := []finding.Finding{{Path: "w", Line: 3, Severity: finding.Warning, Rule: finding.RuleUnknownKey, Message: "odd"}}
	cases := map[string]struct {
		why     string
		set     bundle.Set
		written []finding.Finding
		want    Verdict
	}{
		"Fine": {set: bundle.Set{Results: []bundle.Result{one(false, nil)}}},
		"Odd": {
			why: "it works, and people can see what is probably not meant", set: bundle.Set{Results: []bundle.Result{one(false, warning)}, Findings: warning},
			want: Verdict{Warning: Notice{Warning: true, Reason: "UnknownKey", Message: "w:3: odd"}},
		},
		"OddAndBroken": {
			why: "errors go first, and are counted alone", set: bundle.Set{Findings: found("z", 1, "x"), Results: []bundle.Result{one(false, warning)}},
			want: Verdict{Reason: "InvalidYAML", Message: "z:1: x"},
		},
		"FirstOne": {set: bundle.Set{Findings: found("b", 3, "x"), Results: []bundle.Result{one(false, found("a.yaml", 1, "first"))}}, want: Verdict{Reason: "InvalidYAML", Message: "a.yaml:1: first (and 1 more)"}},
		"Written":  {written: found("z", 0, "taken"), want: Verdict{Reason: "InvalidYAML", Message: "z: taken"}},
		"MayPass": {
			why: "it is tried again, without an action of the user", set: bundle.Set{Results: []bundle.Result{one(true, found("a", 1, "away"))}},
			want: Verdict{Reason: "InvalidYAML", Message: "a:1: away", Retry: true, Passing: true},
		},
		"Local": {
			why: "it is tried again, and a person has to do something: it goes before what passes",
			set: bundle.Set{Results: []bundle.Result{one(true, found("a", 1, "away")), one(true, []finding.Finding{
				{Path: "b", Line: 1, Severity: finding.Error, Rule: finding.RuleLocalFault, Message: "full"},
			})}},
			want: Verdict{Reason: "LocalFault", Message: "b:1: full (and 1 more)", Retry: true},
		},
		"Both": {
			why:  "what a person has to change goes first, and it is tried again all the same",
			set:  bundle.Set{Results: []bundle.Result{one(true, found("a", 1, "away")), one(false, found("b", 1, "broken"))}},
			want: Verdict{Reason: "InvalidYAML", Message: "b:1: broken (and 1 more)", Retry: true},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, SummarizeFindings(c.set, c.written)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
	long := SummarizeFindings(bundle.Set{Findings: append(found("c.yaml", 1, strings.Repeat("x", 1100)), found("d", 1, "last")...)}, nil).Message
	if n := len([]rune(long)); n > condition.MessageLimit || !strings.HasSuffix(long, "… (and 1 more)") {
		t.Errorf("want the count kept within the limit, got %d: %s", n, long)
	}
}

func TestFindings(t *testing.T) {
	list := found("b", 2, "two")
	list = append(list, found("a", 1, "one")...)
	list = append(list, finding.Finding{Path: "a", Severity: finding.Warning, Rule: finding.RuleUnknownKey, Message: "odd"})
	list = append(list, found("b", 2, "two")...)
	want := []Notice{
		{Warning: true, Reason: "InvalidYAML", Message: "a:1: one"},
		{Warning: true, Reason: "InvalidYAML", Message: "b:2: two"},
		{Warning: true, Reason: "UnknownKey", Message: "a: odd"},
	}
	if diff := cmp.Diff(want, Findings(list, nil)); diff != "" {
		t.Errorf("errors first, each once\n-want +got\n%s", diff)
	}
	if got := Findings(list, map[string]bool{"a:1: one": true, "b:2: two": true, "a: odd": true}); got != nil {
		t.Errorf("what was reported is not reported again, got %v", got)
	}
	for i := range 70 {
		list = append(list, found("many", i+1, fmt.Sprint(i))...)
	}
	changes := Findings(list, nil)
	if len(changes) != maxChanges+1 || changes[maxChanges].Message != "23 more findings are not listed; fleet lint shows all" {
		t.Errorf("want %d and one that counts the rest, got %d: %v", maxChanges, len(changes), changes[len(changes)-1])
	}
	reported := map[string]bool{}
	for _, n := range changes {
		reported[n.Message] = true
	}
	if again := Findings(list, reported); again != nil {
		t.Errorf("the rest of them are not reported later, got %v", again)
	}
}
