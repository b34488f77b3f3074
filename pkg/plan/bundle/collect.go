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

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

// A file is a resource of a bundle before it is encoded.
type file struct {
	name string // relative to the bundle
	data []byte
}

// A collector reads the files of one directory.
type collector struct {
	root   fs.FS
	dir    string          // as the user writes it, for findings
	base   string          // the same without symbolic links
	skip   map[string]bool // names relative to the bundle that are no resources
	limits Limits
	files  []file
	bytes  int64
	found  []finding.Finding
	open   []string // the directories that are being read, without links
	full   bool     // a limit was reached
}

func (c *collector) fail(name, rule, message string) {
	c.found = append(c.found, finding.Finding{Path: path.Join(c.dir, name), Severity: finding.Error, Rule: rule, Message: message})
}

// collect reads all files of the bundle, sorted by name.
func (c *collector) collect() {
	base, err := resolve(c.root, c.dir)
	if err != nil {
		c.fail("", finding.RuleFile, "cannot be read: "+cause(err).Error())
		return
	}
	c.base = base
	c.walk(base, "", nil)
	slices.SortFunc(c.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// walk reads the directory at, whose name in the bundle is name.
func (c *collector) walk(at, name string, patterns []pattern) {
	if len(c.open) > c.limits.Depth {
		c.tooLarge(name, fmt.Sprintf("directories are nested deeper than %d", c.limits.Depth))
		return
	}
	entries, err := fs.ReadDir(c.root, at)
	if err != nil {
		c.fail(name, finding.RuleFile, "cannot be read: "+cause(err).Error())
		return
	}
	patterns = append(slices.Clone(patterns), c.ignoreFile(at, name)...)
	c.open = append(c.open, at)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	for _, e := range entries {
		if c.full {
			return
		}
		c.entry(e, at, name, patterns)
	}
}

func (c *collector) ignoreFile(at, name string) []pattern {
	data, err := fs.ReadFile(c.root, path.Join(at, ignoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		c.fail(path.Join(name, ignoreFile), finding.RuleIgnoreFile, "cannot be read: "+cause(err).Error())
		return nil
	}
	list, bad := parseIgnore(data)
	if bad > 0 {
		c.found = append(c.found, finding.Finding{
			Path: path.Join(c.dir, name, ignoreFile), Line: bad, Severity: finding.Error, Rule: finding.RuleIgnoreFile, Message: "this is not a valid pattern",
		})
	}
	return list
}

// entry handles one entry of a directory.
func (c *collector) entry(e fs.DirEntry, at, dir string, patterns []pattern) {
	name, target := path.Join(dir, e.Name()), path.Join(at, e.Name())
	hidden := strings.HasPrefix(e.Name(), ".")
	mode := e.Type()
	if mode == fs.ModeSymlink && !hidden {
		var ok bool
		if target, mode, ok = c.follow(target, name); !ok {
			return
		}
	}
	switch {
	case hidden, ignored(patterns, e.Name(), mode.IsDir()), c.skip[name]:
	case mode.IsDir():
		if slices.ContainsFunc(c.open, func(dir string) bool { return within(target, dir) }) {
			c.fail(name, finding.RuleFile, "symbolic link leads to a directory that it is in")
			return
		}
		c.walk(target, name, patterns)
	case mode.IsRegular():
		c.read(target, name)
	default:
		c.found = append(c.found, finding.Finding{
			Path: path.Join(c.dir, name), Severity: finding.Warning, Rule: finding.RuleSubmodule,
			Message: "git submodules and special files are not read; it is left out",
		})
	}
}

// follow is where a symbolic link leads, which must be in the bundle.
func (c *collector) follow(link, name string) (target string, mode fs.FileMode, ok bool) {
	target, err := resolve(c.root, link)
	if err == nil && !within(c.base, target) {
		c.fail(name, finding.RuleOutside, fmt.Sprintf("symbolic link leads out of the bundle, to %s", target))
		return "", 0, false
	}
	var info fs.FileInfo
	if err == nil {
		info, err = fs.Stat(c.root, target)
	}
	if err != nil {
		rule := finding.RuleFile
		if errors.Is(err, errOutside) {
			rule = finding.RuleOutside
		}
		c.fail(name, rule, "symbolic link cannot be followed: "+cause(err).Error())
		return "", 0, false
	}
	return target, info.Mode().Type(), true
}

func (c *collector) read(at, name string) {
	if len(c.files) >= c.limits.Files {
		c.tooLarge("", fmt.Sprintf("the bundle has more than %d files", c.limits.Files))
		return
	}
	info, err := fs.Stat(c.root, at)
	if err != nil {
		c.fail(name, finding.RuleFile, "cannot be read: "+cause(err).Error())
		return
	}
	if info.Size() > c.limits.FileBytes {
		c.tooLarge(name, fmt.Sprintf("the file is larger than %d KiB", c.limits.FileBytes>>10))
		return
	}
	data, err := fs.ReadFile(c.root, at)
	if err != nil {
		c.fail(name, finding.RuleFile, "cannot be read: "+cause(err).Error())
		return
	}
	if c.bytes += int64(len(data)); c.bytes > c.limits.TotalBytes {
		c.tooLarge("", fmt.Sprintf("the bundle's files are larger than %d KiB together", c.limits.TotalBytes>>10))
		return
	}
	c.files = append(c.files, file{name, data})
}

func (c *collector) tooLarge(name, message string) {
	c.full = true
	c.fail(name, finding.RuleTooLarge, message)
}

var errOutside = errors.New("it leads out of the repository")

// resolve is a path without symbolic links in it.
func resolve(root fs.FS, name string) (string, error) {
	at, rest := ".", name
	for links := 0; rest != "." && rest != ""; {
		step, tail, _ := strings.Cut(rest, "/")
		next := path.Join(at, step)
		info, err := fs.Lstat(root, next)
		if err != nil {
			return "", err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at, rest = next, tail
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("too many symbolic links")
		}
		link, err := fs.ReadLink(root, next)
		if err != nil {
			return "", err
		}
		goal := path.Join(at, link, tail)
		if path.IsAbs(link) || !fs.ValidPath(goal) {
			return "", errOutside
		}
		at, rest = ".", goal
	}
	return at, nil
}
