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

// A Plan is the result of the last reconciliation of a Bundle.
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
	// Waiting reports that the rollout waits for deployments: each report may let it
	// continue.
	Waiting bool
	// Seen is the number that Deployments returned when the plan was made.
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
	// Foreign reports that another manager reconciles the Bundle.
	Foreign bool
}

type bundleRow struct {
	key       kube.Key
	obj       *fleet.Bundle // nil: gone, or not seen yet
	repo      kube.Key      // of the GitRepo, if it has one
	helmOp    kube.Key
	cells     map[kube.Key]*placement
	pending   PendingCreates // of its cells
	counts    counts
	named     string // content that the Bundle names
	plan      *Plan
	complete  int64               // generation of the last complete plan
	changed   uint64              // number of changes of deployments
	due       time.Time           // no cluster is Overdue before; zero: none owes an answer
	entries   []plannedDeployment // as they were returned last
	entriesOf *Plan               // for which plan
	entriesAt uint64              // and which clusters
}

// bundleRowOf returns the row of a Bundle, and adds it if it is missing.
func (cr *core) bundleRowOf(key kube.Key) *bundleRow {
	row := cr.bundles[key]
	if row == nil {
		row = &bundleRow{key: key, cells: map[kube.Key]*placement{}}
		cr.bundles[key] = row
	}
	return row
}

// planned reports whether the last plan is of the current version of the Bundle and was
// completely written. The content that a Bundle names is compared separately, because
// it does not change the generation.
func (row *bundleRow) planned() bool {
	return row.plan != nil && row.plan.Complete && row.plan.Generation == row.obj.Generation && row.plan.Named == row.named
}

// dropBundle removes a row that has neither a Bundle nor placements.
func (cr *core) dropBundle(row *bundleRow) {
	if row.obj == nil && len(row.cells) == 0 {
		delete(cr.bundles, row.key)
	}
}

// owners returns the names of the GitRepo and the HelmOp of a Bundle.
func (cr *core) owners(bundle kube.Key) (repo, helmOp string) {
	row := cr.bundles[bundle]
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

// SetBundle stores a Bundle. If its GitRepo or HelmOp has changed, its deployments
// count for the new one.
func (t bundleTable) SetBundle(b *fleet.Bundle) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	if t.departed.known[b.UID] {
		return changed
	}
	row := t.bundleRowOf(kube.KeyOf(b))
	if row.obj != nil && row.obj.UID == b.UID && !newer(b.ResourceVersion, row.obj.ResourceVersion) {
		return changed
	}
	if row.obj == nil || row.obj.UID != b.UID {
		row.complete = b.Status.ObservedGeneration
	}
	row.obj = b
	t.setNamedContent(row, NamedBy(b), &changed)
	t.setOwner(row, ownerByLabel(b, fleet.LabelRepoName), ownerByLabel(b, fleet.LabelHelmOpName), &changed)
	changed.add(Subject{KindBundle, row.key}, row.counts.final())
	return changed
}

// ownerByLabel returns the object that a label of a Bundle names; the zero key if it
// names none.
func ownerByLabel(b *fleet.Bundle, label string) kube.Key {
	if name := b.Labels[label]; name != "" {
		return kube.Key{Namespace: b.Namespace, Name: name}
	}
	return kube.Key{}
}

// setOwner makes a Bundle, with its counters, count for another GitRepo or HelmOp.
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
		r := t.repoRowOf(repo)
		r.bundles[row.key] = true
		for i, n := range row.counts {
			r.counts[i] += n
		}
		changed.add(Subject{KindGitRepo, repo}, r.counts.final())
	}
	for _, c := range row.cells {
		t.refreshView(c, changed)
	}
}

// RemoveBundle removes a deleted Bundle. It keeps the deployments that still exist.
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
	t.setNamedContent(row, "", &changed)
	t.setOwner(row, kube.Key{}, kube.Key{}, &changed)
	row.obj, row.plan, row.complete = nil, nil, 0
	t.dropBundle(row)
	if t.loaded && !t.settled { // it may have been the last Bundle that was not planned
		t.settleIfPlanned(&changed)
	}
	return changed
}

