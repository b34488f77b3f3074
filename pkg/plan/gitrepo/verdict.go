package gitrepo

import (
	"fmt"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// A Verdict sums up what is wrong with some bundles of a repository. The zero Verdict means
// that nothing is wrong.
type Verdict struct {
	Reason, Message string
	// Retry reports that some of it may pass by itself, so that the repository is
	// read again, and Passing that this holds for all of it and needs no person.
	Retry, Passing bool
	// Warning is a notice without a failure: the reading ignores something, or
	// something is probably not meant.
	Warning Notice
}

// SummarizeFindings sums up a reading and what was found while it was written: the reason and the text
// of the first error by place, and how many more there are. Errors that stay precede those
// that may pass. If there is no error, SummarizeFindings sums up the warnings.
func SummarizeFindings(set bundle.Set, written []finding.Finding) Verdict {
	var v Verdict
	lasting := finding.Errors(append(slices.Clone(set.Findings), written...))
	var passing []finding.Finding
	for _, r := range set.Results {
		if r.Retry {
			v.Retry = true
			passing = append(passing, finding.Errors(r.Findings)...)
			continue
		}
		lasting = append(lasting, finding.Errors(r.Findings)...)
	}
	finding.Sort(lasting)
	finding.Sort(passing)
	slices.SortStableFunc(passing, func(a, b finding.Finding) int { return localFirst(a) - localFirst(b) })
	list := append(lasting, passing...)
	if len(list) == 0 {
		v.Warning = warning(append(set.AllFindings(), written...))
		return v
	}
	v.Passing = len(lasting) == 0 && !slices.ContainsFunc(passing, func(f finding.Finding) bool { return f.Rule == finding.RuleLocalFault })
	v.Reason, v.Message = list[0].Reason(), shortFinding(list[0], len(list)-1)
	return v
}

// localFirst orders faults of this process, which need a person, before others.
func localFirst(f finding.Finding) int {
	if f.Rule == finding.RuleLocalFault {
		return 0
	}
	return 1
}

// warning is the first of a list of warnings by place, and how many more there
// are.
func warning(list []finding.Finding) Notice {
	finding.Sort(list)
	list = slices.Compact(list)
	if len(list) == 0 {
		return Notice{}
	}
	return Notice{Warning: true, Reason: list[0].Reason(), Message: shortFinding(list[0], len(list)-1)}
}

// shortFinding is a finding as it fits into a condition, with how many more there are.
func shortFinding(f finding.Finding, others int) string {
	more := ""
	if others > 0 {
		more = fmt.Sprintf(" (and %d more)", others)
	}
	return condition.Cut(condition.Message(f.Short()), condition.MessageLimit-len(more)) + more
}

// maxChanges is how many findings of one reading are reported.
const maxChanges = 50

// ReasonMoreFindings is the reason of the notice that there are more findings than are
// reported.
const ReasonMoreFindings = "MoreFindings"

// Findings returns the findings of a reading as notices, by place, errors first: at most
// 50, and then one that says how many more there are. It leaves out those whose text is in
// reported.
func Findings(found []finding.Finding, reported map[string]bool) []Notice {
	list := slices.Clone(found)
	finding.Sort(list)
	slices.SortStableFunc(list, func(a, b finding.Finding) int { return findingRank(a) - findingRank(b) })
	var changes []Notice
	more := 0
	seen := map[string]bool{}
	for _, f := range list {
		n := Notice{Warning: true, Reason: f.Reason(), Message: f.Short()}
		switch {
		case seen[n.Message]:
			continue
		case len(seen) >= maxChanges:
			more++
		case !reported[n.Message]:
			changes = append(changes, n)
		}
		if len(seen) < maxChanges {
			seen[n.Message] = true
		}
	}
	if more > 0 {
		n := Notice{Warning: true, Reason: ReasonMoreFindings, Message: fmt.Sprintf("%d more findings are not listed; fleet lint shows all", more)}
		if !reported[n.Message] {
			changes = append(changes, n)
		}
	}
	return changes
}

func findingRank(f finding.Finding) int {
	if f.Severity == finding.Error {
		return 0
	}
	return 1
}
