package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// maxSteps is how many steps one turn may take: more than any way from one
// state to another needs.
const maxSteps = 8

// Reconcile brings one deployment to the state that is wanted.
//
//  1. gather:  the BundleDeployment, the record, the other deployments
//  2. bring:   observe the release, decide one step, take it, and so on
//  3. inspect: look at the live objects, and put back what others changed
//  4. tell:    write the status, once
//
// It may run at any time and any number of times. A deployment that the
// manager has no more is kept as it is.
func (r *Reconciler) Reconcile(ctx context.Context, key kube.Key) (kube.Next, error) {
	s, ok := r.gather(key.Name)
	if !ok {
		r.forget(key.Name)
		return kube.Done, nil
	}
	if s.wanted.Order != "" {
		return r.withdraw(ctx, s)
	}
	if s.wanted.Paused || s.spec.DeploymentID == "" {
		r.blind(s)
		return kube.Done, nil
	}
	if err := r.bring(ctx, s); err != nil || ctx.Err() != nil {
		return kube.Done, err
	}
	objects, err := r.inspect(ctx, s)
	if err == nil {
		objects, err = r.correct(ctx, s, objects)
	}
	if err != nil && !fault.IsPermanent(err) {
		return kube.Done, err // the cluster's API is away; what was reported stays
	}
	return r.finish(ctx, s, objects, err)
}

// bring takes steps until there is none left to take. What keeps it from
// succeeding stands in s.failure afterwards; an error says that the release
// could not be observed.
func (r *Reconciler) bring(ctx context.Context, s *snapshot) error {
	for range maxSteps {
		var err error
		if s.observed, err = r.cfg.Helm.Observe(ctx, s.wanted.ID); err != nil {
			return err
		}
		a := release.Decide(s.observed, s.wanted)
		switch a.Verb {
		case release.Keep:
			r.rest(s, a)
			return nil
		case release.Hold, release.Refuse:
			return r.hold(ctx, s, a)
		}
		if s.bd == nil && !r.mayActAlone(s, a) {
			return nil
		}
		if err := r.act(ctx, s, a); err != nil {
			return r.failed(ctx, s, err)
		}
	}
	return fmt.Errorf("release %s does not come to rest", s.wanted.ID)
}

// mayActAlone tells whether a step can be taken without the manager: with a
// payload in the store, or one that needs none.
func (r *Reconciler) mayActAlone(s *snapshot, a release.Action) bool {
	if a.Verb == release.Install || a.Verb == release.Upgrade {
		return s.known && s.rec.Chunks > 0
	}
	return s.known
}

// rest notes that the release is as it should be, or cannot be.
func (r *Reconciler) rest(s *snapshot, a release.Action) {
	r.tried(s, 0)
	if a.Reason == release.ReasonSettled {
		if s.rec.Failed != nil {
			s.fail(report.Failure{Reason: s.rec.Failed.Reason, Message: s.rec.Failed.Message, Permanent: true})
		}
		return
	}
	s.rec.Applied, s.rec.Failed, s.rec.Chunks = s.spec.DeploymentID, nil, 0
}

// tried notes that the wanted deployment was tried, and how many attempts have
// failed in a row.
func (r *Reconciler) tried(s *snapshot, attempts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.state.tried, s.state.attempts = s.spec.DeploymentID, attempts
}

// hold waits, and says for what.
func (r *Reconciler) hold(ctx context.Context, s *snapshot, a release.Action) error {
	r.tried(s, 0)
	s.fail(report.Failure{Reason: a.Reason, Message: a.Message, Permanent: a.Verb == release.Refuse, Waiting: a.Verb == release.Hold})
	if a.Verb == release.Refuse {
		s.again(refusedDelay)
		return nil
	}
	s.again(a.After)
	if a.Reason == release.ReasonManagerBehind && s.rec.HeldSince == nil {
		now := r.cfg.Now().UTC()
		s.rec.HeldSince = &now
		return r.cfg.Store.Save(ctx, s.rec) // as it is: what the manager says now is not accepted
	}
	return nil
}

