package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A column is one column of a table.
type column struct {
	title string
	wide  bool // only with -o wide
	clock bool // changes with time alone, which is no news
}

// gap is what stands between two columns.
const gap = "   "

// table prints rows in columns. The last column is cut at the width; no other
// is ever cut.
type table struct {
	out     io.Writer
	width   int // 0: no limit
	columns []column
	size    []int
}

// show gives the table those of columns that are wanted, and returns a function
// that picks their cells from those of all.
func (t *table) show(columns []column, wanted func(column) bool) func([]string) []string {
	var take []int
	for i, c := range columns {
		if wanted(c) {
			t.columns = append(t.columns, c)
			take = append(take, i)
		}
	}
	return func(all []string) []string {
		cells := make([]string, len(take))
		for i, n := range take {
			cells[i] = all[n]
		}
		return cells
	}
}

// fit makes room for rows; columns never shrink.
func (t *table) fit(rows [][]string) {
	if t.size == nil {
		t.size = make([]int, len(t.columns))
		for i, c := range t.columns {
			t.size[i] = utf8.RuneCountInString(c.title)
		}
	}
	for _, r := range rows {
		for i, cell := range r {
			t.size[i] = max(t.size[i], utf8.RuneCountInString(cell))
		}
	}
}

// reserve makes room in a column for what may come.
func (t *table) reserve(title string, size int) {
	t.fit(nil)
	for i, c := range t.columns {
		if c.title == title {
			t.size[i] = max(t.size[i], size)
		}
	}
}

// head prints the titles.
func (t *table) head() {
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	t.row(titles)
}

// row prints one row.
func (t *table) row(cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		if i > 0 {
			line.WriteString(gap)
		}
		line.WriteString(cell)
		if i < len(cells)-1 {
			line.WriteString(strings.Repeat(" ", t.size[i]-utf8.RuneCountInString(cell)))
		}
	}
	fmt.Fprintln(t.out, cut(strings.TrimRight(line.String(), " "), t.width, t.lastStart()))
}

// lastStart is where the last column begins.
func (t *table) lastStart() int {
	n := 0
	for _, s := range t.size[:len(t.size)-1] {
		n += s + len(gap)
	}
	return n
}

// print prints all rows, with their titles unless bare.
func (t *table) print(rows [][]string, bare bool) {
	t.fit(rows)
	if !bare {
		t.head()
	}
	for _, r := range rows {
		t.row(r)
	}
}

// cut shortens a line to a width, but not before the column from keep on: what
// stands before it are names.
func cut(line string, width, keep int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	at := max(width-1, keep)
	runes := []rune(line)
	if at >= len(runes) {
		return line
	}
	if at > keep {
		return strings.TrimRight(string(runes[:at]), " ") + "…"
	}
	return string(runes[:at]) + "…"
}
