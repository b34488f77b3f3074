package view

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ShardOf returns the id of the shard that an object belongs to; empty for the default
// manager's.
func ShardOf(o metav1.Object) string { return o.GetLabels()[fleet.LabelShardRef] }

// ShardsOf returns the ids of the shards that the repositories, HelmOps and bundles of a
// fleet belong to, in order.
func ShardsOf(f Fleet) []string {
	ids := map[string]bool{}
	for _, r := range f.Repositories {
		ids[ShardOf(r)] = true
	}
	for _, op := range f.HelmOps {
		ids[ShardOf(op)] = true
	}
	for _, b := range f.Bundles {
		ids[ShardOf(b)] = true
	}
	delete(ids, "")
	return slices.Sorted(maps.Keys(ids))
}

// Unmanaged says that no manager works on the shard of an object; it is empty where one
// does, or that is not known, and for objects of the default manager.
func (f Fleet) Unmanaged(o metav1.Object) string { return f.Shards[ShardOf(o)].Unmanaged() }

// Unmanaged says that the manager of a shard is gone; it is empty where it is not, and
// for the default manager.
func (m Manager) Unmanaged() string {
	if m.Shard == "" || !m.IsGone() {
		return ""
	}
	return fmt.Sprintf("no manager works on shard %q", m.Shard)
}

// Absence says that a manager is gone, and when it gave its last sign of life. It is empty
// where the manager runs, or where that is not known.
func (m Manager) Absence(now time.Time) string {
	switch text := m.Unmanaged(); {
	case text != "":
		return text
	case m.IsGone():
		return stopped + ", last sign of life " + Ago(*m.LastSign, now) + " ago"
	}
	return ""
}

// ShardHint returns what helps an object of a shard without a manager.
func (m Manager) ShardHint() string {
	return fmt.Sprintf("start a manager with --shard-id=%s, or correct the label %s", m.Shard, fleet.LabelShardRef)
}

// ReasonNoManager is the reason of a shard without a manager.
const ReasonNoManager = "NoManager"

// shardAttention is one row for each shard without a manager.
func (f Fleet) shardAttention() []Attention {
	var rows []Attention
	for _, id := range slices.Sorted(maps.Keys(f.Shards)) {
		m := f.Shards[id]
		text := m.Unmanaged()
		if text == "" {
			continue
		}
		held := fmt.Sprintf("repositories (%d)", countShard(f.Repositories, id))
		if n := countShard(f.HelmOps, id); n > 0 {
			held += fmt.Sprintf(", helmops (%d)", n)
		}
		held += fmt.Sprintf(" and bundles (%d)", countShard(f.Bundles, id))
		rows = append(rows, Attention{
			State: fleet.Offline, Kind: "Manager", Name: "shard " + id, Reason: ReasonNoManager, Since: m.LastSign,
			Message: fmt.Sprintf("%s: %s stay as they are; %s", text, held, m.ShardHint()),
		})
	}
	return rows
}

// countShard returns how many objects belong to a shard.
func countShard[T metav1.Object](list []T, id string) int {
	n := 0
	for _, o := range list {
		if ShardOf(o) == id {
			n++
		}
	}
	return n
}