// act takes one step.
func (r *Reconciler) act(ctx context.Context, s *snapshot, a release.Action) error {
	id := s.wanted.ID
	if a.Verb == release.Install || a.Verb == release.Upgrade {
		return r.deploy(ctx, s, a)
	}
	r.log(s, a).Info("release action")
	switch a.Verb {
	case release.Fail:
		return r.cfg.Helm.Fail(ctx, id)
	case release.Purge:
		return r.cfg.Helm.Purge(ctx, id)
	case release.Forget:
		return r.cfg.Helm.Forget(ctx, id)
	case release.Uninstall:
		return r.cfg.Helm.Uninstall(ctx, id)
	}
	return fmt.Errorf("unknown action %q", a.Verb)
}

// deploy installs or upgrades the release.
func (r *Reconciler) deploy(ctx context.Context, s *snapshot, a release.Action) error {
	defer s.session.patience()()
	d, err := r.accept(ctx, s)
	if err != nil {
		return err
	}
	r.log(s, a).Info("release action")
	if a.Verb == release.Install {
		err = r.cfg.Helm.Install(ctx, d)
	} else {
		err = r.cfg.Helm.Upgrade(ctx, d)
	}
	if err != nil {
		return err
	}
	s.rec.Applied, s.rec.Failed, s.rec.Chunks = s.spec.DeploymentID, nil, 0
	s.wanted.Applied, s.wanted.Settled = s.spec.DeploymentID, ""
	r.lookAtAll(s)
	return nil
}

// failed notes the failure of an attempt. One for good is kept in the store,
// so that it is not repeated; the others are repeated with a growing delay.
func (r *Reconciler) failed(ctx context.Context, s *snapshot, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	reason := fault.ReasonOf(err)
	f := report.Failure{Reason: reason, Message: err.Error(), Permanent: fault.IsPermanent(err), Waiting: fault.IsWait(err)}
	var wait *fault.Wait
	switch {
	case f.Permanent:
		r.tried(s, 0)
		s.rec.Failed = &store.Failure{ID: s.spec.DeploymentID, Reason: reason, Message: f.Message}
		s.rec.Chunks = 0
	case errors.As(err, &wait) && !needsChange(reason):
		r.tried(s, 0)
		s.again(wait.After)
	default:
		f.Waiting = false
		r.tried(s, s.state.attempts+1)
		s.again(backOff(s.state.attempts))
	}
	s.fail(f)
	if said := s.spec.DeploymentID + reason + f.Message; said != s.state.said {
		s.state.said = said
		r.cfg.Log.WithFields(logrus.Fields{"deployment": s.name, "reason": reason, "error": f.Message}).Warn("not deployed")
	}
	if !f.Permanent {
		return nil
	}
	var observeErr error
	s.observed, observeErr = r.cfg.Helm.Observe(ctx, s.wanted.ID)
	return observeErr
}

// needsChange tells of waits that are failures to the person who looks: only
// somebody else's change helps, but nobody tells the agent of it.
func needsChange(reason string) bool {
	switch reason {
	case release.ReasonForbidden, release.ReasonUnknownKind, release.ReasonNoAccount, release.ReasonNoValues:
		return true
	case oci.ReasonInvalidReference, oci.ReasonInvalidCredentials, oci.ReasonAuthenticationRefused, oci.ReasonCertificateRefused,
		oci.ReasonRedirected, oci.ReasonNotContent, oci.ReasonNotRegistry, oci.ReasonTooLarge:
		return true
	}
	return false
}

// Delays of attempts that failed.
const (
	refusedDelay = time.Minute
	firstDelay   = 2 * time.Second
	lastDelay    = 5 * time.Minute
)

// backOff is the delay after a number of failures in a row.
func backOff(attempts int) time.Duration {
	d := firstDelay
	for range attempts - 1 {
		if d *= 2; d >= lastDelay {
			return lastDelay
		}
	}
	return d
}

