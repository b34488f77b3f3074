// Package spelling finds the name that was meant by one that does not exist.
package spelling

import "slices"

// Nearest returns the known name that was most likely meant by name, or "" where none is
// near: one letter in three of the longer name may be wrong. If several are near, it
// returns the first in order.
func Nearest(name string, known []string) string {
	sorted := slices.Sorted(slices.Values(known))
	best, found := max(len(name), 1), ""
	for _, k := range sorted {
		if d := editDistance(name, k); d < best && d <= max(len(name), len(k))/3 {
			best, found = d, k
		}
	}
	return found
}

// editDistance is how many letters must be added, dropped, changed or swapped with
// their neighbor to make b of a.
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, above := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range above {
		above[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, above[j+1]+1, above[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(y)]
}
