package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"gopkg.in/yaml.v3"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

const (
	chartFile        = "Chart.yaml"
	requirementsFile = "requirements.yaml" // of charts of version v1
	chartBytes       = 1 << 20             // how large they, Chart.lock and .helmignore may be
	maxDependencies  = 200
)

// chartName matches the names that Helm accepts for a chart.
var chartName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func validName(name string) bool { return chartName.MatchString(name) && strings.Trim(name, ".") != "" }

// metadata has the fields of Chart.yaml that dependencies need.
type metadata struct {
	APIVersion   string        `json:"apiVersion"`
	Name         string        `json:"name"`
	Version      string        `json:"version"`
	Dependencies []*dependency `json:"dependencies"`
}

// A chartUpdate is the work on the dependencies of one chart directory.
type chartUpdate struct {
	c         *collector
	dir, name string // of the directory
	file      string // that names the dependencies, relative to the directory
	node      *yaml.Node
	v1        bool
	wanted    []*dependency
	resolved  []*dependency
	packed    map[string][]byte // archives by file name
	lacking   bool              // something is not fetched yet, or cannot be had
}

// dependencies does for a directory what "helm dependency update" would: if it is a chart
// and charts/ lacks a dependency, it packages all of them there and writes Chart.lock. Like
// Helm when it installs a chart, it compares names only, not versions.
func (c *collector) dependencies(at, name string) {
	if h := c.a.spec.Helm; h != nil && h.DisableDependencyUpdate || c.a.skip[name] {
		return
	}
	u := &chartUpdate{c: c, dir: at, name: name, packed: map[string][]byte{}}
	if !u.readMetadata() || len(u.wanted) == 0 {
		return
	}
	present, ok := c.subcharts(at, name)
	if !ok || !slices.ContainsFunc(u.wanted, func(d *dependency) bool { return present[d.Name] == nil }) {
		return
	}
	for i, d := range u.wanted {
		if u.resolveDependency(i, d); c.a.full {
			return
		}
	}
	if u.lacking || len(u.resolved) != len(u.wanted) {
		return
	}
	u.writeArchives(present)
}

