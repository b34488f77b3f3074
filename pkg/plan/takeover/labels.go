package takeover

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DefaultShard is the shard that objects are passed to if the user names none.
const DefaultShard = "takeover"

// A Move passes objects to the manager of a shard, or back from it to the
// default one.
type Move struct {
	Shard string // id
	Back  bool
}

// NeedsRelabel reports whether an object has to be relabeled. why is why it is not this
// move's to pass on, and empty otherwise: it belongs to a third manager.
func (m Move) NeedsRelabel(labels map[string]string) (relabel bool, why string) {
	shard, named := labels[fleet.LabelShardRef]
	switch {
	case named && shard != m.Shard:
		return false, fmt.Sprintf("it belongs to shard %q", shard)
	case m.Back:
		return named, ""
	}
	return !named, ""
}

// Label returns the value of the label that an object gets; nil takes it away.
func (m Move) Label() any {
	if m.Back {
		return nil
	}
	return m.Shard
}
