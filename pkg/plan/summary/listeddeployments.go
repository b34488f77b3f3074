package summary

import (
	"cmp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An deploymentOrder reports whether a deployment comes before another. Nil is the order in
// which they are given.
type deploymentOrder func(a, b *Deployment) bool

// byUID is the order of rancher/fleet in repositories: by UID; those that do
// not exist yet come last.
func byUID(a, b *Deployment) bool {
	if (a.UID == "") != (b.UID == "") {
		return b.UID == ""
	}
	return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Bundle, b.Bundle), cmp.Compare(a.Cluster, b.Cluster)) < 0
}

// byCluster is the order in Bundles: by namespace and name of the cluster.
func byCluster(a, b *Deployment) bool {
	namespace, name, _ := strings.Cut(a.Cluster, "/")
	otherNamespace, otherName, _ := strings.Cut(b.Cluster, "/")
	return cmp.Or(cmp.Compare(namespace, otherNamespace), cmp.Compare(name, otherName)) < 0
}

// A listedDeployments keeps the few of many deployments that are listed, without sorting
// them all: the first of each state, and the first of all.
type listedDeployments struct {
	before deploymentOrder
	firsts [8]*Deployment // by rank of the state
	places [8]int         // of firsts in the list
	seen   int
	ten    []*Deployment // in order
}

func (l *listedDeployments) consider(d *Deployment) {
	rank := d.State.Rank()
	if first := l.firsts[rank]; first == nil || l.before != nil && l.before(d, first) {
		l.firsts[rank], l.places[rank] = d, l.seen
	}
	l.seen++
	n := len(l.ten)
	if n == fleet.StatusListLimit {
		if l.before == nil || !l.before(d, l.ten[n-1]) {
			return
		}
		l.ten = l.ten[:n-1]
	}
	at := len(l.ten)
	if l.before != nil {
		for at > 0 && l.before(d, l.ten[at-1]) {
			at--
		}
	}
	l.ten = slices.Insert(l.ten, at, d)
}

// firstOf is the first deployment of a state, nil for none.
func (l *listedDeployments) firstOf(s fleet.BundleState) *Deployment { return l.firsts[s.Rank()] }

// list is at most 10 deployments in order: the first of each state, then the
// first of all.
func (l *listedDeployments) list() []*Deployment {
	room := fleet.StatusListLimit
	for _, d := range l.firsts {
		if d != nil {
			room--
		}
	}
	var out []*Deployment
	for _, d := range l.ten {
		switch {
		case l.firsts[d.State.Rank()] == d:
			out = append(out, d)
		case room > 0:
			room--
			out = append(out, d)
		}
	}
	return append(out, l.lateFirsts()...)
}

// lateFirsts are the firsts of states that are not among the first ten, in order.
func (l *listedDeployments) lateFirsts() []*Deployment {
	var ranks []int
	for rank, d := range l.firsts {
		if d != nil && !slices.Contains(l.ten, d) {
			ranks = append(ranks, rank)
		}
	}
	slices.SortFunc(ranks, func(a, b int) int {
		switch {
		case l.before == nil:
			return l.places[a] - l.places[b]
		case l.before(l.firsts[a], l.firsts[b]):
			return -1
		}
		return 1
	})
	var out []*Deployment
	for _, rank := range ranks {
		out = append(out, l.firsts[rank])
	}
	return out
}

// resources are the deployments that are listed, as they are listed.
func (l *listedDeployments) resources(word string) []fleet.NonReadyResource {
	var out []fleet.NonReadyResource
	for _, d := range l.list() {
		out = append(out, NonReadyResource(Name(word, d), d))
	}
	return out
}
