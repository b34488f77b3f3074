package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// screen prints the screen that people read.
func (o statusOptions) screen(s *session, doc FleetStatus) {
	out, now := s.std.out, s.now()
	if doc.Suspended {
		fmt.Fprintf(out, "%s; nothing new is rolled out (fleet resume --all)\n", doc.Brake.Text(now))
	}
	clusters, bundles := sum(doc.Clusters, "cluster"), sum(doc.Bundles, "bundle")
	if doc.Quiet() {
		parts := []string{clusters, bundles}
		if text := doc.Manager.Text(now); text != "" {
			parts = append(parts, text)
		}
		fmt.Fprintln(out, strings.Join(parts, "        "))
	} else {
		fmt.Fprintln(out, clusters)
		fmt.Fprintln(out, bundles)
		if doc.Repositories.Total > 0 {
			fmt.Fprintln(out, repositories(doc.Repositories))
		}
	}
	if len(doc.Attention) == 0 {
		fmt.Fprintln(out, "nothing needs attention")
	} else {
		fmt.Fprintln(out)
		o.attention(s, doc.Attention, now)
	}
	if len(doc.Moving) > 0 {
		fmt.Fprintf(out, "\nMOVING\n")
		o.moving(s, doc.Moving)
	}
	if doc.Offline.Count > 0 {
		fmt.Fprintf(out, "\nOFFLINE longest: %s\n", longest(doc.Offline, now))
	}
}

// sum is "3 clusters: 2 Ready, 1 NotReady".
func sum(c view.Count, noun string) string {
	text := plural(c.Total, noun)
	switch {
	case c.Total == 0:
		return text
	case c.AllReady():
		return text + ": all Ready"
	}
	var parts []string
	for _, state := range c.Sorted() {
		parts = append(parts, fmt.Sprintf("%d %s", c.States[state], state))
	}
	return text + ": " + strings.Join(parts, ", ")
}

func repositories(r view.Repositories) string {
	noun := "repositories"
	if r.Total == 1 {
		noun = "repository"
	}
	text := fmt.Sprintf("%d %s: %d at their newest commit", r.Total, noun, r.Current)
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

// attention prints what needs a person. Messages stand in the middle; they are
// cut on a terminal.
func (o statusOptions) attention(s *session, rows []view.Attention, now time.Time) {
	more := 0
	if !o.output.wide() && len(rows) > maxAttention {
		more = len(rows) - maxAttention
		rows = rows[:maxAttention]
	}
	names := namesakes{}
	for _, a := range rows {
		names.add(a.Label(), a.Name)
	}
	cells := make([][]string, len(rows))
	for i, a := range rows {
		since := ""
		if a.Since != nil {
			since = view.Ago(*a.Since, now)
		}
		cells[i] = []string{string(a.State), names.text(a.Label(), a.Name), a.Message, dash(since), dash(a.Clusters.Text())}
	}
	var size [5]int
	for _, c := range cells {
		for i, text := range c {
			size[i] = max(size[i], utf8.RuneCountInString(text))
		}
	}
	before := 2 + size[0] + 2 + size[1] + 3
	after := 3 + max(size[3], len("SINCE")) + 3 + max(size[4], len("CLUSTERS"))
	if width := s.std.width(); width > 0 && !o.output.wide() {
		size[2] = min(size[2], max(width-before-after, 20))
	}
	line := func(first, since, clusters string) {
		text := pad(first, max(before+size[2], len("NEEDS ATTENTION"))) + "   " + pad(since, max(size[3], len("SINCE"))) + "   " + clusters
		fmt.Fprintln(s.std.out, strings.TrimRight(text, " "))
	}
	line("NEEDS ATTENTION", "SINCE", "CLUSTERS")
	for _, c := range cells {
		line("  "+pad(c[0], size[0])+"  "+pad(c[1], size[1])+"   "+cut(c[2], size[2], 0), c[3], c[4])
	}
	if more > 0 {
		fmt.Fprintf(s.std.out, "  and %d more: fleet status -o wide\n", more)
	}
}

// moving prints what changes by itself.
func (o statusOptions) moving(s *session, rows []view.Moving) {
	more := 0
	if !o.output.wide() && len(rows) > maxMoving {
		more = len(rows) - maxMoving
		rows = rows[:maxMoving]
	}
	t := table{out: s.std.out, columns: make([]column, 3)}
	if !o.output.wide() {
		t.width = s.std.width()
	}
	names := namesakes{}
	for _, m := range rows {
		names.add(m.Label(), m.Name)
	}
	var cells [][]string
	for _, m := range rows {
		name := "  " + names.text(m.Label(), m.Name)
		if m.Commit != "" {
			name += " -> " + view.Short(m.Commit)
		}
		progress := ready{m.Ready, m.Desired}.String() + " Ready"
		if len(m.Partitions) > 0 {
			var parts []string
			for _, p := range m.Partitions {
				parts = append(parts, p.Name+" "+ready{p.Ready, p.Count}.String())
			}
			progress = strings.Join(parts, gap)
		}
		cells = append(cells, []string{name, progress, m.Reason})
	}
	t.print(cells, true)
	if more > 0 {
		fmt.Fprintf(s.std.out, "  and %d more: fleet status -o wide\n", more)
	}
}

// namesakes are what rows are called, and which objects are called so.
type namesakes map[string]map[string]bool

func (l namesakes) add(label, name string) {
	if l[label] == nil {
		l[label] = map[string]bool{}
	}
	l[label][name] = true
}

// text is a label; with its workspace where it means several objects.
func (l namesakes) text(label, name string) string {
	if len(l[label]) < 2 {
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

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
