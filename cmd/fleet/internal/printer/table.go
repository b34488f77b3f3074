package printer

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// A Column is one column of a table.
type Column struct {
	Title string
	Wide  bool // only with -o wide
	Clock bool // changes with time alone, which is not reported as a change
	Text  bool // a free text: on a narrow terminal it has a line of its own
	State bool // coloured by what it says
	Drop  int  // left out on a narrow terminal, 1 first; 0: never
}

// Gap is what stands between two columns.
const Gap = "   "

const (
	// MinText is how many columns a text needs to say something.
	MinText = 24
	// Indent begins a text in a line of its own.
	Indent = "    "
)

// Table prints rows in columns. Where they do not fit the width, the columns that
// may be left out are; if a text in the last column has too little room even so, it
// gets a line of its own. Texts are cut at the width; no other cell ever is.
type Table struct {
	Out     io.Writer
	Width   int // 0: no limit
	Columns []Column
	size    []int

	arranged bool
	hidden   []bool // columns that are left out
	indented bool   // texts have lines of their own
}

// Show gives the table the selected columns, and returns a function that picks their
// cells from those of all.
func (t *Table) Show(columns []Column, wanted func(Column) bool) func([]string) []string {
	var take []int
	for i, c := range columns {
		if wanted(c) {
			t.Columns = append(t.Columns, c)
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

// growColumns makes room for rows; columns never shrink.
func (t *Table) growColumns(rows [][]string) {
	if t.size == nil {
		t.size = make([]int, len(t.Columns))
		for i, c := range t.Columns {
			t.size[i] = utf8.RuneCountInString(c.Title)
		}
	}
	for _, r := range rows {
		for i, cell := range r {
			t.size[i] = max(t.size[i], utf8.RuneCountInString(cell))
		}
	}
}

// ReserveWidth makes room in a column for what may come.
func (t *Table) ReserveWidth(title string, size int) {
	t.growColumns(nil)
	for i, c := range t.Columns {
		if c.Title == title {
			t.size[i] = max(t.size[i], size)
		}
	}
}

// printHeader prints the titles.
func (t *Table) printHeader() {
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	t.row(titles)
}

// row prints one row.
func (t *Table) row(cells []string) {
	var line []ColoredText
	used, start := 0, 0 // of the line; start is where its last cell begins
	last := t.lastColumn()
	for i, cell := range cells {
		if t.hidden[i] {
			continue
		}
		if len(line) > 0 {
			line = append(line, ColoredText{Text: Gap})
			used += len(Gap)
		}
		start = used
		blanks := ""
		if n := utf8.RuneCountInString(cell); i < last {
			blanks = strings.Repeat(" ", t.size[i]-n)
		} else if t.Columns[i].Text && t.Width > 0 {
			cell = Cut(cell, max(t.Width-start, 1))
		}
		state := ""
		if c := t.Columns[i]; c.State && cell != c.Title {
			state = cell
		}
		line = append(line, ColoredText{cell, state}, ColoredText{Text: blanks})
		used += t.size[i]
	}
	WriteLine(t.Out, line...)
	if t.indented {
		t.texts(cells)
	}
}

// texts prints the texts of a row in a line of their own, each behind its title if
// there may be several.
func (t *Table) texts(cells []string) {
	var parts []string
	several := false
	for i, c := range t.Columns {
		if !c.Text {
			continue
		}
		several = several || i < len(t.Columns)-1
		if cell := cells[i]; cell != "" && cell != "-" && cell != c.Title {
			if several {
				cell = strings.ToLower(c.Title) + ": " + cell
			}
			parts = append(parts, cell)
		}
	}
	if len(parts) > 0 {
		WriteLine(t.Out, ColoredText{Text: Cut(Indent+strings.Join(parts, Gap), t.Width)})
	}
}

// lastColumn is the last column that is not left out.
func (t *Table) lastColumn() int {
	for i := len(t.Columns) - 1; i > 0; i-- {
		if !t.hidden[i] {
			return i
		}
	}
	return 0
}

// chooseColumns decides, once for all rows, which columns are shown where they do not fit
// the width.
func (t *Table) chooseColumns() {
	if t.arranged {
		return
	}
	t.arranged, t.hidden = true, make([]bool, len(t.Columns))
	final := len(t.Columns) - 1
	if t.Width <= 0 || t.fitsWidth(t.size[final]) {
		return
	}
	if !t.Columns[final].Text {
		t.leaveOut(t.size[final])
		return
	}
	room := min(t.size[final], MinText)
	if t.size[final] > len(t.Columns[final].Title) && t.leaveOut(room) {
		return
	}
	t.indented = true
	for i, c := range t.Columns {
		t.hidden[i] = c.Text
	}
	t.leaveOut(0)
}

// leaveOut hides columns until the rows fit, with so much room for the final one.
// It reports whether they do.
func (t *Table) leaveOut(room int) bool {
	for !t.fitsWidth(room) {
		next := -1
		for i, c := range t.Columns {
			if c.Drop > 0 && !t.hidden[i] && (next < 0 || c.Drop < t.Columns[next].Drop) {
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

// fitsWidth reports whether a row fits the width, with so much room for the final column.
func (t *Table) fitsWidth(room int) bool {
	need := -len(Gap)
	for i, size := range t.size {
		if t.hidden[i] {
			continue
		}
		if i == len(t.size)-1 {
			size = room
		}
		need += size + len(Gap)
	}
	return need <= t.Width
}

// OneLine is cells that stay in their line.
func OneLine(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = printable.Line(cell)
	}
	return out
}

// Print prints all rows, with their titles unless bare. A cell stays one: text
// that would break the line or move the cursor is escaped.
func (t *Table) Print(rows [][]string, bare bool) {
	for i, r := range rows {
		rows[i] = OneLine(r)
	}
	t.growColumns(rows)
	t.chooseColumns()
	if !bare {
		t.printHeader()
	}
	for _, r := range rows {
		t.row(r)
	}
}

// Cut shortens a text to a width.
func Cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:width-1]), " ") + "…"
}
