package deploy

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A manager that was restored from a backup asks for what it had removed since,
// until its gitjob has read the repositories. The agent has no record of what it
// has removed. So what such a manager said when it had just been restored is not
// installed for release.BehindLimit, if there is no record of it.

// mayBeRemoved reports whether the agent may have removed a deployment by an order
// that a restored manager does not know any more.
func (r *Reconciler) mayBeRemoved(s *snapshot) bool {
	return s.unknown() && !installsAgent(s) && (r.restores.covers(s.bd.Name, wordOf(s.bd)) || reportedBehind(s.bd))
}

// reportedBehind reports whether an earlier run of the agent has held what the manager
// asks for, and has said so in the status. After a restart of the agent, versions do
// not show that: those of the manager may by then be higher again than before its
// restore.
func reportedBehind(bd *fleet.BundleDeployment) bool {
	c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed)
	return c != nil && c.Status != corev1.ConditionTrue && c.Reason == release.ReasonManagerBehind && c.ObservedGeneration == bd.Generation
}

// unknown reports whether the agent has no record of a deployment that the manager asks
// for.
func (s *snapshot) unknown() bool {
	return s.bd != nil && !s.known && s.bd.Annotations[fleet.AnnotationWithdrawn] == "" && s.bd.Spec.DeploymentID != ""
}

// doubt notes a new object that has a lower version than what was seen before it: it
// came with a list, and that list may be of a manager that was restored. The caller
// holds p.mu.
func (p *restoreDetector) doubt(name string, version uint64) {
	if version >= p.highest {
		return
	}
	if p.doubted == nil {
		p.doubted = map[string]bool{}
	}
	p.doubted[name] = true
}

// doubts reports whether a new object came with a lower version than others before.
func (p *restoreDetector) doubts(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doubted[name]
}

// text is the highest version that was seen, "<id>/<epoch>/<version>", for the next
// run of the agent; empty: none was.
func (p *restoreDetector) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highest == 0 {
		return ""
	}
	return p.manager + "/" + strconv.FormatUint(p.highest, 10)
}

// recall parses what text returned in an earlier run.
func (p *restoreDetector) recall(text string) {
	if i := strings.LastIndex(text, "/"); i > 0 {
		p.seen(text[:i], text[i+1:])
	}
}
