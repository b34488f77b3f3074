package summary

import (
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Lists of clusters by the state of an object.
const (
	onReady = iota
	onWaitApplied
	onPending
	onModified
	onOrphaned
	onMissing
	onUnknown
	onNotReady
	buckets
	noBucket = -1
)

// bucketOf is the list for a state; a word that has none is in no list.
func bucketOf(state string) int {
	switch state {
	case string(fleet.Ready):
		return onReady
	case string(fleet.WaitApplied):
		return onWaitApplied
	case string(fleet.Pending):
		return onPending
	case string(fleet.Modified):
		return onModified
	case fleet.ResourceOrphaned:
		return onOrphaned
	case fleet.ResourceMissing:
		return onMissing
	case fleet.ResourceUnknown:
		return onUnknown
	case string(fleet.NotReady), "updating", "error":
		return onNotReady
	}
	return noBucket
}

// listOf is the field for a list.
func listOf(p *fleet.PerClusterState, bucket int) *[]string {
	return [buckets]*[]string{
		&p.Ready, &p.WaitApplied, &p.Pending, &p.Modified, &p.Orphaned, &p.Missing, &p.Unknown, &p.NotReady,
	}[bucket]
}

// limitedNames is the first of many names, or all of them where there is no limit,
// each once.
type limitedNames struct {
	limit     int // 0: none
	truncated bool
	// list is sorted where there is a limit, and else after sort.
	list []string
}

func (n *limitedNames) addName(name string) {
	last := len(n.list) - 1
	if last < 0 || n.limit == 0 {
		n.list = append(n.list, name)
		return
	}
	switch order := strings.Compare(n.list[last], name); {
	case order == 0:
		return
	case order < 0 && last == n.limit-1:
		n.truncated = true
		return
	case order < 0:
		n.list = append(n.list, name)
		return
	}
	at, there := slices.BinarySearch(n.list, name)
	if there {
		return
	}
	if last == n.limit-1 {
		n.list, n.truncated = n.list[:last], true
	}
	n.list = slices.Insert(n.list, at, name)
}

func (n *limitedNames) sortNames() {
	if n.limit == 0 && !slices.IsSorted(n.list) {
		slices.Sort(n.list)
	}
	if n.limit == 0 {
		n.list = slices.Compact(n.list)
	}
}

// addAll adds other names of the same limit.
func (n *limitedNames) addAll(other *limitedNames) {
	if len(n.list) == 0 {
		n.list, n.truncated = slices.Clone(other.list), other.truncated
		return
	}
	for _, name := range other.list {
		n.addName(name)
	}
	n.truncated = n.truncated || other.truncated
}

// namesShare is the part of the room that is kept for names of clusters: a third.
const namesShare = 3

// fitResources lets a list of objects take so many bytes of JSON at most: those that are
// not Ready are kept before the others, and each has its share of room for the
// names of clusters.
func fitResources(list []fleet.DeployedResource, room int) []fleet.DeployedResource {
	if sizeWith(list) <= room {
		return list
	}
	var kept []int
	whole := room
	for _, ready := range []bool{false, true} {
		for i := range list {
			if (list[i].State == string(fleet.Ready)) != ready {
				continue
			}
			if size := baseSize(&list[i]); room-size >= whole/namesShare {
				room -= size
				kept = append(kept, i)
			}
		}
	}
	for n, i := range kept {
		room -= trimNames(&list[i], room/(len(kept)-n))
	}
	slices.Sort(kept)
	out := make([]fleet.DeployedResource, 0, len(kept))
	for _, i := range kept {
		out = append(out, list[i])
	}
	return out
}

// sizeWith is how many bytes objects take at most, with the names of clusters.
func sizeWith(list []fleet.DeployedResource) int {
	size := 0
	for i := range list {
		size += baseSize(&list[i])
		for b := range buckets {
			for _, name := range *listOf(&list[i].PerClusterState, b) {
				size += quoted(name) + 1
			}
		}
	}
	return size
}

// baseSize is how many bytes an object takes without names of clusters.
func baseSize(r *fleet.DeployedResource) int {
	const keys = 240 // names of fields, those of the lists included
	return keys + quoted(r.APIVersion) + quoted(r.Kind) + quoted(r.Type) + quoted(r.ID) + quoted(r.Namespace) +
		quoted(r.Name) + quoted(r.State)
}

// trimNames leaves out names of clusters from the ends of an object's lists, those on
// which it is Ready last, and returns how many bytes the rest takes.
func trimNames(r *fleet.DeployedResource, room int) int {
	used := 0
	for b := buckets - 1; b >= 0; b-- {
		list := listOf(&r.PerClusterState, b)
		for i, name := range *list {
			size := quoted(name) + 1
			if used+size > room {
				*list, r.IncompleteState = slices.Clip((*list)[:i]), true
				break
			}
			used += size
		}
	}
	return used
}
