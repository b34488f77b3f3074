package summary

import (
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// maxClusters is up to how many clusters the lists per cluster in a
	// repository's status are complete.
	maxClusters = 200
	// maxListed is for how many clusters that are not ready the counts are listed if there
	// are more than maxClusters.
	maxListed = 100
	// maxExamples is how many clusters are named for each state of an object
	// above that.
	maxExamples = fleet.StatusListLimit
)

// A clusterCount is what a repository has on one cluster.
type clusterCount struct {
	id     string
	ready  bool // all its deployments are Ready
	counts fleet.ResourceCounts
}

// perCluster adds up deployments by cluster, in no order.
func perCluster(list []*Deployment) []clusterCount {
	if len(list) == 0 {
		return nil
	}
	guess := 0 // the first bundle mostly goes wherever the others go
	for _, d := range list {
		if d.Bundle == list[0].Bundle {
			guess++
		}
	}
	out := make([]clusterCount, 0, guess)
	index := make(map[string]int, guess)
	for _, d := range list {
		i, known := index[d.Cluster]
		if !known {
			i = len(out)
			index[d.Cluster] = i
			out = append(out, clusterCount{id: d.Cluster, ready: true})
		}
		out[i].ready = out[i].ready && d.State == fleet.Ready
		AddCounts(&out[i].counts, d.Counts)
	}
	return out
}

// listedCounts returns the counts of each cluster. If there are many clusters, it returns
// those of the first 100 that are not ready, or fewer where their names are very long.
func listedCounts(clusters []clusterCount) map[string]*fleet.ResourceCounts {
	many := len(clusters) > maxClusters
	var listed []*clusterCount
	for i := range clusters {
		if !many || !clusters[i].ready {
			listed = append(listed, &clusters[i])
		}
	}
	if many {
		listed = firstCounts(listed)
	}
	if len(listed) == 0 {
		return nil
	}
	out := make(map[string]*fleet.ResourceCounts, len(listed))
	for _, c := range listed {
		counts := c.counts
		out[c.id] = &counts
	}
	return out
}

func firstCounts(list []*clusterCount) []*clusterCount {
	compare := func(a, b *clusterCount) int { return strings.Compare(a.id, b.id) }
	if !slices.IsSortedFunc(list, compare) {
		slices.SortFunc(list, compare)
	}
	list = list[:min(maxListed, len(list))]
	room := countsBytes
	for i, c := range list {
		if room -= quoted(c.id) + sizeOf(&c.counts) + len(`:,`); room < 0 {
			return list[:i]
		}
	}
	return list
}
