package deploy

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// Corrections of the same deployment that follow each other closely come
// slower and slower after the first few: somebody is at work against them.
const (
	correctionsFree = 3 // come at once
	correctionDelay = 5 * time.Second
	correctionLimit = 5 * time.Minute
	correctionCalm  = 10 * time.Minute // after which the count begins anew
)

// correct puts back what others changed, where the deployment asks for it, and
// looks again. After an upgrade that failed half-way nothing is put back: that
// would be the state before it.
func (r *Reconciler) correct(ctx context.Context, s *snapshot, objects []report.Object) ([]report.Object, error) {
	how := correctionOf(s.spec)
	changed := modified(objects)
	halfWay := s.failure != nil && s.observed.State != release.Deployed
	if how == nil || len(changed) == 0 || halfWay || s.observed.Good == 0 {
		return objects, nil
	}
	if wait := r.nextCorrection(s.state); wait > 0 {
		s.again(wait)
		return objects, nil
	}
	history := 0
	if s.spec.Options.Helm != nil {
		history = s.spec.Options.Helm.MaxHistory
	}
	log := r.cfg.Log.WithFields(logrus.Fields{"deployment": s.name, "action": "correct", "reason": changed[0].String()})
	err := r.cfg.Helm.Correct(ctx, s.observed.ID, *how, history)
	s.state.corrected, s.state.corrections = r.cfg.Now(), s.state.corrections+1
	if err != nil {
		log.WithField("error", err.Error()).Warn("drift not corrected")
		s.correction = "drift not corrected: " + err.Error()
		s.again(max(r.nextCorrection(s.state), correctionDelay))
		return objects, nil
	}
	log.Info("drift corrected")
	if s.observed, err = r.cfg.Helm.Observe(ctx, s.observed.ID); err != nil {
		return objects, err
	}
	r.lookAtAll(s)
	return r.inspect(ctx, s)
}

// correctionOf is how drift is to be corrected; nil: not at all.
func correctionOf(spec fleet.BundleDeploymentSpec) *fleet.CorrectDrift {
	for _, c := range []*fleet.CorrectDrift{spec.CorrectDrift, spec.Options.CorrectDrift} {
		if c != nil && c.Enabled {
			return c
		}
	}
	return nil
}

func modified(objects []report.Object) []fleet.ModifiedStatus {
	var out []fleet.ModifiedStatus
	for _, o := range objects {
		if o.Modified != nil {
			out = append(out, *o.Modified)
		}
	}
	return out
}

// nextCorrection is how long the next correction has to wait.
func (r *Reconciler) nextCorrection(st *state) time.Duration {
	passed := r.cfg.Now().Sub(st.corrected)
	if passed >= correctionCalm {
		st.corrections = 0
	}
	if st.corrections < correctionsFree {
		return 0
	}
	delay := correctionDelay
	for range st.corrections - correctionsFree {
		delay = min(2*delay, correctionLimit)
	}
	return max(delay-passed, 0)
}
