package main

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// A column is one column of a table.
type column struct {
	title string
	wide  bool // only with -o wide
	clock bool // changes with time alone, which is not reported as a change
	text  bool // a free text: on a narrow terminal it has a line of its own
	state bool // coloured by what it says
	drop  int  // left out on a narrow terminal, 1 first; 0: never
}

// gap is what stands between two columns.
const gap = "   "

const (
	// minText is how many columns a text needs to say something.
	minText = 24
	// indent begins a text in a line of its own.
	indent = "    "
)

// table prints rows in columns. Where they do not fit the width, the columns that
// may be left out are; if a text in the last column has too little room even so, it
// gets a line of its own. Texts are cut at the width; no other cell ever is.
type table struct {
	out     io.Writer
	width   int // 0: no limit
	columns []column
	size    []int

	arranged bool
	hidden   []bool // columns that are left out
	below    bool   // texts have lines of their own
}

// show gives the table the selected columns, and returns a function that picks their
// cells from those of all.
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
	var line []span
	used, start := 0, 0 // of the line; start is where its last cell begins
	last := t.last()
	for i, cell := range cells {
		if t.hidden[i] {
			continue
		}
		if len(line) > 0 {
			line = append(line, span{text: gap})
			used += len(gap)
		}
		start = used
		blanks := ""
		if n := utf8.RuneCountInString(cell); i < last {
			blanks = strings.Repeat(" ", t.size[i]-n)
		} else if t.columns[i].text && t.width > 0 {
			cell = cut(cell, max(t.width-start, 1))
		}
		state := ""
		if c := t.columns[i]; c.state && cell != c.title {
			state = cell
		}
		line = append(line, span{cell, state}, span{text: blanks})
		used += t.size[i]
	}
	writeLine(t.out, line...)
	if t.below {
		t.texts(cells)
	}
}

// texts prints the texts of a row in a line of their own, each behind its title if
// there may be several.
func (t *table) texts(cells []string) {
	var parts []string
	several := false
	for i, c := range t.columns {
		if !c.text {
			continue
		}
		several = several || i < len(t.columns)-1
		if cell := cells[i]; cell != "" && cell != "-" && cell != c.title {
			if several {
				cell = strings.ToLower(c.title) + ": " + cell
			}
			parts = append(parts, cell)
		}
	}
	if len(parts) > 0 {
		writeLine(t.out, span{text: cut(indent+strings.Join(parts, gap), t.width)})
	}
}

// last is the last column that is not left out.
func (t *table) last() int {
	for i := len(t.columns) - 1; i > 0; i-- {
		if !t.hidden[i] {
			return i
		}
	}
	return 0
}

// arrange decides, once for all rows, which columns are shown where they do not fit
// the width.
func (t *table) arrange() {
	if t.arranged {
		return
	}
	t.arranged, t.hidden = true, make([]bool, len(t.columns))
	final := len(t.columns) - 1
	if t.width <= 0 || t.fits(t.size[final]) {
		return
	}
	if !t.columns[final].text {
		t.leaveOut(t.size[final])
		return
	}
	room := min(t.size[final], minText)
	if t.size[final] > len(t.columns[final].title) && t.leaveOut(room) {
		return
	}
	t.below = true
	for i, c := range t.columns {
		t.hidden[i] = c.text
	}
	t.leaveOut(0)
}

// leaveOut hides columns until the rows fit, with so much room for the final one.
// It reports whether they do.
func (t *table) leaveOut(room int) bool {
	for !t.fits(room) {
		next := -1
		for i, c := range t.columns {
			if c.drop > 0 && !t.hidden[i] && (next < 0 || c.drop < t.columns[next].drop) {
				next = i
			}
		}
		if next < 0 {
			return false
		}
		t.hidden[next] = true
	}
	return true
}

// fits reports whether a row fits the width, with so much room for the final column.
func (t *table) fits(room int) bool {
	need := -len(gap)
	for i, size := range t.size {
		if t.hidden[i] {
			continue
		}
		if i == len(t.size)-1 {
			size = room
		}
		need += size + len(gap)
	}
	return need <= t.width
}

// oneLine is cells that stay in their line.
func oneLine(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = printable.Line(cell)
	}
	return out
}

// print prints all rows, with their titles unless bare. A cell stays one: text
// that would break the line or move the cursor is escaped.
func (t *table) print(rows [][]string, bare bool) {
	for i, r := range rows {
		rows[i] = oneLine(r)
	}
	t.fit(rows)
	t.arrange()
	if !bare {
		t.head()
	}
	for _, r := range rows {
		t.row(r)
	}
}

// cut shortens a text to a width.
func cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:width-1]), " ") + "…"
}
