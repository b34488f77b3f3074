package summary

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// maxClusters is up to how many clusters the lists per cluster in a
	// repository's status are complete. Above, they name the clusters that
	// are not ready.
	maxClusters = 200
	// maxIDBytes is how many bytes of cluster ids all these lists hold.
	maxIDBytes = 1 << 20
)

// objectKey names an object over all clusters.
type objectKey struct{ apiVersion, kind, namespace, name string }

// resources lists the objects of many deployments once, with the clusters on
// which each is in which state, sorted by type and id. clusters is how many
// clusters there are.
func resources(list []*Deployment, clusters int) []fleet.DeployedResource {
	byCluster := slices.Clone(list)
	slices.SortStableFunc(byCluster, func(a, b *Deployment) int { return cmp.Compare(a.Cluster, b.Cluster) })
	found := map[objectKey]*fleet.DeployedResource{}
	room := maxIDBytes
	for _, d := range byCluster {
		for _, state := range objectStates(d) {
			r := found[state.key]
			if r == nil {
				r = newResource(state.key)
				found[state.key] = r
			}
			room = record(r, d, &state, room, clusters > maxClusters)
		}
	}
	out := make([]fleet.DeployedResource, 0, len(found))
	for _, r := range found {
		out = append(out, *r)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		return cmp.Or(cmp.Compare(a.Type+"/"+a.ID, b.Type+"/"+b.ID), cmp.Compare(a.APIVersion, b.APIVersion)) < 0
	})
	if len(out) == 0 {
		return nil
	}
	return out
}

func newResource(k objectKey) *fleet.DeployedResource {
	r := &fleet.DeployedResource{APIVersion: k.apiVersion, Kind: k.kind, Namespace: k.namespace, Name: k.name,
		State: string(fleet.Ready), Type: strings.ToLower(k.kind), ID: k.name}
	if group, _, grouped := strings.Cut(k.apiVersion, "/"); grouped {
		r.Type = group + "." + r.Type
	}
	if k.namespace != "" {
		r.ID = k.namespace + "/" + k.name
	}
	return r
}

// objectState is how one object is on one cluster.
type objectState struct {
	key                  objectKey
	state                string
	failed, transitional bool
	message              string
}

// objectStates is the state of each object of one deployment: that of the
// deployment, unless the agent said something about the object itself.
func objectStates(d *Deployment) []objectState {
	general := string(d.State)
	if d.State == fleet.NotReady || d.State == fleet.Modified {
		general = string(fleet.Ready)
		if d.Incomplete {
			general = fleet.ResourceUnknown
		}
	}
	out := make([]objectState, 0, len(d.Resources))
	index := make(map[objectKey]int, len(d.Resources))
	put := func(s objectState) {
		if i, ok := index[s.key]; ok {
			out[i] = s
			return
		}
		index[s.key] = len(out)
		out = append(out, s)
	}
	for _, r := range d.Resources {
		put(objectState{key: objectKey{r.APIVersion, r.Kind, r.Namespace, r.Name}, state: general})
	}
	for _, n := range d.NonReady {
		put(objectState{
			key:   objectKey{n.APIVersion, n.Kind, n.Namespace, n.Name},
			state: n.Summary.State, failed: n.Summary.Error, transitional: n.Summary.Transitioning,
			message: strings.Join(n.Summary.Message, "; "),
		})
	}
	for _, m := range d.Modified {
		put(objectState{key: objectKey{m.APIVersion, m.Kind, m.Namespace, m.Name}, state: modifiedState(&m)})
	}
	return out
}

func modifiedState(m *fleet.ModifiedStatus) string {
	switch {
	case m.Delete:
		return fleet.ResourceOrphaned
	case m.Create:
		return fleet.ResourceMissing
	}
	return string(fleet.Modified)
}

// record adds the state of an object on one cluster and returns how many bytes
// of cluster ids are left. The first state that is not Ready is the object's.
func record(r *fleet.DeployedResource, d *Deployment, s *objectState, room int, brief bool) int {
	r.IncompleteState = r.IncompleteState || d.Incomplete
	if s.state != string(fleet.Ready) && r.State == string(fleet.Ready) {
		r.State, r.Error, r.Transitioning, r.Message = s.state, s.failed, s.transitional, s.message
	}
	list := bucket(&r.PerClusterState, s.state)
	if list == nil || room < len(d.Cluster) || brief && s.state == string(fleet.Ready) {
		return room
	}
	*list = append(*list, d.Cluster)
	return room - len(d.Cluster)
}

// bucket is the list for a state, or nil for a word that has none.
func bucket(p *fleet.PerClusterState, state string) *[]string {
	switch state {
	case string(fleet.Ready):
		return &p.Ready
	case string(fleet.WaitApplied):
		return &p.WaitApplied
	case string(fleet.Pending):
		return &p.Pending
	case string(fleet.Modified):
		return &p.Modified
	case fleet.ResourceOrphaned:
		return &p.Orphaned
	case fleet.ResourceMissing:
		return &p.Missing
	case fleet.ResourceUnknown:
		return &p.Unknown
	case string(fleet.NotReady), "updating", "error":
		return &p.NotReady
	}
	return nil
}
