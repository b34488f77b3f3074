package fleetstate

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// A Plan is what the last look at a Bundle decided.
type Plan struct {
	Generation int64 // of the Bundle
	Shape      rollout.Shape
	Order      []kube.Key // Clusters that get the Bundle, in the order of Shape
	Wants      map[kube.Key]Desired
	// Problem is why the Bundle as a whole cannot be Ready.
	Problem *summary.Problem
	// Accepted, where not nil, is condition Accepted of the Bundle.
	Accepted *fleet.Condition
	// Complete reports that everything that may be written was written.
	Complete bool
	// Waiting reports that changes of deployments may let others move.
	Waiting bool
	// Seen is what Deployments returned with what the plan was made of.
	Seen uint64
	// ResourcesDigest is the digest of the Bundle's resources.
	ResourcesDigest string
	// Content is the id of the content that the Bundle's deployments need.
	Content string
	// Named is NamedBy of the Bundle.
	Named string
	// Withdrawing says why deployments are being withdrawn.
	Withdrawing string
	// Unrendered are the clusters for which templates of values are not rendered.
	Unrendered values.Unrendered
	// Foreign reports that another manager looks after the Bundle, and that the plan is
	// that manager's.
	Foreign bool
}

type bundleRow struct {
	key      kube.Key
	obj      *fleet.Bundle // nil: gone, or not seen yet
	repo     kube.Key      // of the GitRepo, if it has one
	helmOp   kube.Key
	cells    map[kube.Key]*placement
	holds    Holds // of its cells
	counts   counts
	named    string // content that the Bundle names
	plan     *Plan
	complete int64     // generation of the last complete plan
	changed  uint64    // number of changes of deployments
	due      time.Time // no cluster is Overdue before; zero: none owes an answer
	seats    []seat    // as they were returned last
	seatsOf  *Plan     // for which plan
	seatsAt  uint64    // and which clusters
}

func (t *core) bundle(key kube.Key) *bundleRow {
	row := t.bundles[key]
	if row == nil {
		row = &bundleRow{key: key, cells: map[kube.Key]*placement{}}
		t.bundles[key] = row
	}
	return row
}

// planned reports whether the Bundle was planned as it is now, and all was written.
// The content that a Bundle names is no part of its generation.
func (row *bundleRow) planned() bool {
	return row.plan != nil && row.plan.Complete && row.plan.Generation == row.obj.Generation && row.plan.Named == row.named
}

func (t *core) dropBundle(row *bundleRow) {
	if row.obj == nil && len(row.cells) == 0 {
		delete(t.bundles, row.key)
	}
}

func (t *core) owners(bundle kube.Key) (repo, helmOp string) {
	row := t.bundles[bundle]
	if row == nil {
		return "", ""
	}
	if row.repo.Name != "" {
		repo = row.repo.String()
	}
	if row.helmOp.Name != "" {
		helmOp = row.helmOp.String()
	}
	return repo, helmOp
}

// SetBundle stores a Bundle. Its deployments follow it to another owner.
func (t bundleTable) SetBundle(b *fleet.Bundle) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	if t.departed.known[b.UID] {
		return changed
	}
	row := t.bundle(kube.KeyOf(b))
	if row.obj != nil && row.obj.UID == b.UID && !newer(b.ResourceVersion, row.obj.ResourceVersion) {
		return changed
	}
	if row.obj == nil || row.obj.UID != b.UID {
		row.complete = b.Status.ObservedGeneration
	}
	row.obj = b
	t.name(row, NamedBy(b), &changed)
	t.setOwner(row, owner(b, fleet.LabelRepoName), owner(b, fleet.LabelHelmOpName), &changed)
	changed.add(Subject{KindBundle, row.key}, row.counts.final())
	return changed
}

func owner(b *fleet.Bundle, label string) kube.Key {
	if name := b.Labels[label]; name != "" {
		return kube.Key{Namespace: b.Namespace, Name: name}
	}
	return kube.Key{}
}

