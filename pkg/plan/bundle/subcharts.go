package bundle

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// subcharts are the charts in charts/ of a chart by name, as Helm loads them:
// directories, and archives, whose file names are listed. ok is false if one of
// them cannot be read, which is reported.
func (c *collector) subcharts(at, name string) (present map[string][]string, ok bool) {
	present = map[string][]string{}
	ignore, ok := c.helmIgnore(at, name)
	if !ok {
		return nil, false
	}
	charts := path.Join(at, "charts")
	if !c.overlay.adds(charts) && !c.tree.isDir(charts) {
		return present, true
	}
	dir, err := c.tree.resolve(charts)
	if err != nil || !isWithin(c.base, dir) {
		return present, true // the walk will say it
	}
	entries, err := c.entries(dir)
	if err != nil {
		return present, true
	}
	for _, e := range entries {
		rel := path.Join("charts", e.name)
		if strings.HasPrefix(e.name, "_") || strings.HasPrefix(e.name, ".") || ignore.ignored(rel, e.mode.IsDir()) {
			continue
		}
		sub, err := c.subchart(e, path.Join(dir, e.name))
		if err != nil {
			c.addError(path.Join(name, rel), finding.RuleChart, "cannot be read as a chart: "+causeOf(err).Error())
			return nil, false
		}
		if sub == "" {
			continue
		}
		list := present[sub]
		if list == nil {
			list = []string{}
		}
		if path.Ext(e.name) == ".tgz" {
			list = append(list, e.name)
		}
		present[sub] = list
	}
	return present, true
}

// subchart is the name of the chart that is one entry of charts/; empty if it
// is none.
func (c *collector) subchart(e entry, at string) (string, error) {
	var data []byte
	var err error
	switch {
	case e.made && path.Ext(e.name) == ".tgz":
		data, err = c.chartOf(e.data)
	case e.made:
		return "", nil
	case path.Ext(e.name) == ".tgz" && !e.mode.IsDir():
		if data, err = c.tree.findFile(at, c.a.o.Limits.FileBytes); err == nil {
			data, err = c.chartOf(data)
		}
	case !c.tree.isDir(at):
		return "", nil
	default:
		if data, err = c.tree.findFile(path.Join(at, chartFile), chartBytes); err != nil {
			return "", nil // not a chart
		}
	}
	if err != nil {
		return "", err
	}
	if why, _ := aliasBombReason(data); why != "" {
		return "", errors.New(why)
	}
	var m metadata
	if err := sigyaml.Unmarshal(data, &m); err != nil {
		return "", fmt.Errorf("its Chart.yaml is not valid")
	}
	return m.Name, nil
}

// openBytes bounds the archives that are opened for one bundle to find their
// Chart.yaml, and what is unpacked of them.
const openBytes = 512 << 20

// chartOf reads Chart.yaml of a packaged chart, as long as there are not too
// many of them.
func (c *collector) chartOf(archive []byte) ([]byte, error) {
	spent := &c.a.spent.opened
	if *spent += int64(len(archive)); *spent > openBytes {
		return nil, errTooLarge
	}
	data, unpacked, err := chartOf(archive)
	*spent += unpacked
	return data, err
}

// helmIgnore reads the .helmignore of a chart.
func (c *collector) helmIgnore(at, name string) (helmIgnore, bool) {
	data, err := c.tree.findFile(path.Join(at, ".helmignore"), chartBytes)
	if err != nil {
		data = nil
	}
	list, bad, err := parseHelmIgnore(data)
	if err != nil {
		c.failAt(path.Join(name, ".helmignore"), bad, finding.RuleIgnoreFile, err.Error(), "")
		return nil, false
	}
	return list, true
}

// A packer finds the files of a chart directory that is packaged for another
// chart.
type packer struct {
	c     *collector
	base  string
	files []file
	bytes int64
	dirs  int      // that were looked into
	open  []string // directories that are being read
	err   error
}

func (p *packer) readFiles() {
	ignore, ok := p.c.helmIgnore(p.base, p.base)
	if !ok {
		p.err = errors.New("its .helmignore is not valid")
		return
	}
	p.packDirectory(p.base, "", ignore)
}

func (p *packer) packDirectory(at, name string, ignore helmIgnore) {
	if len(p.open) > p.c.a.o.Limits.Depth || slices.Contains(p.open, at) {
		p.err = errors.New("directories are nested too deep, or lead into themselves")
		return
	}
	if p.dirs++; p.dirs > p.c.a.o.Limits.Files {
		p.err = errTooLarge
		return
	}
	p.open = append(p.open, at)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	entries, err := p.c.entries(at)
	if err != nil {
		p.err = errors.Join(p.err, causeOf(err))
	}
	for _, e := range entries {
		if p.err != nil {
			return
		}
		p.packEntry(e, path.Join(at, e.name), path.Join(name, e.name), ignore)
	}
}

func (p *packer) packEntry(e entry, at, name string, ignore helmIgnore) {
	f := file{name: name, data: e.data}
	size, dir := int64(len(e.data)), e.mode.IsDir()
	if !e.made {
		target, err := p.c.tree.resolve(at)
		if err == nil && !isWithin(p.base, target) {
			err = fmt.Errorf("symbolic link %s leads out of the chart", at)
		}
		if err != nil {
			p.err = err
			return
		}
		info, err := p.c.tree.lstat(target)
		if err != nil {
			p.err = err
			return
		}
		f, size, dir, at = file{name: name, from: p.c.tree, path: target}, info.Size(), info.IsDir(), target
	}
	if ignore.ignored(name, dir) {
		return
	}
	if dir {
		p.packDirectory(at, name, ignore)
		return
	}
	limits := p.c.a.o.Limits
	if p.bytes += size; p.bytes > limits.FileBytes || len(p.files) >= limits.Files {
		p.err = errTooLarge
		return
	}
	p.files = append(p.files, f)
}
