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
func (w *assemblyRun) tenant(dir bundle.Dir) *tenant {
	id := claim("all")
	if w.input.Access.ByPath != nil {
		id = claimOf(w.input.Access.For(dir.Path))
	}
	p := w.parties[id]
	if p == nil {
		p = &tenant{credentials: w.input.Access.For(dir.Path)}
		w.parties[id] = p
	}
	return p
}

// reuseResults takes over results that cannot have changed. It asks first for what they need
// besides the tree, so that it sees a new version within a range.
func (w *assemblyRun) reuseResults(ctx context.Context, m *Memory) error {
	var all []download
	for i, dir := range w.dirs {
		if before, ok := m.results[dir]; ok {
			w.addRequests(i, before.Inputs.Requests())
			all = append(all, w.missing[i]...)
		}
	}
	if err := w.s.fetchAll(ctx, uniqueDownloads(all)); err != nil {
		return err
	}
	comparisons := map[*tenant]*bundle.Comparison{}
	fetched := map[*tenant]map[chart.Request]chart.Fetched{}
	for i, dir := range w.dirs {
		before, ok := m.results[dir]
		if !ok {
			continue
		}
		who := w.tenant(dir)
		if comparisons[who] == nil {
			o := w.input.Options
			o.Fetched = map[chart.Request]chart.Fetched{}
			comparisons[who], fetched[who] = bundle.Compare(w.input.Tree, o), o.Fetched
		}
		for _, e := range w.missing[i] {
			fetched[who][e.request] = w.s.label(e)
		}
		if r, same := comparisons[who].Reuse(before); same {
			w.setResult(i, r)
		}
	}
	return ctx.Err()
}

// setResult keeps the result of a directory.
func (w *assemblyRun) setResult(i int, r bundle.Result) {
	w.results[i], w.done[i] = r, true
	w.bytes += memorySize(r)
}

// addRequests adds to what a directory needs.
func (w *assemblyRun) addRequests(i int, list []chart.Request) {
	who := w.tenant(w.dirs[i])
	for _, q := range list {
		if e := (download{request: q, tenant: who}); !slices.Contains(w.missing[i], e) {
			w.missing[i] = append(w.missing[i], e)
		}
	}
}

// assemble makes the results that are left: each as far as it goes, then all
// that they miss is fetched, and so on.
func (w *assemblyRun) assemble(ctx context.Context) error {
	for round := 0; ; round++ {
		var missing []download
		for i := range w.dirs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if limit := w.s.r.cfg.Limits.ReadingBytes; w.bytes > limit {
				return permanentf(reasonTooLarge, "the bundles have more than %d MiB together; let several GitRepos read parts of the repository (paths)", limit>>20)
			}
			if !w.done[i] {
				missing = append(missing, w.advanceDirectory(ctx, i, round)...)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if err := w.s.fetchAll(ctx, uniqueDownloads(missing)); err != nil {
			return err
		}
	}
}

// advanceDirectory brings one directory as far as it goes with what is there, and returns
// what it misses.
func (w *assemblyRun) advanceDirectory(ctx context.Context, i, round int) []download {
	r := w.assembleDirectory(ctx, i)
	before := len(w.missing[i])
	w.addRequests(i, r.Missing)
	fresh := w.missing[i][before:]
	if len(fresh) > 0 && round < w.s.r.cfg.Limits.Rounds {
		return fresh
	}
	if len(r.Missing) > 0 {
		r.Bundle, r.Missing = nil, nil
		r.Findings = append(r.Findings, finding.Finding{
			Path: r.Dir.Path, Severity: finding.Error, Rule: finding.RuleChart, Message: tooDeep,
			Hint: "put the charts into the repository",
		})
	}
	w.setResult(i, r)
	return nil
}

// assembleDirectory assembles one directory with what was fetched for it.
func (w *assemblyRun) assembleDirectory(ctx context.Context, i int) bundle.Result {
	o := w.input.Options
	o.Fetched = map[chart.Request]chart.Fetched{}
	left := w.s.r.cfg.Limits.DependencyBytes
	for _, e := range w.missing[i] {
		f, closing := w.s.open(ctx, e, left)
		defer closing()
		left -= int64(len(f.Archive))
		o.Fetched[e.request] = f
	}
	return bundle.Assemble(w.input.Tree, w.dirs[i], o)
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
