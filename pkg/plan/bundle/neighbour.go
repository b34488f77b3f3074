package bundle

import (
	"fmt"
	"path"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// nearDepth is how deep below the directory of a bundle a path is looked for that
// was probably meant.
const nearDepth = 4

// suggestNeighbour names what is in the directory of the bundle and was probably meant by a
// path in it that leads to nothing. fits reports whether it may be meant, by its path
// in the bundle.
func (a *assembly) suggestNeighbour(name string, fits func(p string, dir bool) bool) string {
	if a.hasTooManyFindings() || len(path.Base(name)) > nameLimit {
		return "" // there are too many findings, or the name is too long
	}
	dir, err := a.tree.resolve(a.base)
	if err != nil {
		return ""
	}
	var names []string
	a.walkBelow(dir, "", func(p string, dir bool) {
		if fits(p, dir) {
			names = append(names, p)
		}
	})
	if near := spelling.NearestPath(strings.TrimPrefix(path.Clean(name), "/"), names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// walkBelow visits what is below a directory, level by level, as long as it is not too
// much. Symbolic links are not followed.
func (a *assembly) walkBelow(base, from string, visit func(p string, dir bool)) {
	seen := 0
	level := []string{from}
	for range nearDepth {
		var next []string
		for _, dir := range level {
			entries, err := a.tree.readDir(path.Join(base, dir))
			if seen += len(entries); err != nil || seen > nearAmong {
				return
			}
			for _, e := range entries {
				if isHidden(e.Name()) {
					continue
				}
				p := path.Join(dir, e.Name())
				if visit(p, e.IsDir()); e.IsDir() {
					next = append(next, p)
				}
			}
		}
		level = next
	}
}

// isYAML reports whether a path may be that of a values file.
func isYAML(p string, dir bool) bool { return !dir && isManifest(p) }

// hasChart reports whether a path of the bundle is that of a chart.
func (a *assembly) hasChart(p string, dir bool) bool {
	if !dir {
		return false
	}
	_, err := a.tree.resolve(path.Join(a.base, p, chartFile))
	return err == nil
}
