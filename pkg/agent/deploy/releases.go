package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// releases observe and change the releases in the agent's cluster. They decide nothing.
type releases struct {
	helm   *helm.Client
	live   drift.Live
	before predecessor
	to     *logrus.Entry
	now    func() time.Time

	payloads     *payloads
	dependencies *dependencies
	copies       *copies
	sharing      *sharing
	drift        *drift.Monitor
	acts         *stepReporter
}

// observe reads the state of the release that a deployment wants.
func (r *releases) observe(ctx context.Context, s *snapshot) (err error) {
	s.observed, err = r.helm.Observe(ctx, s.wanted.ID)
	return err
}

// takeStep carries out one action.
func (r *releases) takeStep(ctx context.Context, s *snapshot, a release.Action) error {
	id := s.wanted.ID
	if a.Verb == release.Install || a.Verb == release.Upgrade {
		return r.deploy(ctx, s, a)
	}
	r.log(s, a).Info("release action")
	switch a.Verb {
	case release.Fail:
		return r.helm.Fail(ctx, id)
	case release.Resume:
		return r.resumeCorrection(ctx, s)
	case release.Mend:
		return r.helm.RepairStatus(ctx, id)
	case release.Purge:
		return r.helm.Purge(ctx, id)
	case release.Forget:
		return r.helm.Forget(ctx, id)
	case release.Uninstall:
		return r.helm.Uninstall(ctx, id, s.rights())
	}
	return fmt.Errorf("unknown action %q", a.Verb)
}

// deploy installs or upgrades the release.
func (r *releases) deploy(ctx context.Context, s *snapshot, a release.Action) error {
	defer s.session.timeout()()
	d, err := r.accept(ctx, s)
	if err != nil {
		return err
	}
	r.log(s, a).Info("release action")
	if a.Verb == release.Install {
		err = r.helm.Install(ctx, d)
	} else {
		err = r.helm.Upgrade(ctx, d)
	}
	r.sharing.setAwaited(s, err)
	if err != nil {
		return err
	}
	s.rec.Applied, s.rec.Failed, s.rec.Chunks = s.spec.DeploymentID, nil, 0
	s.rec.Carried = s.spec.DownstreamResourcesGeneration
	s.wanted.Applied, s.wanted.Settled = s.spec.DeploymentID, ""
	r.drift.LookAtAll(s.name)
	return nil
}

// resumeCorrection repeats a correction of drift that was interrupted. If it fails, it
// counts as a failed correction.
func (r *releases) resumeCorrection(ctx context.Context, s *snapshot) error {
	if err := r.helm.Fail(ctx, s.wanted.ID); err != nil {
		return err
	}
	how := drift.CorrectionOf(s.spec)
	if how == nil {
		return nil
	}
	if err := r.helm.Correct(ctx, s.wanted.ID, s.rights(), drift.InterruptedCorrection(s.spec, *how)); err != nil && ctx.Err() == nil {
		s.correction = summary.NotCorrected + err.Error()
	}
	r.drift.LookAtAll(s.name)
	return nil
}

// log returns a log entry for an action.
func (r *releases) log(s *snapshot, a release.Action) *logrus.Entry {
	return r.to.WithFields(s.logFields()).WithFields(logrus.Fields{
		"action": string(a.Verb), "reason": a.Reason, "commit": s.labels[fleet.LabelCommit],
	})
}

// helmDeployment returns the input of package helm.
func (r *releases) helmDeployment(s *snapshot) helm.Deployment {
	_, admin := s.labels[fleet.LabelAdminNamespace]
	return helm.Deployment{
		ID: s.wanted.ID, Options: s.spec.Options, AdminNamespace: admin,
		Claim: s.claimOf, Shared: s.addConflict, Awaited: r.sharing.awaitedByOthers(s),
		Memory: release.Record{
			Owner: s.wanted.Self, Manager: restoreguard.MarkText(s.mark), BundleUID: string(s.uid()),
			DeploymentID: s.spec.DeploymentID, Commit: s.labels[fleet.LabelCommit],
		},
	}
}
