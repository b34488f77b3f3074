package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// Defaults of a rollout strategy.
const (
	defaultThreshold = 200
	defaultMaxNew    = 50
	// Everything names the partition of a rollout that is not partitioned.
	Everything = "All"
)

var defaultPartitionSize = intstr.FromString("25%")

// A Partition is a part of the targets that is finished before the next one
// begins.
type Partition struct {
	Name    string
	Limit   int   // how many of its targets may be unavailable
	Members []int // indexes of targets, in order
}

// A Shape is what a rollout strategy makes of a list of targets.
type Shape struct {
	Partitions []Partition
	// MaxUnavailable is how many of all targets may be unavailable.
	MaxUnavailable int
	// MaxUnavailablePartitions is how many partitions may be unavailable before
	// the ones after them wait.
	MaxUnavailablePartitions int
	// MaxNew is how many deployments are created at once; 0: none at all.
	MaxNew int
}

// Limited reports whether any limit is below what it limits.
func (s *Shape) Limited() bool {
	all := 0
	for _, p := range s.Partitions {
		if p.Limit < len(p.Members) {
			return true
		}
		all += len(p.Members)
	}
	return s.MaxUnavailable < all
}

// Resolve applies a strategy, which may be nil, to the clusters that a Bundle
// targets, in order. A setting that cannot be read is a permanent fault.
//
// With partitions of its own a strategy leaves out the clusters that none of
// them selects; a cluster that several select is in all of them. Without, the
// clusters are cut into slices from autoPartitionThreshold clusters on.
func Resolve(strategy *fleet.RolloutStrategy, clusters []*target.Cluster) (Shape, error) {
	s := fleet.RolloutStrategy{}
	if strategy != nil {
		s = *strategy
	}
	out := Shape{MaxNew: defaultMaxNew}
	if s.MaxNew != nil {
		out.MaxNew = *s.MaxNew
	}
	var err error
	if out.MaxUnavailable, err = Limit(len(clusters), s.MaxUnavailable); err != nil {
		return out, fmt.Errorf("maxUnavailable: %w", err)
	}
	if len(s.Partitions) > 0 {
		out.Partitions, err = manualPartitions(&s, clusters)
	} else {
		out.Partitions, err = automatic(&s, len(clusters))
	}
	if err != nil {
		return out, err
	}
	none := intstr.FromInt32(0)
	out.MaxUnavailablePartitions, err = Limit(len(out.Partitions), s.MaxUnavailablePartitions, &none)
	if err != nil {
		return out, fmt.Errorf("maxUnavailablePartitions: %w", err)
	}
	return out, nil
}

func manualPartitions(s *fleet.RolloutStrategy, clusters []*target.Cluster) ([]Partition, error) {
	var out []Partition
	for i := range s.Partitions {
		def := &s.Partitions[i]
		filter, err := filterOf(def, i)
		if err != nil {
			return nil, err
		}
		p := Partition{Name: def.Name}
		for n, c := range clusters {
			if filter.Selects(c) {
				p.Members = append(p.Members, n)
			}
		}
		p.Limit, err = Limit(len(p.Members), def.MaxUnavailable, s.MaxUnavailable)
		if err != nil {
			return nil, fmt.Errorf("maxUnavailable of partition %q: %w", def.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func filterOf(def *fleet.Partition, i int) (target.Filter, error) {
	return target.NewFilter(target.Criteria{
		Name: def.Name, ClusterName: def.ClusterName, ClusterSelector: def.ClusterSelector,
		ClusterGroup: def.ClusterGroup, ClusterGroupSelector: def.ClusterGroupSelector,
	}, "partition", i)
}

// PartitionTitle names a partition as a user finds it: by its name, or by its place in the
// list, where i begins at 0.
func PartitionTitle(p *fleet.Partition, i int) string {
	if p.Name != "" {
		return fmt.Sprintf("partition %q", p.Name)
	}
	return fmt.Sprintf("partition %d", i+1)
}

// ChangesPartition reports whether a cluster that has changed is in other partitions of a strategy,
// which may be nil, than before. It returns true for a strategy that cannot be read: the
// caller that resolves it reports the error.
func ChangesPartition(strategy *fleet.RolloutStrategy, was, is *target.Cluster) bool {
	if strategy == nil {
		return false
	}
	for i := range strategy.Partitions {
		filter, err := filterOf(&strategy.Partitions[i], i)
		if err != nil || filter.Selects(was) != filter.Selects(is) {
			return true
		}
	}
	return false
}

func automatic(s *fleet.RolloutStrategy, count int) ([]Partition, error) {
	size, err := sliceSize(s, count)
	if err != nil {
		return nil, fmt.Errorf("autoPartitionSize: %w", err)
	}
	whole := size == 0
	if whole {
		size = count
	}
	var out []Partition
	for start := 0; start < count; start += size {
		end := min(start+size, count)
		p := Partition{Name: Everything, Members: make([]int, 0, end-start)}
		if !whole {
			p.Name = fmt.Sprintf("Partition %d - %d", start, end)
		}
		for n := start; n < end; n++ {
			p.Members = append(p.Members, n)
		}
		if p.Limit, err = Limit(len(p.Members), s.MaxUnavailable); err != nil {
			return nil, fmt.Errorf("maxUnavailable: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// sliceSize is how many of count targets go into one automatic partition; 0
// means that the targets are not partitioned.
func sliceSize(s *fleet.RolloutStrategy, count int) (int, error) {
	threshold := defaultThreshold
	if s.AutoPartitionThreshold != nil {
		threshold = *s.AutoPartitionThreshold
	}
	auto := s.AutoPartitionSize
	off := auto != nil && auto.Type == intstr.Int && auto.IntValue() <= 0
	if off || threshold <= 0 || count < threshold {
		return 0, nil
	}
	return Limit(count, auto, &defaultPartitionSize)
}
