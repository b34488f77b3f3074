package fleet

import (
	"context"
	"fmt"
	"net"
	"strconv"

	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Tier is one manager with the clusters it manages: the one that it runs in,
// which it knows as local, and those that are registered with it.
type Tier struct {
	Host       *Member
	Downstream []*Member

	client  *kube.Client // of the administrator, on the host
	manager []*program
}

// Name is that of the cluster that the manager runs in.
func (t *Tier) Name() string { return t.Host.Name }

// Client is the administrator's connection to the cluster that the manager runs
// in.
func (t *Tier) Client() *kube.Client { return t.client }

// Tiers lists all managers: that of the management cluster first, and each
// before those that run in its downstream clusters.
func (f *Fleet) Tiers() []*Tier { return f.tiers }

// addTier makes the members of a manager that runs in host, and of those below.
func (f *Fleet) addTier(host *Member, downstream []Downstream) {
	t := &Tier{Host: host}
	f.tiers = append(f.tiers, t)
	for _, d := range downstream {
		m := &Member{Name: d.Name, Workspace: api.NamespaceDefault, Labels: d.Labels}
		f.Downstream, t.Downstream = append(f.Downstream, m), append(t.Downstream, m)
		if len(d.Downstream) > 0 {
			f.addTier(m, d.Downstream)
		}
	}
}

// TierOf is the manager that runs in a cluster; false where none does.
func (f *Fleet) TierOf(m *Member) (*Tier, bool) {
	for _, t := range f.tiers {
		if t.Host == m {
			return t, true
		}
	}
	return nil, false
}

// Flatten lists clusters with all that are downstream of them, in the order of
// their ports.
func Flatten(list []Downstream) []Downstream {
	var out []Downstream
	for _, d := range list {
		out = append(append(out, d), Flatten(d.Downstream)...)
	}
	return out
}

// A seat is the place of one agent: a cluster, as one manager knows it.
type seat struct {
	tier      *Tier
	member    *Member
	workspace string // of its Cluster
	cluster   string // name of its Cluster
	namespace string // of the agent
	name      string // of the agent's process
}

// own is the seat of the agent of the cluster that the manager runs in.
func (t *Tier) own(top bool) seat {
	s := seat{
		tier: t, member: t.Host, workspace: api.NamespaceLocal, cluster: api.ClusterLocal,
		namespace: api.NamespaceLocalAgent, name: agentProgram,
	}
	if !top { // the agent of the manager above lives there too
		s.name = agentProgram + "-local"
	}
	return s
}

// of is the seat of the agent of a cluster that is registered with the manager.
func (t *Tier) of(m *Member) seat {
	return seat{
		tier: t, member: m, workspace: m.Workspace, cluster: m.Name, namespace: api.NamespaceSystem, name: agentProgram,
	}
}

// agentProgram is the name of an agent's process.
const agentProgram = "fleet-agent"

func (s seat) String() string {
	if s.cluster == s.member.Name {
		return s.member.Name
	}
	return fmt.Sprintf("%s, which its manager knows as %s,", s.member.Name, s.cluster)
}

// seats lists the seats of a tier: its own first.
func (f *Fleet) seats(t *Tier) []seat {
	all := []seat{t.own(t == f.tiers[0])}
	for _, m := range t.Downstream {
		all = append(all, t.of(m))
	}
	return all
}

// address is how processes on this machine reach a cluster's API server.
func address(m *Member) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Cluster.Port()))
}

// look adds what one manager says to a Snapshot.
func (t *Tier) look(ctx context.Context, s *Snapshot) error {
	repos, err := kube.StoreOf[*api.GitRepo](t.client).List(ctx, "", "") // first: what it says of the others they then show
	if err != nil {
		return err
	}
	bundles, err := kube.StoreOf[*api.Bundle](t.client).List(ctx, "", "")
	if err != nil {
		return err
	}
	clusters, err := kube.StoreOf[*api.Cluster](t.client).List(ctx, "", "")
	if err != nil {
		return err
	}
	for _, c := range clusters {
		row := clusterRow(c)
		row.Manager, row.Member = t.Name(), c.Name
		if c.Namespace == api.NamespaceLocal && c.Name == api.ClusterLocal {
			row.Member = t.Name()
		}
		s.Clusters = append(s.Clusters, row)
	}
	for _, b := range bundles {
		row := bundleRow(b)
		row.Manager = t.Name()
		s.Bundles = append(s.Bundles, row)
	}
	for _, r := range repos {
		row := gitRow(r)
		row.Manager = t.Name()
		s.repos = append(s.repos, row)
	}
	return nil
}
