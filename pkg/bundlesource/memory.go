package bundlesource

import (
	"slices"
	"sync"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// A Memory is what a reading leaves for the next one of the same repository:
// its results with all that they depend on. It belongs to one reading at a
// time. Nothing depends on it but work that would be done twice.
type Memory struct {
	discovery bundle.Discovery
	paths     []string
	entries   []fleet.BundlePath
	access    claim

	// guarded by the memory limit
	results map[bundle.Dir]bundle.Result
	bytes   int64
}

// A memoryLimit bounds what all memories hold together. Those that were not used for
// longest are emptied first: their repositories are then read from nothing.
type memoryLimit struct {
	limit int64

	mu       sync.Mutex
	memories []*Memory // by their last use
	bytes    int64
}

// memoryFor is the memory of an earlier reading, or an empty one where that was for
// other paths or credentials.
func (ml *memoryLimit) memoryFor(in Input) *Memory {
	access := claimOf(in.Access)
	m := in.Previous
	if m == nil || m.access != access || !slices.Equal(m.paths, in.Paths) || !slices.Equal(m.entries, in.Entries) {
		ml.release(m)
		return &Memory{access: access, paths: slices.Clone(in.Paths), entries: slices.Clone(in.Entries)}
	}
	taken := &Memory{access: m.access, paths: m.paths, entries: m.entries, discovery: m.discovery}
	ml.mu.Lock()
	taken.results = m.results
	ml.mu.Unlock()
	ml.release(m)
	return taken
}

// keepResults puts the results of a reading into its memory, as far as there is room.
func (ml *memoryLimit) keepResults(m *Memory, results []bundle.Result) {
	m.results, m.bytes = make(map[bundle.Dir]bundle.Result, len(results)), 0
	for _, r := range results {
		n := memorySize(r)
		if m.bytes+n > ml.limit {
			continue
		}
		m.bytes += n
		m.results[r.Dir] = r
	}
	ml.mu.Lock()
	defer ml.mu.Unlock()
	ml.memories = append(ml.memories, m)
	ml.bytes += m.bytes
	for len(ml.memories) > 1 && ml.bytes > ml.limit {
		ml.subtract(ml.memories[0])
	}
}

// release releases a memory. The nil Memory holds nothing.
func (ml *memoryLimit) release(m *Memory) {
	if m == nil {
		return
	}
	ml.mu.Lock()
	defer ml.mu.Unlock()
	ml.subtract(m)
}

// subtract takes what a memory holds off the memory limit. The caller holds the lock.
func (ml *memoryLimit) subtract(m *Memory) {
	i := slices.Index(ml.memories, m)
	if i < 0 {
		return
	}
	ml.memories = slices.Delete(ml.memories, i, i+1)
	ml.bytes -= m.bytes
	m.results, m.bytes = nil, 0
}

// resultBytes is the memory for a result besides its files: names, options,
// inputs.
const resultBytes = 4 << 10

// memorySize estimates the bytes of memory that a result takes.
func memorySize(r bundle.Result) int64 {
	n := int64(resultBytes)
	if r.Bundle == nil {
		return n
	}
	for _, f := range r.Bundle.Spec.Resources {
		n += int64(len(f.Name) + len(f.Content) + 48)
	}
	return n
}