// setOwner moves a Bundle with all that is counted for it to an owner.
func (t bundleTable) setOwner(row *bundleRow, repo, helmOp kube.Key, changed *Changes) {
	old := row.repo
	if old == repo && row.helmOp == helmOp && (repo.Name == "" || t.repos[repo] != nil && t.repos[repo].bundles[row.key]) {
		return
	}
	if r := t.repos[old]; r != nil && r.bundles[row.key] {
		delete(r.bundles, row.key)
		for i, n := range row.counts {
			r.counts[i] -= n
		}
		changed.add(Subject{KindGitRepo, old}, r.counts.final())
		t.dropRepo(old)
	}
	row.repo, row.helmOp = repo, helmOp
	if repo.Name != "" {
		r := t.repo(repo)
		r.bundles[row.key] = true
		for i, n := range row.counts {
			r.counts[i] += n
		}
		changed.add(Subject{KindGitRepo, repo}, r.counts.final())
	}
	for _, c := range row.cells {
		t.refresh(c, changed)
	}
}

// RemoveBundle removes a Bundle that is gone. It keeps the remaining deployments.
func (t bundleTable) RemoveBundle(key kube.Key) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	row := t.bundles[key]
	if row == nil {
		return changed
	}
	if row.obj != nil {
		t.departed.add(row.obj.UID)
	}
	t.setPlan(row, &Plan{}, &changed)
	t.name(row, "", &changed)
	t.setOwner(row, kube.Key{}, kube.Key{}, &changed)
	row.obj, row.plan, row.complete = nil, nil, 0
	t.dropBundle(row)
	if t.loaded && !t.settled { // it may have been the last one that was not planned
		t.settleStates(&changed)
	}
	return changed
}

// SetPlan stores what was decided for a Bundle.
func (t bundleTable) SetPlan(key kube.Key, p Plan) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	row := t.bundles[key]
	if row == nil || row.obj == nil {
		return changed
	}
	first := row.plan == nil
	t.setPlan(row, &p, &changed)
	if p.Complete {
		row.complete = p.Generation
	}
	if p.Waiting && p.Seen != row.changed {
		changed.Plan = append(changed.Plan, key) // what it waits for may have come meanwhile
	}
	changed.add(Subject{KindBundle, key}, row.counts.final())
	if r := t.repos[row.repo]; r != nil {
		changed.add(Subject{KindGitRepo, row.repo}, r.counts.final())
	}
	if first && !t.settled {
		t.settleStates(&changed)
	}
	return changed
}

func (t bundleTable) setPlan(row *bundleRow, p *Plan, changed *Changes) {
	if old := row.plan; old != nil && old.Content != "" && old.Content != p.Content {
		delete(t.contents[old.Content], row.key)
		if len(t.contents[old.Content]) == 0 {
			delete(t.contents, old.Content)
			changed.Unused = append(changed.Unused, old.Content)
		}
	}
	if p.Content != "" {
		if t.contents[p.Content] == nil {
			t.contents[p.Content] = map[kube.Key]bool{}
		}
		t.contents[p.Content][row.key] = true
	}
	row.plan = p
	for key := range p.Wants {
		t.placementOf(row.key, key)
	}
	for key, c := range row.cells {
		switch w, ok := p.Wants[key]; {
		case !ok:
			c.want = nil
		case c.want != nil && *c.want == w:
			continue // changes of its deployment were handled when they came
		default:
			c.want = &w
		}
		t.refresh(c, changed)
		t.drop(c)
	}
}

// settleStates notes when every Bundle has been looked at since the start: from then
// on what the table says is the whole truth.
func (t bundleTable) settleStates(changed *Changes) {
	for _, row := range t.bundles {
		if row.obj != nil && row.plan == nil {
			return
		}
	}
	t.settled = true
	for key, row := range t.bundles {
		changed.add(Subject{KindBundle, key}, row.counts.final())
	}
	for key, row := range t.repos {
		changed.add(Subject{KindGitRepo, key}, row.counts.final())
	}
	for key, row := range t.clusters {
		changed.add(Subject{KindCluster, key}, row.counts.final())
	}
	for ns := range t.groups {
		t.touchGroups(ns, changed)
	}
}

