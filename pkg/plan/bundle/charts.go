package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonOffline is the reason of chart.Fetched.Err where nothing may be
// downloaded.
const ReasonOffline = "Offline"

// A remote is a chart that options of Helm name and that is not in the tree.
type remote struct {
	request chart.Request
	files   fs.FS
	place   place
}

// chartFinder finds the charts that options of Helm name.
type chartFinder struct{ *assembly }

// findCharts asks for all charts that are not in the bundle, each once: those
// with a repository, and those whose name is no path here.
func (c chartFinder) findCharts() {
	seen := map[chart.Request]bool{}
	for _, h := range c.helms() {
		o := h.options
		r := chart.Request{Repo: o.Repo, Chart: o.Chart, Version: o.Version}
		if o.Repo == "" && o.Chart == "" || seen[r] || c.full {
			continue
		}
		seen[r] = true
		if o.Repo == "" && c.localChart(h) {
			continue
		}
		key := "chart"
		if o.Repo != "" {
			key = "repo"
		}
		c.request(h, r, key)
	}
}

// request asks for a chart.
func (c chartFinder) request(h helm, r chart.Request, key string) {
	if _, err := chart.Locate(r); err != nil {
		c.addHelmError(h, finding.RuleChart, strings.Join(strings.Fields(err.Error()), " "), "", c.faultyKey(h, err, key))
		return
	}
	p := place{path: c.file.Path, subject: "chart"}
	if r.Chart != "" {
		p.subject = fmt.Sprintf("chart %q", chart.Redact(r.Chart))
	}
	p.line, p.column = c.helmPosition(h, key)
	got, ok := c.fetched(r)
	switch {
	case !ok:
	case got.Err == nil && got.Files == nil:
		c.addHelmError(h, finding.RuleChart, "the chart came without files", "", key)
	case got.Err != nil:
		key = c.faultyKey(h, got.Err, key)
		c.reportUnavailable(got.Err, func(rule, message string) { c.addHelmError(h, rule, message, "", key) })
	default:
		c.charts = append(c.charts, remote{request: r, files: got.Files, place: p})
	}
}

// faultyKey is the key below helm that an error about a chart is about: chart or
// version where the error is about these and they are set, else otherwise.
func (c chartFinder) faultyKey(h helm, err error, otherwise string) string {
	key, set := otherwise, false
	switch reconcile.ReasonOf(err) {
	case chart.ReasonChartNotFound:
		key, set = "chart", h.options.Chart != ""
	case chart.ReasonVersionNotFound, chart.ReasonInvalidVersion:
		key, set = "version", h.options.Version != ""
	}
	if !set {
		return otherwise
	}
	return key
}

// localChart reports whether a chart is a path of the tree. Such a chart must be a
// directory of the bundle: agents have nothing else.
func (c chartFinder) localChart(h helm) bool {
	name := h.options.Chart
	if strings.Contains(name, "://") || strings.Contains(name, "::") {
		return false
	}
	p := path.Join(c.base, name)
	at, err := "", errOutside
	if fs.ValidPath(p) {
		at, err = c.tree.resolve(p)
	}
	outside := !fs.ValidPath(p) || errors.Is(err, errOutside) || err == nil && !isWithin(c.base, at)
	switch {
	case outside, err != nil && strings.HasPrefix(path.Clean(name), "../"):
		c.addHelmError(h, finding.RuleOutside, fmt.Sprintf("helm.chart %q is outside of the bundle's directory", name),
			"move it below, or add a fleet.yaml further up", "chart")
	case errors.Is(err, fs.ErrNotExist):
		return c.looksLocal(h)
	case err != nil:
		c.addHelmError(h, finding.RuleFile, fmt.Sprintf("helm.chart %q cannot be read: %v", name, causeOf(err)), "", "chart")
	case !c.tree.isDir(at) && path.Base(name) == chartFile:
		c.addHelmError(h, finding.RuleChart, fmt.Sprintf("helm.chart %q is a file, and a chart is a directory", name), "write "+path.Dir(name), "chart")
	case !c.tree.isDir(at):
		c.addHelmError(h, finding.RuleChart, fmt.Sprintf("helm.chart %q is an archive in the repository; agents deploy only charts that are unpacked", name),
			"unpack it", "chart")
	}
	return true
}

// looksLocal reports a chart that is no source that could be downloaded.
func (c chartFinder) looksLocal(h helm) bool {
	name := h.options.Chart
	_, err := chart.Locate(chart.Request{Chart: name, Version: h.options.Version})
	if err == nil {
		return false
	}
	c.addHelmError(h, finding.RuleChart, fmt.Sprintf("helm.chart %q is no directory here, and nothing that can be downloaded", name),
		c.suggestNeighbour(name, c.hasChart), "chart")
	return true
}

// maxRequests is how many charts and dependencies one bundle may ask for.
const maxRequests = 500

// fetched returns what was fetched for a request. If there is nothing yet, it adds the request
// to those that are missing. A bundle with too many requests gets nothing.
func (a *assembly) fetched(r chart.Request) (chart.Fetched, bool) {
	a.wanted = true
	if a.requested[r] = true; len(a.requested) > maxRequests && !a.full {
		a.full = true
		a.addFinding(finding.Finding{
			Path: a.file.Path, Severity: finding.Error, Rule: finding.RuleTooLarge,
			Message: fmt.Sprintf("the bundle needs more than %d charts and dependencies from elsewhere", maxRequests),
		})
	}
	if a.blind || a.full {
		return chart.Fetched{}, false
	}
	got, ok := a.o.Fetched[r]
	if !ok {
		a.missing[r] = true
		return got, false
	}
	digest, known := fetchedDigest(got)
	a.askedBy[r] = digest
	a.unhashed = a.unhashed || !known
	return got, true
}

// reportUnavailable reports what cannot be had.
func (a *assembly) reportUnavailable(err error, report func(rule, message string)) {
	rule := finding.RuleChart
	switch {
	case reconcile.ReasonOf(err) == ReasonOffline:
		rule = finding.RuleOffline
	case reconcile.ReasonOf(err) == reconcile.ReasonLocal:
		rule = finding.RuleLocalFault
	}
	a.passing = a.passing || !reconcile.IsTerminal(err)
	report(rule, strings.Join(strings.Fields(err.Error()), " "))
}

func compareRequests(a, b chart.Request) int {
	archive := func(r chart.Request) int {
		if r.Archive {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(a.Repo, b.Repo), strings.Compare(a.Chart, b.Chart),
		strings.Compare(a.Version, b.Version), cmp.Compare(archive(a), archive(b)))
}