// finish keeps and reports the outcome of a turn. blind says why the objects
// cannot be looked at.
func (r *Reconciler) finish(ctx context.Context, s *snapshot, objects []report.Object, blind error) (kube.Next, error) {
	f := report.Found{Objects: objects, Failure: s.failure, Correction: s.correction}
	if s.observed.Good > 0 {
		f.ID = s.running()
		f.Release = fmt.Sprintf("%s:%d", s.observed.ID, s.observed.Good)
	}
	if blind != nil {
		f.Blind = blind.Error()
	}
	var errs []error
	if s.session != nil && s.bd != nil {
		errs = append(errs, r.tell(ctx, s, f))
		r.wakeSiblings(s.session, s.bd, withdrawn)
	}
	if s.accepted() {
		errs = append(errs, r.save(ctx, s), r.removeFormer(ctx, s))
	}
	s.again(lookAgain)
	if v := s.state.view; v != nil && v.unwatched {
		r.lookAtAll(s)
		s.again(unwatchedDelay)
	}
	return kube.Next{After: s.after}, errors.Join(errs...)
}

// lookAtAll makes the next look one at all objects.
func (r *Reconciler) lookAtAll(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.state.all = true
}

// withdrawn tells of deployments that may have waited for this turn.
func withdrawn(bd *fleet.BundleDeployment) bool {
	return bd.Annotations[fleet.AnnotationWithdrawn] != ""
}

// accepted tells whether the wanted state was taken on: it runs, or it was
// found to be impossible.
func (s *snapshot) accepted() bool {
	id := s.spec.DeploymentID
	return id != "" && s.failure == nil && s.rec.Applied == id || s.rec.Failed != nil && s.rec.Failed.ID == id
}

// running is the deployment id of what runs. A release by the reference does
// not say; there it is what was reported.
func (s *snapshot) running() string {
	if s.observed.GoodID != "" {
		return s.observed.GoodID
	}
	return s.rec.Applied
}

// removeFormer uninstalls releases that the deployment made under another name
// or in another namespace, now that the new one is there.
func (r *Reconciler) removeFormer(ctx context.Context, s *snapshot) error {
	if len(s.rec.Former) == 0 || s.failure != nil {
		return nil
	}
	for _, id := range s.rec.Former {
		if id == s.wanted.ID {
			continue
		}
		o, err := r.cfg.Helm.Observe(ctx, id)
		if err != nil {
			return err
		}
		if o.State == release.Absent || o.Memory.Owner != s.wanted.Self {
			continue
		}
		r.log(s, release.Action{Verb: release.Uninstall, Reason: "Renamed"}).WithField("release", id.String()).Info("release action")
		remove := r.cfg.Helm.Uninstall
		if o.Memory.KeepResources {
			remove = r.cfg.Helm.Forget
		}
		if err := remove(ctx, id); err != nil {
			return fmt.Errorf("remove former release %s: %w", id, err)
		}
	}
	s.rec.Former = nil
	return r.cfg.Store.Save(ctx, s.rec)
}

func (r *Reconciler) log(s *snapshot, a release.Action) *logrus.Entry {
	return r.cfg.Log.WithFields(logrus.Fields{
		"deployment": s.name, "action": string(a.Verb), "reason": a.Reason, "commit": s.labels[fleet.LabelCommit],
	})
}

// adopter tells of which releases objects may be taken over: those of other
// deployments of the same repository.
func (s *snapshot) adopter() func(release.ID) bool {
	ids := map[release.ID]bool{}
	for _, p := range s.wanted.Peers {
		if p.SameRepository {
			ids[p.ID] = true
		}
	}
	for _, id := range s.rec.Former {
		ids[id] = true
	}
	if s.known {
		ids[s.rec.Release] = true
	}
	return func(id release.ID) bool { return ids[id] }
}

// deployment is what Helm is given.
func (s *snapshot) deployment() helm.Deployment {
	return helm.Deployment{
		ID: s.wanted.ID, Options: s.spec.Options, Adopt: s.adopter(),
		Memory: release.Memory{
			Owner: s.wanted.Self, Manager: markText(s.mark), BundleUID: string(s.uid()),
			DeploymentID: s.spec.DeploymentID, Commit: s.labels[fleet.LabelCommit],
		},
	}
}
