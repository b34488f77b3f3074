package monitor

import (
	"fmt"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/monitor"
)

// maxObjects is how many objects of a fault are shown without --detailed.
const maxObjects = 5

// snapshot prints a snapshot: counts, what was not read, and faults.
func (p *presenter) snapshot(s *monitor.Snapshot) {
	faults := s.Faults()
	printer.Fprintf(p.std.Out, "%s: %s\n", s.Timestamp, faultsText(faults))
	if !p.o.Issues {
		p.counts(s)
	}
	for _, u := range s.Unread {
		where := ""
		if u.Namespace != "" {
			where = " in " + u.Namespace
		}
		printer.WriteLine(p.std.Out, printer.ColoredText{Text: "not read", State: "?"}, printer.ColoredText{Text: fmt.Sprintf("  %s%s: %s", u.Resource, where, u.Message)})
	}
	for _, f := range faults {
		printer.Fprintf(p.std.Out, "\n")
		printer.WriteLine(p.std.Out, printer.ColoredText{Text: f.Title, State: "FAIL"}, printer.ColoredText{Text: fmt.Sprintf(" (%d)", len(f.Objects))})
		p.objects(f.Objects)
	}
	if p.o.Detailed {
		p.events(s)
	}
}

func faultsText(faults []monitor.Fault) string {
	n := 0
	for _, f := range faults {
		n += len(f.Objects)
	}
	if n == 0 {
		return "no faults"
	}
	return printer.Plural(n, "fault")
}

func (p *presenter) objects(list []monitor.Object) {
	for i, o := range list {
		if i == maxObjects && !p.o.Detailed {
			printer.Fprintf(p.std.Out, "  and %d more; --detailed shows all\n", len(list)-i)
			return
		}
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + o.Name
		}
		text := "  " + name
		if o.Issue != "" && name != "" {
			text += ": " + o.Issue
		} else {
			text += o.Issue
		}
		printer.WriteLine(p.std.Out, printer.ColoredText{Text: text})
	}
}

// counts prints how many objects of each kind there are.
func (p *presenter) counts(s *monitor.Snapshot) {
	row := func(kind string, n, ready, deleting int) []string {
		return []string{kind, fmt.Sprint(n), readyText(ready), fmt.Sprint(deleting)}
	}
	rows := [][]string{
		row("gitrepos", len(s.GitRepos), count(s.GitRepos, func(r monitor.GitRepo) bool { return r.Ready }), 0),
		row("bundles", len(s.Bundles), count(s.Bundles, func(b monitor.Bundle) bool { return b.Ready }),
			count(s.Bundles, func(b monitor.Bundle) bool { return b.DeletionTimestamp != nil })),
		row("bundledeployments", len(s.BundleDeployments), count(s.BundleDeployments, func(d monitor.Deployment) bool { return d.Ready }),
			count(s.BundleDeployments, func(d monitor.Deployment) bool { return d.DeletionTimestamp != nil })),
		row("clusters", len(s.Clusters), count(s.Clusters, func(c monitor.Cluster) bool { return c.Ready }), 0),
		row("clustergroups", len(s.ClusterGroups), -1, 0),
		row("contents", len(s.Contents), -1, count(s.Contents, func(c monitor.Content) bool { return c.DeletionTimestamp != nil })),
		row("secrets", len(s.BundleSecrets), -1, count(s.BundleSecrets, func(c monitor.Secret) bool { return c.DeletionTimestamp != nil })),
	}
	t := &printer.Table{Out: p.std.Out, Width: p.std.Width(), Columns: []printer.Column{{Title: "KIND"}, {Title: "ALL"}, {Title: "READY"}, {Title: "DELETED", Drop: 1}}}
	t.Print(rows, false)
	for _, one := range s.Controller {
		printer.Fprintf(p.std.Out, "pod %s: %s, %s\n", one.Name, one.Status, printer.Plural(int(one.Restarts), "restart"))
	}
}

func readyText(n int) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func count[T any](list []T, is func(T) bool) int {
	n := 0
	for _, one := range list {
		if is(one) {
			n++
		}
	}
	return n
}

// events prints the events of a snapshot.
func (p *presenter) events(s *monitor.Snapshot) {
	if len(s.RecentEvents) == 0 {
		return
	}
	printer.Fprintf(p.std.Out, "\n")
	rows := make([][]string, len(s.RecentEvents))
	for i, e := range s.RecentEvents {
		rows[i] = []string{printer.OrDash(e.LastTimestamp), e.Type, e.Reason, e.Namespace + "/" + e.InvolvedName, fmt.Sprint(e.Count), e.Message}
	}
	t := &printer.Table{Out: p.std.Out, Width: p.std.Width(), Columns: []printer.Column{
		{Title: "LAST"}, {Title: "TYPE", Drop: 2}, {Title: "REASON"}, {Title: "OBJECT"}, {Title: "COUNT", Drop: 1}, {Title: "MESSAGE", Text: true},
	}}
	t.Print(rows, false)
}

// changes prints what changes from one snapshot to a later one.
func (p *presenter) changes(before, after *monitor.Snapshot) {
	printer.Fprintf(p.std.Out, "%s -> %s\n", before.Timestamp, after.Timestamp)
	list := monitor.Compare(before, after)
	for _, c := range list {
		text := fmt.Sprintf("  %s %s", c.Sign, c.Subject)
		if c.Text != "" {
			text += ": " + c.Text
		}
		printer.WriteLine(p.std.Out, printer.ColoredText{Text: text})
	}
	if len(list) == 0 {
		printer.Fprintf(p.std.Out, "  no changes\n")
	}
}
