package gitrepo

import (
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// CheckPaths distinguishes paths of the spec that never led to a directory, which are
// probably mistyped, from paths whose directory a commit has removed. The former become
// errors of the set that it returns, so that nothing is removed because of them; the latter
// stay warnings. led are the paths of the spec that lead to a directory or did in an
// earlier reading; last is the reading before this one.
func CheckPaths(set bundle.Set, repo *fleet.GitRepo, last Read) (checked bundle.Set, led []string) {
	if len(repo.Spec.Bundles) > 0 {
		return set, nil // these are no paths, and one that is not there is an error already
	}
	before := ledBefore(repo, last)
	never := map[string]bool{}
	set.Findings = slices.Clone(set.Findings)
	for _, a := range set.Absent {
		if slices.Contains(before, a.Path) || never[a.Path] {
			continue
		}
		never[a.Path] = true
		set.Findings = slices.DeleteFunc(set.Findings, func(f finding.Finding) bool { return f == a.Found })
		set.Findings = append(set.Findings, finding.Finding{Severity: finding.Error, Rule: finding.RuleFile, Message: AbsentPath(a)})
	}
	for _, p := range repo.Spec.Paths {
		if !never[p] && !slices.Contains(led, p) {
			led = append(led, p)
		}
	}
	return set, led
}

// ledBefore are the paths that are known to have led to a directory. The status does
// not say them if an older manager has written it; then all paths of the spec that it
// read did, if the reading was complete.
func ledBefore(repo *fleet.GitRepo, last Read) []string {
	var before []string
	if last.Known && last.Err == nil {
		before = slices.Clone(last.Paths) // the status may be behind what we did
	}
	r := repo.Status.Reading
	switch {
	case r == nil:
	case len(r.Paths) > 0:
		before = append(before, r.Paths...)
	case r.Complete && r.Generation == repo.Generation:
		before = append(before, repo.Spec.Paths...)
	}
	return before
}

// AbsentPath returns the message about a path of spec.paths that leads to no directory of
// the repository.
func AbsentPath(a bundle.Absent) string {
	if a.File {
		return fmt.Sprintf("path %q: %s; nothing is removed until spec.paths is mended", a.Path, a.Found.Message)
	}
	text := fmt.Sprintf("path %q is not in the repository; ", a.Path)
	switch {
	case strings.HasSuffix(a.Hint, "?"):
		text += a.Hint + " "
	case a.Hint != "":
		text += a.Hint + "; "
	}
	return text + "nothing is removed until it is there or taken out of spec.paths"
}

// AllIgnored returns the message about a repository of which files .fleetignore leave
// nothing to deploy; it is empty where none does.
func AllIgnored(set bundle.Set) string {
	for _, r := range set.Results {
		if f, ok := r.IgnoredBy(); ok {
			return f.Short() + "; what was deployed before stays"
		}
	}
	return ""
}
