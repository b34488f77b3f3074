package deploy

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// snapshots gather what one run knows about a deployment.
type snapshots struct {
	namespace   string        // the agent's own
	predecessor func() string // namespace of the agent whose releases are taken over; empty: of none
	now         func() time.Time
	link        *link
	guard       *restoreguard.Guard
	records     records
	attempts    *attempts
	sharing     *sharing
}

// gather reads everything about a deployment; false: nothing is known of it.
func (sn *snapshots) gather(name string) (*snapshot, bool) {
	s := &snapshot{name: name, session: sn.link.session.Load(), answers: sn.guard.Answers(), conflicts: &conflicts{}}
	s.mark = *sn.link.mark.Load()
	sn.guard.Judge(s.session.managerList(), s.mark)
	s.judged = sn.guard.Judged(s.session.managerList())
	if s.session != nil {
		s.bd, _ = s.session.Deployments.Get(kube.Key{Namespace: s.session.Namespace, Name: name})
	}
	s.rec, s.hasRecord = sn.records.recordOf(name, s.mark)
	switch {
	case s.bd != nil:
		s.spec, s.labels = s.bd.Spec, s.bd.Labels
		s.windows = windowsOf(s.bd)
	case s.hasRecord:
		s.spec, s.labels = s.rec.Spec, s.rec.Labels
		s.windows = changeWindows{s.rec.Windows, s.rec.OpenUntil}
	default:
		return nil, false
	}
	if !s.hasRecord {
		s.rec = inherited(s)
	}
	s.wanted = sn.wantedOf(s)
	return s, true
}

// inherited returns a record for a deployment that is not in the store: another
// implementation may have deployed it, or the store may have been deleted.
func inherited(s *snapshot) store.Record {
	rec := store.Record{
		Key:     store.Key{Manager: s.mark.ID, Name: s.name},
		Applied: s.bd.Status.AppliedDeploymentID,
		Release: release.ParseID(s.bd.Status.Release),
		Revoked: answeredOrder(s.bd),
	}
	rec.Carried = s.bd.Status.DownstreamResourcesGeneration
	c := condition.Find(s.bd.Status.Conditions, fleet.ConditionInstalled)
	if c != nil && c.Status == "False" && rec.Applied != "" {
		rec.Failed = &store.Failure{ID: rec.Applied, Reason: c.Reason, Message: withoutPrefix(c.Message)}
		rec.Applied = ""
	}
	return rec
}

const notInstalled = "not installed: "

// withoutPrefix returns the message of a condition without the prefix of rancher/fleet.
func withoutPrefix(message string) string {
	if len(message) > len(notInstalled) && message[:len(notInstalled)] == notInstalled {
		return message[len(notInstalled):]
	}
	return message
}

// wantedOf returns the input of release.Decide.
func (sn *snapshots) wantedOf(s *snapshot) release.Wanted {
	o := s.spec.Options
	w := release.Wanted{
		ID:            helm.IDOf(s.name, o),
		Self:          release.Owner{AgentNamespace: sn.namespace, BundleID: s.name},
		DeploymentID:  s.spec.DeploymentID,
		KeepResources: o.KeepResources,
		Paused:        isPaused(&s.spec, s.windows) || sn.link.suspended.Load(),
		Correct:       drift.CorrectionOf(s.spec) != nil,
		Unreported:    s.bd == nil,
		Applied:       s.rec.Applied,
		Reported:      appliedID(s.bd),
		Now:           sn.now(),
		Peers:         sn.peers(s),
		Agent:         isAgentBundle(s),
		Predecessor:   release.Predecessor{Namespace: sn.predecessor(), Manager: s.mark.ID},
	}
	if o.Helm != nil {
		w.TakeOwnership = o.Helm.TakeOwnership
	}
	if s.rec.Failed != nil && !sn.attempts.retryDue(s) {
		w.Settled = s.rec.Failed.ID
	}
	if s.bd != nil {
		w.Order = s.bd.Annotations[fleet.AnnotationWithdrawn]
		_, w.Abandon = s.bd.Annotations[fleet.AnnotationAbandon]
	} else if s.hasRecord {
		w.Order = s.rec.Ordered
	}
	s.closeOutside(&w)
	s.wanted = w
	a := sn.guard.Assess(s.request())
	w.Stale, w.MayBeRemoved, w.HeldFor = a.Stale, a.MayBeRemoved, a.HeldFor
	return w
}

// peers returns the other deployments of this agent: those that the manager has, and
// those that the agent has accepted.
func (sn *snapshots) peers(s *snapshot) map[string]release.Peer {
	out := map[string]release.Peer{}
	for _, rec := range sn.records.All() {
		if rec.Key.Name != s.name {
			out[rec.Key.Name] = release.Peer{
				ID: rec.Release, SameRepository: sameRepository(rec.Labels, s.labels),
				Live: s.session == nil || !s.session.Deployments.HasSynced(), Tried: true,
			}
		}
	}
	if s.session == nil {
		return out
	}
	for _, bd := range s.session.Deployments.List("") {
		if bd.Name == s.name {
			continue
		}
		out[bd.Name] = release.Peer{
			ID:             helm.IDOf(bd.Name, bd.Spec.Options),
			Live:           bd.Annotations[fleet.AnnotationWithdrawn] == "" && bd.Spec.DeploymentID != "",
			SameRepository: sameRepository(bd.Labels, s.labels),
			Tried:          sn.triedOf(bd, s.mark) && !sn.sharing.waitsFor(bd.Name, s.release()),
		}
	}
	return out
}

// triedOf reports whether the agent has tried what the manager asks for with a
// deployment: it is applied, has failed, waits for something, or must not be tried now.
func (sn *snapshots) triedOf(bd *fleet.BundleDeployment, mark registration.Mark) bool {
	if isPaused(&bd.Spec, windowsOf(bd)) {
		return true
	}
	id := bd.Spec.DeploymentID
	if rec, ok := sn.records.recordOf(bd.Name, mark); ok && (rec.Applied == id || rec.Failed != nil && rec.Failed.ID == id) {
		return true
	}
	return sn.attempts.lastTriedIs(bd.Name, id)
}

// answeredOrder returns the order that the status of a deployment answers.
func answeredOrder(bd *fleet.BundleDeployment) string {
	c := condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn)
	if c == nil || c.Status != corev1.ConditionTrue {
		return ""
	}
	return c.Message
}
