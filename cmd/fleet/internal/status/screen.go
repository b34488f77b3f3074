package status

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// screen prints the screen that people read.
func (o Options) screen(s *client.Session, doc FleetStatus) {
	out, now := s.Std.Out, s.Now()
	if doc.Suspended {
		printer.Fprintf(out, "%s; nothing new is rolled out (fleet resume --all)\n", doc.Brake.Text(now))
	}
	if text := doc.Manager.Warning(now); text != "" {
		fmt.Fprintln(out, text)
	}
	asOf := doc.Manager.AsOf(now)
	clusters, bundles := sumText(doc.Clusters, "cluster", asOf), sumText(doc.Bundles, "bundle", asOf)
	if doc.Quiet() {
		parts := []string{clusters, bundles}
		if text := doc.Manager.Text(now); text != "" {
			parts = append(parts, text)
		}
		o.printTexts(s, parts)
	} else {
		printer.Fprintf(out, "%s\n", clusters)
		printer.Fprintf(out, "%s\n", bundles)
		if doc.Repositories.Total > 0 {
			printer.Fprintf(out, "%s\n", repositories(doc.Repositories))
		}
		if doc.HelmOps.Total > 0 {
			printer.Fprintf(out, "%s\n", sumText(doc.HelmOps, "helmop", asOf))
		}
	}
	if n := doc.Repositories.Warnings; n > 0 {
		printer.Fprintf(out, "%s with warnings: fleet get repos\n", repositoryCount(n))
	}
	if len(doc.Attention) == 0 {
		fmt.Fprintln(out, "nothing needs attention")
	} else {
		fmt.Fprintln(out)
		o.attention(s, doc.Attention, doc.names)
	}
	if len(doc.Moving) > 0 {
		printer.Fprintf(out, "\nMOVING\n")
		o.printMoving(s, doc.Moving, doc.names)
	}
	if len(doc.Paused) > 0 {
		fmt.Fprintln(out)
		o.paused(s, doc.Paused, doc.names)
	}
	if doc.Offline.Count > 0 {
		printer.Fprintf(out, "\nOFFLINE longest: %s\n", longest(doc.Offline, now))
	}
}

// printTexts prints texts in one line, or below each other where the terminal is too narrow.
func (o Options) printTexts(s *client.Session, texts []string) {
	line := strings.Join(texts, "        ")
	if width := s.Std.Width(); !o.Output.IsWide() && width > 0 && utf8.RuneCountInString(line) > width {
		for _, text := range texts {
			printer.Fprintf(s.Std.Out, "%s\n", text)
		}
		return
	}
	printer.Fprintf(s.Std.Out, "%s\n", line)
}

// sumText is "3 clusters: 2 Ready, 1 NotReady". asOf, where not empty, says how old
// that is; then it is never "all Ready".
func sumText(c view.Count, noun, asOf string) string {
	text := printer.Plural(c.Total, noun)
	switch {
	case c.Total == 0:
		return text
	case c.AllReady() && asOf == "":
		return text + ": all Ready"
	}
	var parts []string
	for _, state := range c.Sorted() {
		parts = append(parts, fmt.Sprintf("%d %s", c.States[state], state))
	}
	text += ": " + strings.Join(parts, ", ")
	if asOf != "" {
		text += " (" + asOf + ")"
	}
	return text
}

func repositoryCount(n int) string {
	if n == 1 {
		return "1 repository"
	}
	return fmt.Sprintf("%d repositories", n)
}

func repositories(r view.Repositories) string {
	text := fmt.Sprintf("%s: %d at their newest commit", repositoryCount(r.Total), r.Current)
	if r.Total == 1 {
		text = strings.Replace(text, "their", "its", 1)
	}
	if r.Held > 0 {
		text += fmt.Sprintf(", %d held", r.Held)
	}
	if r.Unreadable > 0 {
		text += fmt.Sprintf(", %d cannot be read", r.Unreadable)
	}
	return text
}

