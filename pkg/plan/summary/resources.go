package summary

import (
	"cmp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// objectKey names an object over all clusters.
type objectKey struct{ apiVersion, kind, namespace, name string }

// A resourceIndex is the objects of many deployments, with the clusters on which each
// is in which state.
//
// Most deployments of a Bundle have the same list of objects, which is shared,
// and on most clusters all of them are in the same state. So deployments of one
// list and one state are counted together, and only where an agent says something
// about single objects these are looked at one by one.
type resourceIndex struct {
	brief      bool // only examples of clusters are kept
	found      map[objectKey]*objectState
	lists      map[listKey][]*objectState
	groups     map[groupKey]*resourceGroup
	last       *resourceGroup // the one that was used last, and its key
	key        groupKey
	round      int            // number of the deployment that is looked at
	cache      []*objectState // what an agent spoke of last, by the place where it did
	exceptions []*objectState // what the agent of this deployment speaks of
}

// A listKey identifies a shared list.
type listKey struct {
	first *fleet.BundleDeploymentResource
	n     int
}

func keyOf(list []fleet.BundleDeploymentResource) listKey {
	if len(list) == 0 {
		return listKey{}
	}
	return listKey{&list[0], len(list)}
}

// A groupKey is what deployments that are counted together have in common.
type groupKey struct {
	list       listKey
	state      string
	incomplete bool
}

// A group is deployments whose objects are all in the same state.
type resourceGroup struct {
	objects    []*objectState
	state      string
	bucket     int
	incomplete bool
	clusters   limitedNames
}

// An object is one object over all clusters.
type objectState struct {
	key             objectKey
	clustersByState [buckets]limitedNames
	partial         bool // some agent reports only a part
	// worst is the state that is not Ready on the first cluster by name.
	worst   string
	worstOn string
	round   int    // when it was an exception last
	now     string // and in which state it was then
}

func newRegister(brief bool) *resourceIndex {
	return &resourceIndex{brief: brief, found: map[objectKey]*objectState{}, lists: map[listKey][]*objectState{}, groups: map[groupKey]*resourceGroup{}}
}

// addDeployment takes in the objects of one deployment. Each is in the state of the
// deployment, unless the agent said something about it.
func (r *resourceIndex) addDeployment(d *Deployment) {
	general := string(d.State)
	if d.State == fleet.NotReady || d.State == fleet.Modified {
		general = string(fleet.Ready)
		if d.Incomplete {
			general = fleet.ResourceUnknown
		}
	}
	if len(d.NonReady) == 0 && len(d.Modified) == 0 {
		if len(d.Resources) > 0 {
			r.groupOf(d, general).clusters.addName(d.Cluster)
		}
		return
	}
	r.round++
	r.exceptions = r.exceptions[:0]
	for i := range d.NonReady {
		n := &d.NonReady[i]
		r.setException(i, objectKey{n.APIVersion, n.Kind, n.Namespace, n.Name}, n.Summary.State)
	}
	for i := range d.Modified {
		m := &d.Modified[i]
		r.setException(len(d.NonReady)+i, objectKey{m.APIVersion, m.Kind, m.Namespace, m.Name}, modifiedState(m))
	}
	for _, o := range r.exceptions {
		o.addState(d, o.now)
	}
	for _, o := range r.objects(d.Resources) {
		if o.round != r.round {
			o.addState(d, general)
		}
	}
}

// setException notes what an agent says about an object; if it says two things about one object,
// the last one is used. place is where the agent says it: other agents mostly say the same
// thing in the same place.
func (r *resourceIndex) setException(place int, key objectKey, state string) {
	for place >= len(r.cache) {
		r.cache = append(r.cache, nil)
	}
	o := r.cache[place]
	if o == nil || o.key != key {
		o = r.objectOf(key)
		r.cache[place] = o
	}
	o.now = state
	if o.round != r.round {
		o.round = r.round
		r.exceptions = append(r.exceptions, o)
	}
}

func (r *resourceIndex) objectOf(key objectKey) *objectState {
	o := r.found[key]
	if o == nil {
		o = &objectState{key: key}
		if r.brief {
			for i := range o.clustersByState {
				o.clustersByState[i].limit = maxExamples
			}
		}
		r.found[key] = o
	}
	return o
}

// objects finds the objects of a list.
func (r *resourceIndex) objects(list []fleet.BundleDeploymentResource) []*objectState {
	key := keyOf(list)
	out, known := r.lists[key]
	if known {
		return out
	}
	out = make([]*objectState, 0, len(list))
	for i := range list {
		l := &list[i]
		if o := r.objectOf(objectKey{l.APIVersion, l.Kind, l.Namespace, l.Name}); !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	r.lists[key] = out
	return out
}

func (r *resourceIndex) groupOf(d *Deployment, state string) *resourceGroup {
	key := groupKey{keyOf(d.Resources), state, d.Incomplete}
	if r.last != nil && r.key == key {
		return r.last
	}
	g := r.groups[key]
	if g == nil {
		g = &resourceGroup{objects: r.objects(d.Resources), state: state, bucket: bucketOf(state), incomplete: d.Incomplete}
		if r.brief {
			g.clusters.limit = maxExamples
		}
		r.groups[key] = g
	}
	r.last, r.key = g, key
	return g
}

// addState adds the state of the object on one cluster.
func (o *objectState) addState(d *Deployment, state string) {
	o.partial = o.partial || d.Incomplete
	o.keepState(d.Cluster, state)
	if b := bucketOf(state); b != noBucket {
		o.clustersByState[b].addName(d.Cluster)
	}
}

// keepState keeps the state of the first cluster by name on which the object is not
// Ready; where several deployments of that cluster have it, the first state by name.
func (o *objectState) keepState(cluster, state string) {
	if state == string(fleet.Ready) {
		return
	}
	if o.worst == "" || cmp.Or(cmp.Compare(cluster, o.worstOn), cmp.Compare(state, o.worst)) < 0 {
		o.worst, o.worstOn = state, cluster
	}
}

// addToObjects passes on to its objects what was counted together.
func (g *resourceGroup) addToObjects() {
	g.clusters.sortNames()
	first := g.clusters.list[0]
	for _, o := range g.objects {
		o.partial = o.partial || g.incomplete
		o.keepState(first, g.state)
		if g.bucket != noBucket {
			o.clustersByState[g.bucket].addAll(&g.clusters)
		}
	}
}

// resources lists the objects of many deployments once, with the clusters on
// which each is in which state, sorted by type and id. clusters is how many
// clusters there are: with more than 200 the first 10 of each state are named.
// An object whose clusters are not all named is incomplete.
func resources(list []*Deployment, clusters int) []fleet.DeployedResource {
	r := newRegister(clusters > maxClusters)
	for _, d := range list {
		r.addDeployment(d)
	}
	for _, g := range r.groups {
		g.addToObjects()
	}
	if len(r.found) == 0 {
		return nil
	}
	out := sortedResources(r.found)
	if r.brief {
		return fitResources(out, listedBytes)
	}
	return fitResources(out, completeBytes)
}

// sortedResources are objects by type and id.
func sortedResources(found map[objectKey]*objectState) []fleet.DeployedResource {
	type entry struct {
		key string
		at  int
	}
	all := make([]fleet.DeployedResource, 0, len(found))
	index := make([]entry, 0, len(found))
	for _, o := range found {
		r := o.resource()
		index = append(index, entry{r.Type + "/" + r.ID + " " + r.APIVersion, len(all)})
		all = append(all, r)
	}
	slices.SortFunc(index, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	out := make([]fleet.DeployedResource, len(index))
	for i, e := range index {
		out[i] = all[e.at]
	}
	return out
}

func (o *objectState) resource() fleet.DeployedResource {
	k := o.key
	out := fleet.DeployedResource{APIVersion: k.apiVersion, Kind: k.kind, Namespace: k.namespace, Name: k.name,
		State: string(fleet.Ready), Type: strings.ToLower(k.kind), ID: k.name, IncompleteState: o.partial}
	if group, _, grouped := strings.Cut(k.apiVersion, "/"); grouped {
		out.Type = group + "." + out.Type
	}
	if k.namespace != "" {
		out.ID = k.namespace + "/" + k.name
	}
	if o.worst != "" {
		out.State = o.worst
	}
	for b := range o.clustersByState {
		n := &o.clustersByState[b]
		n.sortNames()
		*listOf(&out.PerClusterState, b) = n.list
		out.IncompleteState = out.IncompleteState || n.truncated
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
