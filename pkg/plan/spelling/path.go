package spelling

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// shortest is how long a word has to be at least to be an abbreviation.
const shortest = 3

// NearestPath returns the known path, with slashes, that was most likely meant by one that
// does not exist, or "" where none is near. Values-prod.yaml is near values/prod.yml,
// prod.yaml and values-production.yaml; a path in the same directory is nearer than one
// elsewhere. If several are near in the same way, it returns the one with the fewest letters
// changed, then the first in order.
func NearestPath(name string, known []string) string {
	name = path.Clean(name)
	sorted := slices.Sorted(slices.Values(known))
	find := func(near func(a, b []string) bool, beside bool) string {
		best, found := 0, ""
		for _, k := range sorted {
			if isBeside(k, name) != beside || !near(pathWords(name), pathWords(k)) {
				continue
			}
			if d := editDistance(withoutExtension(name), withoutExtension(k)); found == "" || d < best {
				best, found = d, k
			}
		}
		return found
	}
	return cmp.Or(
		find(slices.Equal[[]string], true), find(slices.Equal[[]string], false), find(abbreviated, true), misspelt(name, sorted),
		find(abbreviated, false), find(endsLike, true), find(endsLike, false), misspeltBelow(name, sorted),
	)
}

// isBeside reports whether two paths are in the same directory.
func isBeside(a, b string) bool { return path.Dir(a) == path.Dir(b) }

// misspelt is the path in the same directory whose name is spelled nearly the same.
func misspelt(name string, known []string) string {
	return nearestOf(path.Base(name), known, func(k string) string {
		if !isBeside(k, name) {
			return ""
		}
		return path.Base(k)
	})
}

// misspeltBelow is the path that is spelled nearly the same, else that whose name is.
func misspeltBelow(name string, known []string) string {
	return cmp.Or(nearestOf(name, known, path.Clean), nearestOf(path.Base(name), known, path.Base))
}

// nearestOf is the known path of which a part is nearly the same as name, but for
// their ends.
func nearestOf(name string, known []string, part func(string) string) string {
	paths := map[string]string{}
	for _, k := range slices.Backward(known) {
		paths[withoutExtension(part(k))] = k
	}
	delete(paths, "")
	return paths[Nearest(withoutExtension(name), slices.Collect(maps.Keys(paths)))]
}

// withoutExtension is a path without the end of its file's name.
func withoutExtension(p string) string { return strings.TrimSuffix(p, path.Ext(p)) }

// pathWords are those of a path without its end.
func pathWords(p string) []string {
	return strings.FieldsFunc(strings.ToLower(withoutExtension(p)), func(r rune) bool { return strings.ContainsRune("/-_. ", r) })
}

// abbreviated reports whether each word of one list is that of the other, or begins
// it.
func abbreviated(a, b []string) bool {
	return slices.EqualFunc(a, b, isPrefix)
}

func isPrefix(x, y string) bool {
	return x == y || min(len(x), len(y)) >= shortest && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x))
}

// endsLike reports whether the last words are the same, or one begins the other.
func endsLike(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && isPrefix(a[len(a)-1], b[len(b)-1])
}