// attention prints what needs a person. Messages are in the middle column; they are cut
// on a terminal.
func (o Options) attention(s *client.Session, rows []view.Attention, names rowNames) {
	more, now := 0, s.Now()
	if !o.Output.IsWide() && len(rows) > MaxAttention {
		more = len(rows) - MaxAttention
		rows = rows[:MaxAttention]
	}
	cells := make([][]string, len(rows))
	for i, a := range rows {
		since := ""
		if a.Since != nil {
			since = view.Ago(*a.Since, now)
		}
		cells[i] = printer.OneLine([]string{string(a.State), names.text(a.Label(), a.Name), a.Message, printer.OrDash(since), printer.OrDash(a.Clusters.Text())})
	}
	var size [5]int
	for _, c := range cells {
		for i, text := range c {
			size[i] = max(size[i], utf8.RuneCountInString(text))
		}
	}
	before := 2 + size[0] + 2 + size[1] + 3
	after := 3 + max(size[3], len("SINCE")) + 3 + max(size[4], len("CLUSTERS"))
	width, below := s.Std.Width(), false
	if o.Output.IsWide() {
		width = 0
	}
	if width > 0 {
		room := max(width-before-after, 0)
		below = room < min(size[2], printer.MinText)
		size[2] = min(size[2], room)
	}
	if below {
		before, size[2] = before-len(printer.Gap), 0
	}
	first, at := max(before+size[2], len("NEEDS ATTENTION")), max(size[3], len("SINCE"))
	printer.WriteLine(s.Std.Out, printer.ColoredText{Text: printer.Pad("NEEDS ATTENTION", first) + printer.Gap + printer.Pad("SINCE", at) + printer.Gap + "CLUSTERS"})
	for _, c := range cells {
		text := "  " + printer.Pad(c[1], size[1])
		if !below {
			text += printer.Gap + printer.Cut(c[2], size[2])
		}
		printer.WriteLine(s.Std.Out, printer.ColoredText{Text: "  "}, printer.ColoredText{Text: c[0], State: c[0]},
			printer.ColoredText{Text: printer.Pad(strings.Repeat(" ", size[0]-utf8.RuneCountInString(c[0]))+text, first-2-utf8.RuneCountInString(c[0])) + printer.Gap + printer.Pad(c[3], at) + printer.Gap + c[4]})
		if below && c[2] != "" {
			printer.WriteLine(s.Std.Out, printer.ColoredText{Text: printer.Cut(printer.Indent+c[2], width)})
		}
	}
	if more > 0 {
		printer.Fprintf(s.Std.Out, "  and %d more: fleet status -o wide\n", more)
	}
}

// printMoving prints what changes by itself.
func (o Options) printMoving(s *client.Session, rows []view.Moving, names rowNames) {
	more := 0
	if !o.Output.IsWide() && len(rows) > MaxMoving {
		more = len(rows) - MaxMoving
		rows = rows[:MaxMoving]
	}
	t := printer.Table{Out: s.Std.Out, Columns: []printer.Column{{}, {}, {Text: true}}}
	if !o.Output.IsWide() {
		t.Width = s.Std.Width()
	}
	var cells [][]string
	for _, m := range rows {
		name := "  " + names.text(m.Label(), m.Name)
		if m.Commit != "" {
			name += " -> " + view.ShortCommit(m.Commit)
		}
		progress := printer.Ready{Ready: m.Ready, All: m.Desired}.String() + " Ready"
		if len(m.Partitions) > 0 {
			var parts []string
			for _, p := range m.Partitions {
				parts = append(parts, p.Name+" "+printer.Ready{Ready: p.Ready, All: p.Count}.String())
			}
			progress = strings.Join(parts, printer.Gap)
		}
		cells = append(cells, []string{name, progress, m.Reason})
	}
	t.Print(cells, true)
	if more > 0 {
		printer.Fprintf(s.Std.Out, "  and %d more: fleet status -o wide\n", more)
	}
}

// rowNames are what rows are called, and which objects of the fleet are called so, also
// those without a row.
type rowNames map[string]map[string]bool

func namesakesOf(f view.Fleet) rowNames {
	l := rowNames{}
	for _, r := range f.Repositories {
		l.addName("GitRepo", r)
	}
	for _, op := range f.HelmOps {
		l.addName("HelmOp", op)
	}
	for _, b := range f.Bundles {
		l.addName("Bundle", b)
	}
	for _, c := range f.Clusters {
		l.addName("Cluster", c)
	}
	return l
}

func (r rowNames) addName(kind string, o metav1.Object) {
	a := view.Attention{Kind: kind, Name: o.GetNamespace() + "/" + o.GetName()}
	if r[a.Label()] == nil {
		r[a.Label()] = map[string]bool{}
	}
	r[a.Label()][a.Name] = true
}

// text is a label; with its workspace where it means several objects.
func (r rowNames) text(label, name string) string {
	if len(r[label]) < 2 {
		return label
	}
	workspace, _, _ := strings.Cut(name, "/")
	return label + " in " + workspace
}

func longest(o view.Offline, now time.Time) string {
	var parts []string
	for _, a := range o.Longest {
		text := a.Name[strings.LastIndex(a.Name, "/")+1:]
		if a.LastSeen != nil {
			text += " " + view.Ago(*a.LastSeen, now)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, ", ")
	if more := o.Count - len(parts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
