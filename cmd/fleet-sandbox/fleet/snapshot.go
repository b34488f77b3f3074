package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Snapshot is how the whole fleet is at one moment.
type Snapshot struct {
	Clusters []Row // by manager, workspace (fleet-local first) and name
	Bundles  []Row
	repos    []repoRow
}

// A Row is one line of a table: a cluster and how many of its bundles are
// Ready, or a bundle and on how many of its clusters it is.
type Row struct {
	Manager   string // name of the cluster whose manager says so
	Member    string // of a cluster: its name in this fleet
	Workspace string
	Name      string
	Labels    map[string]string // of a cluster
	Ready     int
	Desired   int
	State     string // one of Fleet's words, never empty
	Message   string // why it is not Ready
}

type repoRow struct {
	Row
	commit string
}

// Look reads the fleet's state from all management clusters.
func (f *Fleet) Look(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	for _, t := range f.tiers {
		if t.client == nil {
			continue // it is being started
		}
		var one Snapshot
		if err := t.look(ctx, &one); err != nil {
			return Snapshot{}, err
		}
		slices.SortFunc(one.Clusters, compareRows)
		slices.SortFunc(one.Bundles, compareRows)
		slices.SortFunc(one.repos, func(a, b repoRow) int { return compareRows(a.Row, b.Row) })
		s.Clusters = append(s.Clusters, one.Clusters...)
		s.Bundles = append(s.Bundles, one.Bundles...)
		s.repos = append(s.repos, one.repos...)
	}
	return s, nil
}

// Managers lists the names of the clusters whose managers are asked, each once.
func (s Snapshot) Managers() []string {
	var out []string
	for _, r := range s.Clusters {
		if !slices.Contains(out, r.Manager) {
			out = append(out, r.Manager)
		}
	}
	return out
}

// compareRows sorts by workspace, fleet-local first, and name.
func compareRows(a, b Row) int {
	first := func(r Row) int {
		if r.Workspace == api.NamespaceLocal {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
}

func clusterRow(c *api.Cluster) Row {
	row := Row{Workspace: c.Namespace, Name: c.Name, Labels: c.Labels, State: c.Status.Display.State}
	row.Ready, row.Desired = c.Status.Summary.Ready, c.Status.Summary.DesiredReady
	row.fill(c.Status.Conditions)
	return row
}

func bundleRow(b *api.Bundle) Row {
	row := Row{Workspace: b.Namespace, Name: b.Name, State: b.Status.Display.State}
	row.Ready, row.Desired = b.Status.Summary.Ready, b.Status.Summary.DesiredReady
	row.fill(b.Status.Conditions)
	if row.State == string(api.Ready) && b.Status.ObservedGeneration != b.Generation {
		row.State = string(api.WaitApplied)
	}
	return row
}

func gitRow(r *api.GitRepo) repoRow {
	row := Row{Workspace: r.Namespace, Name: r.Name, State: r.Status.Display.State}
	row.Ready, row.Desired = r.Status.Summary.Ready, r.Status.Summary.DesiredReady
	row.fill(r.Status.Conditions)
	return repoRow{Row: row, commit: r.Status.Commit}
}

// fill takes state and message from the condition Ready. An empty display
// state means that nothing is wrong, which only the condition confirms.
func (r *Row) fill(conditions []api.Condition) {
	ready := false
	for _, c := range conditions {
		if c.Type != string(api.ConditionReady) {
			continue
		}
		ready = c.Status == "True"
		if !ready {
			r.Message = c.Message
		}
	}
	switch {
	case ready && r.State == "":
		r.State = string(api.Ready)
	case !ready && (r.State == "" || r.State == string(api.Ready)):
		r.State = string(api.NotReady)
	}
}

// Pending says what keeps the fleet from being Ready at a commit (whatever
// was read where commit is empty), or is empty: GitRepos that are not read,
// else Bundles, else GitRepos and Clusters that are not Ready or have not
// counted all deployments yet.
func (s Snapshot) Pending(commit string) string {
	for _, r := range s.repos {
		if commit != "" && r.commit != commit || r.commit == "" {
			return fmt.Sprintf("GitRepo %s is not read yet%s", r.where(), because(r.Row))
		}
	}
	var texts []string
	for _, r := range s.Bundles {
		texts = append(texts, r.pending("Bundle")...)
	}
	if len(texts) == 0 { // these only sum up what Bundles say
		for _, r := range s.repos {
			texts = append(texts, r.pending("GitRepo")...)
		}
		for _, r := range s.Clusters {
			texts = append(texts, r.pending("Cluster")...)
		}
	}
	if want, have := desired(s.Bundles), desired(s.Clusters); len(texts) == 0 && want != have {
		texts = append(texts, fmt.Sprintf("the Clusters count %d deployments, the Bundles %d", have, want))
	}
	if len(texts) > 3 {
		texts = append(texts[:3], fmt.Sprintf("and %d more", len(texts)-3))
	}
	return strings.Join(texts, "; ")
}

// desired is how many deployments rows count together.
func desired(rows []Row) int {
	n := 0
	for _, r := range rows {
		n += r.Desired
	}
	return n
}

func (r Row) pending(kind string) []string {
	if r.State == string(api.Ready) && r.Ready == r.Desired {
		return nil
	}
	state := r.State
	if state == string(api.Ready) {
		state = fmt.Sprintf("Ready on %d of %d", r.Ready, r.Desired)
	}
	return []string{fmt.Sprintf("%s %s is %s%s", kind, r.where(), state, because(r))}
}

// where is "fleet-default/c1", and with a manager below the first one whose it is.
func (r Row) where() string {
	where := r.Workspace + "/" + r.Name
	if r.Manager != "" && r.Manager != api.ClusterLocal {
		where += " of the manager on " + r.Manager
	}
	return where
}

// because is a message behind a colon, cut to one line on the screen.
func because(r Row) string {
	if r.Message == "" {
		return ""
	}
	if runes := []rune(r.Message); len(runes) > 160 {
		return ": " + string(runes[:159]) + "…"
	}
	return ": " + r.Message
}