// addError reports an error at a field of a dependency.
func (u *chartUpdate) addError(i int, field, rule, message, hint string) {
	line := 0
	if list := child(u.node, "dependencies"); list != nil && i < len(list.Content) {
		n := list.Content[i]
		line = n.Line
		if v := child(n, field); v != nil {
			line = v.Line
		}
	}
	u.lacking = true
	u.c.failAt(path.Join(u.name, u.file), line, rule, message, hint)
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// readMetadata reads Chart.yaml, and requirements.yaml where there is one.
func (u *chartUpdate) readMetadata() bool {
	var m metadata
	data, ok := u.readYAML(chartFile, &m)
	if !ok {
		return false
	}
	u.file = chartFile
	u.v1 = m.APIVersion == "v1"
	if more, ok := u.readYAML(requirementsFile, &m); ok {
		u.file, data = requirementsFile, more
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err == nil {
		u.node = &doc
	}
	u.wanted = m.Dependencies
	if len(u.wanted) > maxDependencies {
		u.c.addError(path.Join(u.name, u.file), finding.RuleTooLarge, fmt.Sprintf("there are more than %d dependencies", maxDependencies))
		return false
	}
	for i, d := range u.wanted {
		if d == nil || !validName(d.Name) {
			u.addError(i, "name", finding.RuleChart, "dependency has no valid name", "names of charts have letters, digits, dots and dashes")
			return false
		}
	}
	return true
}

// readYAML reads a file of the chart. A fault is reported.
func (u *chartUpdate) readYAML(base string, into any) ([]byte, bool) {
	name := path.Join(u.name, base)
	if _, err := fs.Lstat(u.c.tree.fs, path.Join(u.dir, base)); err != nil {
		return nil, false // the directory is noted anyway
	}
	target, mode, ok := u.c.resolveLink(path.Join(u.dir, base), name)
	if !ok || mode.IsDir() {
		return nil, false
	}
	data, err := u.c.tree.readFile(target, chartBytes)
	if err != nil {
		u.c.addError(name, finding.RuleFile, "cannot be read: "+causeOf(err).Error())
		return nil, false
	}
	if why, line := aliasBombReason(data); why != "" {
		u.c.failAt(name, line, finding.RuleTooLarge, why, "")
		return nil, false
	}
	if err := sigyaml.Unmarshal(data, into); err != nil {
		f := fleetyaml.SyntaxFinding(name, position.Document{Text: data}, err, "")
		u.c.failAt(name, f.Line, f.Rule, f.Message, "")
		return nil, false
	}
	if f, over := fleetyaml.LeftOver(name, position.Document{Text: data}); over {
		u.c.failAt(name, f.Line, f.Rule, f.Message, "")
		return nil, false
	}
	return data, true
}

// resolveDependency finds the chart of one dependency.
func (u *chartUpdate) resolveDependency(i int, d *dependency) {
	if _, err := semver.NewConstraint(d.Version); err != nil {
		u.addError(i, "version", finding.RuleVersion, fmt.Sprintf("dependency %q: version %q is no version and no range", d.Name, d.Version), "")
		return
	}
	switch repo := d.Repository; {
	case repo == "":
		u.takeLocal(i, d, path.Join("charts", d.Name))
	case strings.HasPrefix(repo, "file://"):
		u.takeLocal(i, d, strings.TrimPrefix(repo, "file://"))
	case strings.HasPrefix(repo, "@"), strings.HasPrefix(repo, "alias:"):
		u.addError(i, "repository", finding.RuleChart, fmt.Sprintf("dependency %q: repository %q is a name that only your own Helm knows", d.Name, repo), "write the repository's URL")
	default:
		parsed, err := url.ParseRequestURI(repo)
		if err != nil || parsed.Host == "" || !slices.Contains([]string{"http", "https", "oci"}, parsed.Scheme) {
			u.addError(i, "repository", finding.RuleChart, fmt.Sprintf("dependency %q: its repository is no URL", d.Name), "write https://, oci:// or file://")
			return
		}
		u.takeRemote(i, d)
	}
}

// takeRemote takes what was fetched, or asks for it.
func (u *chartUpdate) takeRemote(i int, d *dependency) {
	request := chart.Request{Repo: d.Repository, Chart: d.Name, Version: d.Version, Archive: true}
	if strings.HasPrefix(d.Repository, "oci://") {
		request.Repo, request.Chart = strings.TrimSuffix(d.Repository, "/")+"/"+d.Name, ""
	}
	got, ok := u.c.a.fetched(request)
	if !ok {
		u.lacking = true
		return
	}
	if got.Err != nil {
		u.lacking = true
		line := 0
		if list := child(u.node, "dependencies"); list != nil && i < len(list.Content) {
			line = list.Content[i].Line
		}
		u.c.a.reportUnavailable(got.Err, func(rule, message string) {
			u.c.failAt(path.Join(u.name, u.file), line, rule, fmt.Sprintf("dependency %q: %s", d.Name, message), "")
		})
		return
	}
	version := got.Version
	if got.Name != "" && got.Name != d.Name {
		u.addError(i, "name", finding.RuleChart, fmt.Sprintf("dependency %q: the repository has a chart named %q for it", d.Name, got.Name), "")
		return
	}
	if _, err := semver.NewVersion(version); err != nil {
		u.addError(i, "version", finding.RuleChart, fmt.Sprintf("dependency %q: the repository has version %q for it, which is none", d.Name, version), "")
		return
	}
	u.putArchive(d, version, got.Archive)
}

func (u *chartUpdate) putArchive(d *dependency, version string, archive []byte) {
	u.resolved = append(u.resolved, &dependency{Name: d.Name, Version: version, Repository: d.Repository})
	if archive != nil {
		u.packed[d.Name+"-"+version+".tgz"] = archive
	}
}

// takeLocal takes a chart from the tree: one that is unpacked in charts/ already,
// or one elsewhere, which is packaged.
func (u *chartUpdate) takeLocal(i int, d *dependency, rel string) {
	dir := path.Join(u.dir, rel)
	if path.IsAbs(rel) || !fs.ValidPath(dir) || u.c.chart != nil && !isWithin(u.c.base, dir) {
		u.addError(i, "repository", finding.RuleOutside, fmt.Sprintf("dependency %q: %s leads out of the repository", d.Name, d.Repository), "")
		return
	}
	at, err := u.c.tree.resolve(dir)
	if err != nil || !u.c.tree.isDir(at) {
		rule, text := finding.RuleChart, "there is no directory "+dir
		if errors.Is(err, errOutside) {
			rule, text = finding.RuleOutside, "it leads out of the repository"
		}
		u.addError(i, "repository", rule, fmt.Sprintf("dependency %q: %s", d.Name, text), "")
		return
	}
	data, err := u.c.tree.findFile(path.Join(at, chartFile), chartBytes)
	var m metadata
	if err == nil {
		if why, _ := aliasBombReason(data); why != "" {
			err = errors.New(why)
		} else {
			err = sigyaml.Unmarshal(data, &m)
		}
	}
	if err != nil {
		u.addError(i, "repository", finding.RuleChart, fmt.Sprintf("dependency %q: %s cannot be read: %v", d.Name, path.Join(at, chartFile), causeOf(err)), "")
		return
	}
	version, err := semver.NewVersion(m.Version)
	constraint, _ := semver.NewConstraint(d.Version)
	if err != nil || !constraint.Check(version) {
		u.addError(i, "version", finding.RuleVersion, fmt.Sprintf("dependency %q: %s has version %q, which does not satisfy %q", d.Name, at, m.Version, d.Version), "")
		return
	}
	if d.Repository == "" { // it stays where it is
		u.putArchive(d, d.Version, nil)
		return
	}
	if !validName(m.Name) || strings.Contains(m.Version, "/") {
		u.addError(i, "repository", finding.RuleChart, fmt.Sprintf("dependency %q: %s has no valid name", d.Name, path.Join(at, chartFile)), "")
		return
	}
	if why := u.c.leadsTo(at, u.dir); why != "" {
		u.addError(i, "repository", finding.RuleChart, fmt.Sprintf("dependency %q: %s %s", d.Name, at, why), "")
		return
	}
	u.packLocal(i, d, at, m)
}

// writeArchives puts the archives into charts/ in the place of those that stood there,
// and writes Chart.lock, unless what stands in it says the same.
func (u *chartUpdate) writeArchives(present map[string][]string) {
	charts := path.Join(u.dir, "charts")
	local := map[string]bool{}
	for _, d := range u.wanted {
		local[d.Name] = local[d.Name] || d.Repository == ""
	}
	if u.c.overlay == nil {
		u.c.overlay = overlayFiles{}
	}
	for name, archives := range present {
		for _, base := range archives {
			if !local[name] {
				u.c.overlay.put(charts, base, nil)
			}
		}
	}
	if u.c.a.spent.made += len(u.packed) + 1; u.c.a.spent.made > u.c.a.o.Limits.Files {
		u.c.tooLarge("", fmt.Sprintf("the bundle's charts have more than %d dependencies together", u.c.a.o.Limits.Files))
		return
	}
	for base, archive := range u.packed {
		u.c.overlay.put(charts, base, archive)
	}
	l, err := newLock(u.wanted, u.resolved)
	base := "Chart.lock"
	if u.v1 {
		base = "requirements.lock"
	}
	if err == nil {
		var old lock
		if _, ok := u.readYAML(base, &old); ok && old.Digest == l.Digest {
			return
		}
		var data []byte
		if data, err = l.encode(); err == nil {
			u.c.overlay.put(u.dir, base, data)
		}
	}
	if err != nil {
		u.c.addError(path.Join(u.name, u.file), finding.RuleChart, "dependencies have no lock: "+err.Error())
	}
}
