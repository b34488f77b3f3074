package bundle

import (
	"errors"
	"fmt"
	"path"
	"strings"

	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// maxPacks is how many dependencies may be packaged for one bundle.
const maxPacks = 1000

// packLocal packages a directory as the archive of a dependency. If that is too
// much, nothing more is looked at.
func (u *chartUpdate) packLocal(i int, d *dependency, at string, m metadata) {
	archive, err := u.archive(at, m)
	if err != nil {
		rule := finding.RuleChart
		if errors.Is(err, errTooLarge) {
			rule, u.c.a.full = finding.RuleTooLarge, true
		}
		u.addError(i, "repository", rule, fmt.Sprintf("dependency %q: %s cannot be packaged: %v", d.Name, at, causeOf(err)), "")
		return
	}
	u.resolved = append(u.resolved, &dependency{Name: d.Name, Version: m.Version, Repository: d.Repository})
	u.packed[m.Name+"-"+m.Version+".tgz"] = archive
}

// archive packages a directory, within what all of a bundle may take.
func (u *chartUpdate) archive(at string, m metadata) ([]byte, error) {
	spent, limits := &u.c.a.spent, u.c.a.o.Limits
	p := &packer{c: u.c, base: at}
	if p.readFiles(); p.err != nil {
		return nil, p.err
	}
	spent.packs++
	if spent.raw += p.bytes; spent.packs > maxPacks || spent.raw > limits.TotalBytes {
		return nil, errTooLarge
	}
	archive, err := packChart(m.Name, p.files, limits.FileBytes)
	if spent.packed += int64(len(archive)); err == nil && spent.packed > int64(limits.StoredBytes) {
		err = errTooLarge
	}
	return archive, err
}

// leadsTo returns why a chart in the tree cannot be a dependency of another chart: it
// depends on that chart, or on too many charts to find out.
func (c *collector) leadsTo(from, to string) (why string) {
	const circle = "depends on, or holds, the chart that depends on it"
	if isWithin(from, to) {
		return circle
	}
	seen := map[string]bool{from: true}
	for todo := []string{from}; len(todo) > 0; todo = todo[1:] {
		for _, next := range c.localDependencies(todo[0]) {
			switch {
			case next == to:
				return circle
			case seen[next]:
				continue
			case len(seen) > maxDependencies:
				return fmt.Sprintf("depends on more than %d other charts of the repository", maxDependencies)
			}
			seen[next] = true
			todo = append(todo, next)
		}
	}
	return ""
}

// localDependencies are the directories of the charts in the tree that a chart
// depends on.
func (c *collector) localDependencies(dir string) []string {
	if known, ok := c.chartDependencies[dir]; ok {
		return known
	}
	var list []string
	var m metadata
	data, err := c.tree.findFile(path.Join(dir, chartFile), chartBytes)
	if why, _ := aliasBombReason(data); err == nil && why == "" && sigyaml.Unmarshal(data, &m) == nil {
		for _, d := range m.Dependencies[:min(len(m.Dependencies), maxDependencies)] {
			if d == nil {
				continue
			}
			if rel, ok := strings.CutPrefix(d.Repository, "file://"); ok {
				list = append(list, path.Join(dir, rel))
			}
		}
	}
	if c.chartDependencies == nil {
		c.chartDependencies = map[string][]string{}
	}
	c.chartDependencies[dir] = list
	return list
}
