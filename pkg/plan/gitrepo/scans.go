package gitrepo

import (
	"encoding/json"
	"maps"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// A ScanWrite is one ImageScan that is new or changed.
type ScanWrite struct {
	Old *fleet.ImageScan // nil: it is new
	New *fleet.ImageScan
}

// PlanScans compares the image scans of bundles with those that exist. Like a Bundle, a
// scan that differs in nothing but its commit is not written.
func PlanScans(set bundle.Set, present []*fleet.ImageScan) []ScanWrite {
	there := map[string]*fleet.ImageScan{}
	for _, s := range present {
		there[s.Name] = s
	}
	var list []ScanWrite
	for _, r := range set.Results {
		for _, s := range r.Scans {
			old := there[s.Name]
			switch {
			case old == nil:
				list = append(list, ScanWrite{New: s})
			case old.DeletionTimestamp == nil && !sameScan(old, s):
				changed := old.DeepCopy()
				changed.Labels, changed.Annotations, changed.Spec = s.Labels, s.Annotations, s.Spec
				list = append(list, ScanWrite{Old: old, New: changed})
			}
		}
	}
	return list
}

// LeftoverScans returns the image scans that a GitRepo once yielded and does not yield any
// more. Scans that a user has made have no label of the GitRepo, and stay. If a bundle is
// broken, its scans are not known, and none is left over.
func LeftoverScans(set bundle.Set, present []*fleet.ImageScan, repo string) []*fleet.ImageScan {
	made := map[string]bool{}
	for _, r := range set.Results {
		if r.Broken() {
			return nil
		}
		for _, s := range r.Scans {
			made[s.Name] = true
		}
	}
	var list []*fleet.ImageScan
	for _, s := range present {
		if s.DeletionTimestamp == nil && s.Labels[fleet.LabelRepoName] == repo && s.Spec.GitRepoName == repo && !made[s.Name] {
			list = append(list, s)
		}
	}
	return list
}

func sameScan(a, b *fleet.ImageScan) bool {
	rawA, errA := json.Marshal(a.Spec)
	rawB, errB := json.Marshal(b.Spec)
	return errA == nil && errB == nil && string(rawA) == string(rawB) &&
		maps.Equal(withoutCommit(a.Labels), withoutCommit(b.Labels)) && maps.Equal(a.Annotations, b.Annotations)
}
