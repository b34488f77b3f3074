package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// A file is a resource of a bundle that is not read yet.
type file struct {
	name string // in the bundle
	from *tree  // nil: data is all
	path string
	data []byte
}

// bytes reads the file.
func (f file) bytes(limit int64) ([]byte, error) {
	if f.from == nil {
		return f.data, nil
	}
	return f.from.readFile(f.path, limit)
}

// A collector finds the files of one directory: that of the bundle, or that of
// a chart that was downloaded.
type collector struct {
	a                 *assembly
	tree              *tree
	base              string   // without symbolic links
	prefix            string   // of names in the bundle
	chart             *place   // where a downloaded chart is named; nil: the bundle's own directory
	open              []string // the directories that are being read, without links
	overlay           overlayFiles
	chartDependencies map[string][]string // by directory: what localDependencies found
}

// overlayFiles holds the changes of dependencies to directories, by directory and name:
// the content of files that they add, nil for files that they replace.
type overlayFiles map[string]map[string][]byte

func (o overlayFiles) put(dir, name string, data []byte) {
	if o[dir] == nil {
		o[dir] = map[string][]byte{}
	}
	o[dir][name] = data
}

// adds reports whether files are added to a directory.
func (o overlayFiles) adds(dir string) bool {
	for _, data := range o[dir] {
		if data != nil {
			return true
		}
	}
	return false
}

// A helmPosition is where something stands that findings are about.
type place struct {
	path         string
	line, column int
	subject      string
}

// addError reports an error about a file.
func (c *collector) addError(name, rule, message string) { c.failAt(name, 0, rule, message, "") }

func (c *collector) failAt(name string, line int, rule, message, hint string) {
	f := finding.Finding{Line: line, Severity: finding.Error, Rule: rule, Message: message, Hint: hint}
	if c.chart == nil {
		f.Path = path.Join(c.a.dir.Path, name)
	} else {
		f.Path, f.Line, f.Column = c.chart.path, c.chart.line, c.chart.column
		f.Message = fmt.Sprintf("%s: %s: %s", c.chart.subject, name, message)
		if line > 0 {
			f.Message = fmt.Sprintf("%s: %s:%d: %s", c.chart.subject, name, line, message)
		}
	}
	c.a.addFinding(f)
}

// An entry is one entry of a directory: of the tree, or one that is made.
type entry struct {
	name string
	mode fs.FileMode
	data []byte // of a made file
	made bool
}

