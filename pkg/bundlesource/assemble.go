package bundlesource

import (
	"context"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// tooDeep is said of a bundle that asks for more and more.
const tooDeep = "too much has to be fetched for it, one thing because of another"

// assemblyRun is the directories of one reading on their way to results.
type assemblyRun struct {
	s       *session
	input   Input
	dirs    []bundle.Dir
	results []bundle.Result
	done    []bool
	missing [][]download // of each directory, so far
	parties map[claim]*tenant
	bytes   int64 // of results
}

func newWork(s *session, in Input, dirs []bundle.Dir) *assemblyRun {
	return &assemblyRun{
		s: s, input: in, dirs: dirs, results: make([]bundle.Result, len(dirs)), done: make([]bool, len(dirs)),
		missing: make([][]download, len(dirs)), parties: map[claim]*tenant{},
	}
}

// tenant is who asks for what a directory needs. Directories with the same
// credentials are one.
func (a *assemblyRun) tenant(dir bundle.Dir) *tenant {
	id := claim("all")
	if a.input.Access.ByPath != nil {
		id = claimOf(a.input.Access.For(dir.Path))
	}
	p := a.parties[id]
	if p == nil {
		p = &tenant{credentials: a.input.Access.For(dir.Path)}
		a.parties[id] = p
	}
	return p
}

// reuseResults takes over results that cannot have changed. It asks first for what they need
// besides the tree, so that it sees a new version within a range.
func (a *assemblyRun) reuseResults(ctx context.Context, m *Memory) error {
	var all []download
	for i, dir := range a.dirs {
		if before, ok := m.results[dir]; ok {
			a.addRequests(i, before.Inputs.Requests())
			all = append(all, a.missing[i]...)
		}
	}
	if err := a.s.fetchAll(ctx, uniqueDownloads(all)); err != nil {
		return err
	}
	comparisons := map[*tenant]*bundle.Comparison{}
	fetched := map[*tenant]map[chart.Request]chart.Fetched{}
	for i, dir := range a.dirs {
		before, ok := m.results[dir]
		if !ok {
			continue
		}
		who := a.tenant(dir)
		if comparisons[who] == nil {
			o := a.input.Options
			o.Fetched = map[chart.Request]chart.Fetched{}
			comparisons[who], fetched[who] = bundle.Compare(a.input.Tree, o), o.Fetched
		}
		for _, e := range a.missing[i] {
			fetched[who][e.request] = a.s.label(e)
		}
		if r, same := comparisons[who].Reuse(before); same {
			a.setResult(i, r)
		}
	}
	return ctx.Err()
}

// setResult keeps the result of a directory.
func (a *assemblyRun) setResult(i int, r bundle.Result) {
	a.results[i], a.done[i] = r, true
	a.bytes += memorySize(r)
}

// addRequests adds to what a directory needs.
func (a *assemblyRun) addRequests(i int, list []chart.Request) {
	who := a.tenant(a.dirs[i])
	for _, q := range list {
		if e := (download{request: q, tenant: who}); !slices.Contains(a.missing[i], e) {
			a.missing[i] = append(a.missing[i], e)
		}
	}
}

// assemble makes the results that are left: each as far as it goes, then all
// that they miss is fetched, and so on.
func (a *assemblyRun) assemble(ctx context.Context) error {
	for round := 0; ; round++ {
		var missing []download
		for i := range a.dirs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if limit := a.s.r.cfg.Limits.ReadingBytes; a.bytes > limit {
				return permanentf(reasonTooLarge, "the bundles have more than %d MiB together; let several GitRepos read parts of the repository (paths)", limit>>20)
			}
			if !a.done[i] {
				missing = append(missing, a.advanceDirectory(ctx, i, round)...)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if err := a.s.fetchAll(ctx, uniqueDownloads(missing)); err != nil {
			return err
		}
	}
}

// advanceDirectory brings one directory as far as it goes with what is there, and returns
// what it misses.
func (a *assemblyRun) advanceDirectory(ctx context.Context, i, round int) []download {
	r := a.assembleDirectory(ctx, i)
	before := len(a.missing[i])
	a.addRequests(i, r.Missing)
	fresh := a.missing[i][before:]
	if len(fresh) > 0 && round < a.s.r.cfg.Limits.Rounds {
		return fresh
	}
	if len(r.Missing) > 0 {
		r.Bundle, r.Missing = nil, nil
		r.Findings = append(r.Findings, finding.Finding{
			Path: r.Dir.Path, Severity: finding.Error, Rule: finding.RuleChart, Message: tooDeep,
			Hint: "put the charts into the repository",
		})
	}
	a.setResult(i, r)
	return nil
}

// assembleDirectory assembles one directory with what was fetched for it.
func (a *assemblyRun) assembleDirectory(ctx context.Context, i int) bundle.Result {
	o := a.input.Options
	o.Fetched = map[chart.Request]chart.Fetched{}
	left := a.s.r.cfg.Limits.DependencyBytes
	for _, e := range a.missing[i] {
		f, closing := a.s.open(ctx, e, left)
		defer closing()
		left -= int64(len(f.Archive))
		o.Fetched[e.request] = f
	}
	return bundle.Assemble(a.input.Tree, a.dirs[i], o)
}

// uniqueDownloads is a list without repetitions, in its order.
func uniqueDownloads(list []download) []download {
	seen := make(map[download]bool, len(list))
	return slices.DeleteFunc(list, func(e download) bool {
		again := seen[e]
		seen[e] = true
		return again
	})
}
