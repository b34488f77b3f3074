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
// scan that differs in nothing but its commit is not written. PlanScans never removes a
// scan: it stays until a user deletes it, as in rancher/fleet.
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

func sameScan(a, b *fleet.ImageScan) bool {
	rawA, errA := json.Marshal(a.Spec)
	rawB, errB := json.Marshal(b.Spec)
	return errA == nil && errB == nil && string(rawA) == string(rawB) &&
		maps.Equal(withoutCommit(a.Labels), withoutCommit(b.Labels)) && maps.Equal(a.Annotations, b.Annotations)
}