// entries lists a directory, with the changes of dependencies.
func (c *collector) entries(at string) ([]entry, error) {
	var list []entry
	found, err := c.tree.readDir(at)
	if err != nil && (!c.overlay.adds(at) || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	files := c.overlay[at]
	for _, e := range found {
		if _, ok := files[e.Name()]; !ok {
			list = append(list, entry{name: e.Name(), mode: e.Type()})
		}
	}
	if c.overlay.adds(path.Join(at, "charts")) && !slices.ContainsFunc(list, func(e entry) bool { return e.name == "charts" }) {
		list = append(list, entry{name: "charts", mode: fs.ModeDir, made: true})
	}
	for name, data := range files {
		if data != nil {
			list = append(list, entry{name: name, data: data, made: true})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// collectDirectory finds the files in the directory at, whose name relative to base is name.
func (c *collector) collectDirectory(at, name string, ignore []ignores) {
	if len(c.open) > c.a.o.Limits.Depth {
		c.tooLarge(name, fmt.Sprintf("directories are nested deeper than %d", c.a.o.Limits.Depth))
		return
	}
	// Links to directories can make one of few files endless.
	if c.a.spent.dirs++; c.a.spent.dirs > c.a.o.Limits.Files {
		c.tooLarge("", fmt.Sprintf("the bundle has more than %d directories, counted once for each link to them", c.a.o.Limits.Files))
		return
	}
	c.dependencies(at, name)
	entries, err := c.entries(at)
	if err != nil {
		c.addError(name, finding.RuleFile, "cannot be read: "+causeOf(err).Error())
		return
	}
	if !c.a.skip[name] && slices.ContainsFunc(entries, func(e entry) bool { return e.name == ignoreFile }) {
		if list, ok := c.ignoreFile(at, name); ok {
			ignore = append(slices.Clone(ignore), list)
		}
	}
	c.open = append(c.open, at)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	for _, e := range entries {
		if c.a.full {
			return
		}
		c.collectEntry(e, at, name, ignore)
	}
}

func (c *collector) ignoreFile(at, dir string) (list ignores, ok bool) {
	name := path.Join(dir, ignoreFile)
	target, _, ok := c.resolveLink(path.Join(at, ignoreFile), name)
	if !ok {
		return list, false
	}
	data, err := c.tree.readFile(target, ignoreBytes)
	if err != nil {
		c.addError(name, finding.RuleIgnoreFile, "cannot be read: "+causeOf(err).Error())
		return list, false
	}
	list, bad, why := parseIgnore(data)
	list.file = name
	if bad > 0 {
		c.failAt(name, bad, finding.RuleIgnoreFile, why, "")
	}
	return list, bad == 0
}

// collectEntry handles one entry of a directory.
func (c *collector) collectEntry(e entry, at, dir string, ignore []ignores) {
	name, target, mode := path.Join(dir, e.name), path.Join(at, e.name), e.mode
	skip := c.a.skip[name]
	if !skip && isHidden(e.name) || skip && mode != fs.ModeDir {
		return
	}
	if mode == fs.ModeSymlink {
		if by := ignored(ignore, e.name, false); by.line > 0 {
			c.noteIgnored(by, target, name, false)
			return
		}
		var ok bool
		if target, mode, ok = c.resolveLink(target, name); !ok {
			return
		}
	}
	by := ignoring{}
	if !skip {
		by = ignored(ignore, e.name, mode.IsDir())
	}
	switch {
	case by.line > 0:
		c.noteIgnored(by, target, name, mode.IsDir())
	case mode.IsDir():
		if slices.ContainsFunc(c.open, func(dir string) bool { return isWithin(target, dir) }) {
			c.addError(name, finding.RuleFile, "symbolic link leads to a directory that it is in")
			return
		}
		c.collectDirectory(target, name, ignore)
	case e.made:
		c.addFile(name, file{data: e.data}, int64(len(e.data)))
	case mode.IsRegular():
		info, err := c.tree.lstat(target)
		if err != nil {
			c.addError(name, finding.RuleFile, "cannot be read: "+causeOf(err).Error())
			return
		}
		c.addFile(name, file{from: c.tree, path: target}, info.Size())
	default:
		c.a.addFinding(finding.Finding{
			Path: path.Join(c.a.dir.Path, name), Severity: finding.Warning, Rule: finding.RuleSubmodule,
			Message: "a git submodule that .gitmodules does not name, or a special file, is not read; it is left out",
		})
	}
}

// resolveLink is where a path leads, which must be in the directory that is read.
func (c *collector) resolveLink(link, name string) (target string, mode fs.FileMode, ok bool) {
	target, err := c.tree.resolve(link)
	if err == nil && !isWithin(c.base, target) {
		c.addError(name, finding.RuleOutside, fmt.Sprintf("symbolic link leads out of the bundle, to %s", target))
		return "", 0, false
	}
	var info fs.FileInfo
	if err == nil {
		info, err = c.tree.lstat(target)
	}
	if err != nil {
		rule := finding.RuleFile
		if errors.Is(err, errOutside) {
			rule = finding.RuleOutside
		}
		c.addError(name, rule, "symbolic link cannot be followed: "+causeOf(err).Error())
		return "", 0, false
	}
	return target, info.Mode().Type(), true
}

// addFile adds a file, unless that is too much.
func (c *collector) addFile(name string, f file, size int64) {
	l := c.a.o.Limits
	c.a.spent.bytes += size
	switch {
	case len(c.a.files) >= l.Files:
		c.tooLarge("", fmt.Sprintf("the bundle has more than %d files", l.Files))
	case size > l.FileBytes:
		c.tooLarge(name, fmt.Sprintf("the file is larger than %d KiB", l.FileBytes>>10))
	case c.a.spent.bytes > l.TotalBytes:
		c.tooLarge("", fmt.Sprintf("the bundle's files are larger than %d KiB together", l.TotalBytes>>10))
	default:
		f.name = path.Join(c.prefix, name)
		c.a.files = append(c.a.files, f)
	}
}

func (c *collector) tooLarge(name, message string) {
	c.a.full = true
	c.addError(name, finding.RuleTooLarge, message)
}