// SetPlan stores the plan of a Bundle.
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
		changed.Plan = append(changed.Plan, key) // its wait may be over
	}
	changed.add(Subject{KindBundle, key}, row.counts.final())
	if r := t.repos[row.repo]; r != nil {
		changed.add(Subject{KindGitRepo, row.repo}, r.counts.final())
	}
	if first && !t.settled {
		t.settleIfPlanned(&changed)
	}
	return changed
}

// setPlan stores a plan, and updates the placements that it affects.
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
		t.refreshView(c, changed)
		t.dropPlacement(c)
	}
}

// settleIfPlanned settles the table if every Bundle has been planned since the start.
// From then on the states in the table are complete, and all statuses may be written.
func (t bundleTable) settleIfPlanned(changed *Changes) {
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

// Settle records that the table has all Bundles that existed when the manager started.
// The caller calls it once, after the caches have synced: a manager without Bundles
// would never settle otherwise.
func (t bundleTable) Settle() Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded = true
	var changed Changes
	if !t.settled {
		t.settleIfPlanned(&changed)
	}
	return changed
}

// Bundles returns the keys of the Bundles of a namespace, sorted; of all namespaces if
// namespace is empty.
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

// siblings returns the rows of the other Bundles of the same GitRepo or HelmOp, sorted.
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

// PendingCreates are the clusters on which a deployment of a Bundle must be created
// before other Bundles of the repository may be withdrawn. Two values are equal if they
// are the same clusters.
type PendingCreates struct {
	// all clusters: the current version of the Bundle was not planned yet
	all      bool
	clusters int
	sum      uint64 // of the hashes of the clusters
}

// pendingSeed is the seed of the hashes in Holds.
var pendingSeed = maphash.MakeSeed()

// count adds the cluster of a placement, or removes it.
func (p *PendingCreates) count(c *placement) {
	now := c.isPendingCreate()
	if now == c.counted {
		return
	}
	c.counted = now
	hash := maphash.Comparable(pendingSeed, c.cluster)
	if now {
		p.clusters++
		p.sum += hash
	} else {
		p.clusters--
		p.sum -= hash
	}
}

// pendingCreates returns the PendingCreates that Blocker uses.
func (row *bundleRow) pendingCreates() PendingCreates {
	if row.obj == nil || row.obj.DeletionTimestamp != nil {
		return PendingCreates{}
	}
	h := row.pending
	h.all = !row.planned()
	return h
}

// PendingCreatesOf returns the PendingCreates of a Bundle. As long as they do not
// change, Blocker returns the same for other Bundles.
func (t bundleTable) PendingCreatesOf(key kube.Key) PendingCreates {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.bundles[key]; row != nil {
		return row.pendingCreates()
	}
	return PendingCreates{}
}

// SiblingPendingCreates returns the PendingCreates of the other Bundles of the same
// repository, without empty ones.
func (t bundleTable) SiblingPendingCreates(key kube.Key) map[kube.Key]PendingCreates {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[kube.Key]PendingCreates{}
	for _, row := range t.siblings(key) {
		if h := row.pendingCreates(); h != (PendingCreates{}) {
			out[row.key] = h
		}
	}
	return out
}

// Blocker returns why a Bundle must not be withdrawn from a cluster yet: another Bundle
// of the same repository must be created there first, so that a renamed bundle takes
// over the objects. It is empty if nothing blocks the withdrawal.
func (t bundleTable) Blocker(key, cluster kube.Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := ""
	for _, row := range t.siblings(key) {
		if row.obj == nil || row.obj.DeletionTimestamp != nil {
			continue
		}
		if c := row.cells[cluster]; (!row.planned() || c != nil && c.isPendingCreate()) && (name == "" || row.key.Name < name) {
			name = row.key.Name
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("bundle %q of the same repository comes first", name)
}