// Settle notes that all Bundles that existed at the start are in the table. It is
// called once: without any Bundle no other call would show that.
func (t bundleTable) Settle() Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded = true
	var changed Changes
	if !t.settled {
		t.settleStates(&changed)
	}
	return changed
}

// Bundles returns the keys of the Bundles of a namespace, or of all where it is empty,
// sorted.
func (t bundleTable) Bundles(namespace string) []kube.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []kube.Key
	for key, row := range t.bundles {
		if row.obj != nil && (namespace == "" || key.Namespace == namespace) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, CompareKeys)
	return out
}

// Bundle returns a Bundle.
func (t bundleTable) Bundle(key kube.Key) (*fleet.Bundle, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.bundles[key]; row != nil && row.obj != nil {
		return row.obj, true
	}
	return nil, false
}

// NeededBy returns the Bundles whose deployments need a content, sorted.
func (t bundleTable) NeededBy(content string) []kube.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.contents[content]), CompareKeys)
}

// Siblings returns the other Bundles of the same GitRepo or HelmOp, sorted.
func (t bundleTable) Siblings(key kube.Key) []kube.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []kube.Key
	for _, row := range t.siblings(key) {
		out = append(out, row.key)
	}
	slices.SortFunc(out, CompareKeys)
	return out
}

func (t bundleTable) siblings(key kube.Key) []*bundleRow {
	row := t.bundles[key]
	if row == nil {
		return nil
	}
	var out []*bundleRow
	if r := t.repos[row.repo]; r != nil {
		for k := range r.bundles {
			if k != key {
				out = append(out, t.bundles[k])
			}
		}
	}
	return out
}

// Holds is on which clusters a Bundle comes before the withdrawal of others of its
// repository. Two are equal if they are the same clusters.
type Holds struct {
	all      bool // it was not planned as it is now
	clusters int
	sum      uint64 // of the hashes of the clusters
}

// holdsSeed is the seed of the hashes in Holds.
var holdsSeed = maphash.MakeSeed()

// count adds the cluster of a placement, or takes it away.
func (h *Holds) count(c *placement) {
	now := c.comesFirst()
	if now == c.counted {
		return
	}
	c.counted = now
	hash := maphash.Comparable(holdsSeed, c.cluster)
	if now {
		h.clusters++
		h.sum += hash
	} else {
		h.clusters--
		h.sum -= hash
	}
}

// holdsNow returns what Blocker goes by.
func (row *bundleRow) holdsNow() Holds {
	if row.obj == nil || row.obj.DeletionTimestamp != nil {
		return Holds{}
	}
	h := row.holds
	h.all = !row.planned()
	return h
}

// HoldsOf returns on which clusters a Bundle comes first. Blocker returns the same as before
// while it does not change.
func (t bundleTable) HoldsOf(key kube.Key) Holds {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.bundles[key]; row != nil {
		return row.holdsNow()
	}
	return Holds{}
}

// HoldsBefore returns the Holds of the other Bundles of the same repository that have any.
func (t bundleTable) HoldsBefore(key kube.Key) map[kube.Key]Holds {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[kube.Key]Holds{}
	for _, row := range t.siblings(key) {
		if h := row.holdsNow(); h != (Holds{}) {
			out[row.key] = h
		}
	}
	return out
}

// Blocker returns the other Bundle of the same repository that has to be written to a
// cluster before this one may be withdrawn there: new deployments come first, so that a
// renamed bundle takes over its objects. It is empty for none.
func (t bundleTable) Blocker(key, cluster kube.Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := ""
	for _, row := range t.siblings(key) {
		if row.obj == nil || row.obj.DeletionTimestamp != nil {
			continue
		}
		if c := row.cells[cluster]; (!row.planned() || c != nil && c.comesFirst()) && (name == "" || row.key.Name < name) {
			name = row.key.Name
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("bundle %q of the same repository comes first", name)
}
