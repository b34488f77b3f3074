package bundle

import (
	"time"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
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
	lists  *lists
	*queues
}

// queues are the queues of all controllers of this package.
type queues struct {
	bundleQueue     *kube.Controller     // Bundles
	withdrawalQueue *kube.Controller     // BundleDeployments on their way out
	heartbeatQueue  *kube.Controller     // Clusters: which are offline
	silenceQueue    *kube.Controller     // Bundles: which clusters do not answer
	contentQueue    *kube.Controller     // Contents
	pruneQueue      *kube.Controller     // GitRepos whose Bundles are asked to go, or whose releases would be replaced
	copyQueue       *kube.Controller     // copies of what deployments take along
	moveQueue       *kube.Controller     // Clusters that have moved to another workspace
	deletionQueue   *kube.Controller     // namespaces of Bundles that are being deleted
	status          map[string]*reporter // by kind
	idle            *idleTimes
}

// enqueue adds the keys of all objects that changes affect to their queues.
func (e *base) enqueue(n fleetstate.Changes) {
	for s, final := range n.Status {
		e.status[s.Kind].wake(s.Key, final)
	}
	for _, key := range n.Plan {
		e.bundleQueue.Add(key)
	}
	for _, key := range n.Promoted {
		e.silenceQueue.AddAfter(key, rollout.SilentAfter)
	}
	for _, r := range n.Revived {
		if c, ok := e.table.Cluster(r.Cluster); ok {
			e.revived(c, r.Away)
			e.heartbeatQueue.Add(r.Cluster)
		}
	}
	for _, id := range n.Unused {
		e.idle.setUnused(id, "", time.Time{})
		e.contentQueue.Add(kube.Key{Name: id})
	}
}

func (e *base) planAll(namespace string) {
	for _, key := range e.table.Bundles(namespace) {
		e.bundleQueue.Add(key)
	}
}

func (e *base) planSome(keys []kube.Key) {
	for _, key := range keys {
		e.bundleQueue.Add(key)
	}
}

// observe stores a Bundle as the API server returned it, before the watch reports it.
func (e *base) observe(b *fleet.Bundle) {
	stripBundle(b)
	b.ManagedFields = nil
	e.enqueue(e.table.SetBundle(b))
}

// held says why nothing new may be written in a namespace.
func (e *base) held(namespace string) (why string, restricted bool) {
	var limits []support.Limit
	for kind, c := range e.cache.limits {
		for _, o := range c.List(namespace) {
			limits = append(limits, support.Limit{Kind: kind, Name: o.Name})
		}
	}
	if text := support.FailClosed(limits); text != "" {
		return text, true
	}
	return e.brake()
}

// brake returns why nothing new may be written anywhere: a user has put on the brake.
func (e *base) brake() (why string, restricted bool) {
	cm, ok := e.cache.brake.Get(kube.Key{Namespace: e.cfg.Namespace, Name: fleet.ConfigMapBrake})
	if !ok {
		return "", false
	}
	brake := view.ParseBrake(cm.Data)
	if !brake.On {
		return "", false
	}
	brake.Since = nil // messages do not contain times
	return brake.Text(time.Time{}), false
}

func (e *base) logFor(key kube.Key) *logrus.Entry {
	fields := logrus.Fields{"workspace": key.Namespace, "bundle": key.Name}
	if b, ok := e.table.Bundle(key); ok {
		if repo := b.Labels[fleet.LabelRepoName]; repo != "" {
			fields["gitrepo"] = repo
		}
		if commit := b.Labels[fleet.LabelCommit]; commit != "" {
			fields["commit"] = commit
		}
	}
	return e.log.WithFields(fields)
}

// mine reports whether this manager looks after a Bundle. It is true for a Bundle that
// is gone.
func (e *base) mine(key kube.Key) bool {
	b, ok := e.table.Bundle(key)
	return !ok || e.cfg.Scope.Owns(b)
}

// mineOf reports whether this manager looks after what belongs to a Bundle that may be
// gone. Then labels name the shard.
func (e *base) mineOf(bundle kube.Key, labels map[string]string) bool {
	if b, ok := e.table.Bundle(bundle); ok {
		return e.cfg.Scope.Owns(b)
	}
	return e.cfg.Scope.Takes(bundle.Namespace, labels)
}

// elsewhere reports whether a deployment that is being withdrawn, or the values of a
// deleted one, belong to another manager.
func (e *base) elsewhere(key kube.Key) bool {
	if bd, ok := e.table.Deployment(key); ok {
		bundle, _, _ := e.table.PairOf(key)
		return !e.mineOf(bundle, bd.Labels)
	}
	if s, ok := e.cache.secrets.Get(key); ok {
		return !e.mineOf(kube.Key{Namespace: s.Labels[fleet.LabelBundleNamespace], Name: s.Labels[fleet.LabelBundleName]}, s.Labels)
	}
	return false
}

// budgetOf returns the budget of the GitRepo, else that of its workspace, else the
// default. A value that is no budget is ignored.
func (e *base) budgetOf(repo *fleet.GitRepo, namespace string, otherwise withdrawal.Budget) withdrawal.Budget {
	budget, err := e.budget(repo, namespace, otherwise)
	if err != nil {
		e.log.WithField("workspace", namespace).WithField("error", err.Error()).Warn("deletion budget not used")
	}
	return budget
}

func (e *base) budget(repo *fleet.GitRepo, namespace string, otherwise withdrawal.Budget) (withdrawal.Budget, error) {
	own := ""
	if repo != nil {
		own = repo.Annotations[fleet.AnnotationDeletionBudget]
	}
	return withdrawal.FirstBudget(otherwise, own, e.sharedBudget(namespace))
}

// sharedBudget returns the annotation of a workspace for its deletion budget.
func (e *base) sharedBudget(namespace string) string {
	if ns, ok := e.cache.mapped.namespaces.Get(kube.Key{Name: namespace}); ok {
		return ns.Annotations[fleet.AnnotationDeletionBudget]
	}
	return ""
}

// revived emits an event for an agent that reports after it was silent, or for the
// first time: away is 0 then. Orders and versions that waited for the agent are looked
// at.
func (e *base) revived(c *fleet.Cluster, away time.Duration) {
	if e.cfg.Scope.Owns(c) {
		if away > 0 {
			e.events.Event(c, kube.Normal, eventOnline, "the agent reports again after "+away.Round(time.Second).String())
		}
		e.log.WithField("cluster", kube.KeyOf(c).String()).Info("cluster online")
	}
	for _, key := range e.table.BundlesOn(kube.KeyOf(c)) {
		e.bundleQueue.Add(key)
	}
}
