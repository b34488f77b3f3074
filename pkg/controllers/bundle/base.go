package bundle

import (
	"time"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A base is what all controllers of this package read and report to. It writes nothing
// but events.
type base struct {
	cfg    Config
	log    *logrus.Entry
	now    func() time.Time
	table  *fleetstate.State
	events *kube.Recorder
	cache  *caches
	lists  *interner
	*queues
}

// queues are the queues of all controllers of this package.
type queues struct {
	bundleQueue     *kube.Controller     // Bundles
	withdrawalQueue *kube.Controller     // BundleDeployments that are being withdrawn
	heartbeatQueue  *kube.Controller     // Clusters: which are offline
	silenceQueue    *kube.Controller     // Bundles: which clusters do not answer
	contentQueue    *kube.Controller     // Contents
	pruneQueue      *kube.Controller     // GitRepos with a prune request, or whose releases would be replaced
	copyQueue       *kube.Controller     // copies of downstream resources
	moveQueue       *kube.Controller     // Clusters that have moved to another workspace
	scheduleQueue   *kube.Controller     // Schedules; nil: they are not acted on
	deletionQueue   *kube.Controller     // namespaces of Bundles that are being deleted
	status          map[string]*reporter // by kind
	idle            *idleTimes
}

// enqueue adds the keys of all objects that changes affect to their queues.
func (bs *base) enqueue(n fleetstate.Changes) {
	for s, final := range n.Status {
		bs.status[s.Kind].enqueue(s.Key, final)
		if s.Kind == fleetstate.KindBundle {
			bs.enqueueHelmOp(s.Key, final)
		}
	}
	for _, key := range n.Plan {
		bs.bundleQueue.Add(key)
	}
	for _, key := range n.Promoted {
		bs.silenceQueue.AddAfter(key, rollout.SilentAfter)
	}
	for _, r := range n.BackOnline {
		if c, ok := bs.table.Cluster(r.Cluster); ok {
			bs.clusterOnline(c, r.Away)
			bs.heartbeatQueue.Add(r.Cluster)
		}
	}
	for _, id := range n.Unused {
		bs.idle.setUnused(id, "", time.Time{})
		bs.contentQueue.Add(kube.Key{Name: id})
	}
}

// enqueueBundlesIn enqueues all Bundles of a namespace; of all namespaces if namespace
// is empty.
func (bs *base) enqueueBundlesIn(namespace string) {
	for _, key := range bs.table.Bundles(namespace) {
		bs.bundleQueue.Add(key)
	}
}

func (bs *base) enqueueBundles(keys []kube.Key) {
	for _, key := range keys {
		bs.bundleQueue.Add(key)
	}
}

// observe stores a Bundle as the API server returned it, before the watch reports it.
func (bs *base) observe(b *fleet.Bundle) {
	stripBundle(b)
	b.ManagedFields = nil
	bs.enqueue(bs.table.SetBundle(b))
}

// logFor returns a log entry with the fields of a Bundle.
func (bs *base) logFor(key kube.Key) *logrus.Entry {
	fields := logrus.Fields{"workspace": key.Namespace, "bundle": key.Name}
	if b, ok := bs.table.Bundle(key); ok {
		fields = naming.LogFields("bundle", b)
		if repo := b.Labels[fleet.LabelRepoName]; repo != "" {
			fields["gitrepo"] = repo
		}
		if commit := b.Labels[fleet.LabelCommit]; commit != "" {
			fields["commit"] = commit
		}
	}
	return bs.log.WithFields(fields)
}

// ownsBundle reports whether this manager reconciles a Bundle (see package scope). It
// is true for a Bundle that does not exist.
func (bs *base) ownsBundle(key kube.Key) bool {
	b, ok := bs.table.Bundle(key)
	return !ok || bs.cfg.Scope.Owns(b)
}

// ownsObjectsOf reports whether this manager reconciles the objects of a Bundle. If the
// Bundle does not exist, the labels of the object name the shard.
func (bs *base) ownsObjectsOf(bundle kube.Key, labels map[string]string) bool {
	if b, ok := bs.table.Bundle(bundle); ok {
		return bs.cfg.Scope.Owns(b)
	}
	return bs.cfg.Scope.Takes(bundle.Namespace, labels)
}

// ownedByOther reports whether another manager reconciles a BundleDeployment. If the
// BundleDeployment does not exist, the Secret with its values names the Bundle.
func (bs *base) ownedByOther(key kube.Key) bool {
	if bd, ok := bs.table.Deployment(key); ok {
		bundle, _, _ := bs.table.PairOf(key)
		return !bs.ownsObjectsOf(bundle, bd.Labels)
	}
	if s, ok := bs.cache.secrets.Get(key); ok {
		return !bs.ownsObjectsOf(kube.Key{Namespace: s.Labels[fleet.LabelBundleNamespace], Name: s.Labels[fleet.LabelBundleName]}, s.Labels)
	}
	return false
}

// budgetOf returns the budget of the GitRepo, else that of its workspace, else
// fallback. A budget that cannot be parsed is ignored and logged.
func (bs *base) budgetOf(repo *fleet.GitRepo, namespace string, fallback withdrawal.Budget) withdrawal.Budget {
	budget, err := bs.readBudget(repo, namespace, fallback)
	if err != nil {
		bs.log.WithField("workspace", namespace).WithField("error", err.Error()).Warn("deletion budget not used")
	}
	return budget
}

func (bs *base) readBudget(repo *fleet.GitRepo, namespace string, fallback withdrawal.Budget) (withdrawal.Budget, error) {
	own := ""
	if repo != nil {
		own = repo.Annotations[fleet.AnnotationDeletionBudget]
	}
	return withdrawal.FirstBudget(fallback, own, bs.workspaceBudget(namespace))
}

// workspaceBudget returns the annotation for the deletion budget of a workspace.
func (bs *base) workspaceBudget(namespace string) string {
	if ns, ok := bs.cache.mapped.namespaces.Get(kube.Key{Name: namespace}); ok {
		return ns.Annotations[fleet.AnnotationDeletionBudget]
	}
	return ""
}

// clusterOnline emits an event for an agent that reports again, and enqueues the
// Bundles of the cluster: withdrawals and versions may have waited for the agent. away
// is how long the agent was silent; 0 for its first report.
func (bs *base) clusterOnline(c *fleet.Cluster, away time.Duration) {
	if bs.cfg.Scope.Owns(c) {
		if away > 0 {
			bs.events.Event(c, kube.Normal, eventOnline, "the agent reports again after "+away.Round(time.Second).String())
		}
		bs.log.WithField("cluster", kube.KeyOf(c).String()).Info("cluster online")
	}
	for _, key := range bs.table.BundlesOn(kube.KeyOf(c)) {
		bs.bundleQueue.Add(key)
	}
}
