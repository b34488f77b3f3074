package deploy

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// correctionDelay is when a correction that failed is tried again at the soonest.
const correctionDelay = 5 * time.Second

// correct reverts what others changed, where the deployment asks for it, and what
// another bundle took over and has given up; see lost. It looks again at what it
// touched. For an object that is changed back repeatedly the delay grows, and other
// objects are not delayed. After an upgrade that failed half-way it reverts nothing:
// that would restore the state before it.
func (r *Reconciler) correct(ctx context.Context, s *snapshot, objects []report.Object) ([]report.Object, error) {
	how := correctionOf(s.spec)
	changed := modified(objects)
	r.found(s, changed)
	halfWay := s.failure != nil && s.observed.State != release.Deployed
	if halfWay || s.observed.Good == 0 {
		clear(s.state.fieldConflicts)
		return objects, nil
	}
	lost := r.lost(ctx, s)
	if how == nil { // what others changed stays
		if how, changed = (&fleet.CorrectDrift{}), changedAt(changed, lost); len(changed) == 0 {
			clear(s.state.fieldConflicts)
			return objects, nil
		}
	}
	due := s.due(changed, r.cfg.Now())
	defer r.contest(s)
	if len(due) == 0 {
		return objects, nil
	}
	log := r.cfg.Log.WithFields(logrus.Fields{"deployment": s.name, "action": "correct", "reason": changed[0].String()})
	began := r.cfg.Now()
	err := r.cfg.Helm.Correct(ctx, s.observed.ID, helm.RightsOf(s.spec.Options), s.correctionBy(*how, due, lost))
	r.corrected(s, those(changed, due), began, err)
	for at := range due {
		s.state.fieldConflicts[at].Corrected(r.cfg.Now())
	}
	if err != nil {
		log.WithField("error", err.Error()).Warn("drift not corrected")
		s.correction = summary.NotCorrected + err.Error()
		s.again(correctionDelay)
		return objects, nil
	}
	log.Info("drift corrected")
	if s.observed, err = r.cfg.Helm.Observe(ctx, s.observed.ID); err != nil {
		return objects, err
	}
	r.lookAgainAt(s, due)
	objects, err = r.inspect(ctx, s)
	if len(s.due(modified(objects), r.cfg.Now())) > 0 {
		s.again(pause) // another writer was faster than the second look, or it had no effect
	}
	return objects, err
}

// due are the objects whose correction need not wait any longer. For the others
// there is another look.
func (s *snapshot) due(changed []fleet.ModifiedStatus, now time.Time) map[ref]bool {
	fieldConflicts := s.state.fieldConflicts
	for at, f := range fieldConflicts {
		if f.Over(now) {
			delete(fieldConflicts, at)
		}
	}
	out := map[ref]bool{}
	for _, m := range changed {
		at := refOf(m)
		f := fieldConflicts[at]
		if f == nil {
			f = &drift.Fight{}
			fieldConflicts[at] = f
		}
		f.Found(m)
		if wait := f.Wait(now); wait > 0 {
			s.again(wait)
			continue
		}
		out[at] = true
	}
	return out
}

func refOf(m fleet.ModifiedStatus) ref {
	return ref{
		kind: schema.FromAPIVersionAndKind(m.APIVersion, m.Kind), key: kube.Key{Namespace: m.Namespace, Name: m.Name},
	}
}

// correctionBy is what Helm is asked to do.
func (s *snapshot) correctionBy(how fleet.CorrectDrift, due, lost map[ref]bool) helm.Correction {
	out := helm.Correction{CorrectDrift: how, Patches: rulesOf(s.spec.Options).patches}
	if s.spec.Options.Helm != nil {
		out.History = s.spec.Options.Helm.MaxHistory
	}
	reclaim := map[string]bool{}
	for at := range lost {
		reclaim[helm.Identity(at.kind, at.key.Namespace, at.key.Name)] = true
	}
	out.Reclaim = func(object string) bool { return reclaim[object] }
	out.Only = func(kind schema.GroupVersionKind, namespace, name string) bool {
		return due[ref{kind: kind, key: kube.Key{Namespace: namespace, Name: name}}]
	}
	return out
}

// contest notes who reverts corrections. Another run notes when that has ended.
func (r *Reconciler) contest(s *snapshot) {
	fieldConflicts := make([]*drift.Fight, 0, len(s.state.fieldConflicts))
	for _, f := range s.state.fieldConflicts {
		fieldConflicts = append(fieldConflicts, f)
		if f.Contested() {
			s.again(f.Rest(r.cfg.Now()))
		}
	}
	s.contested = drift.Contested(fieldConflicts)
}

// lookAgainAt makes the next look one at objects that were corrected. Their
// release has another revision now, and the same manifest.
func (r *Reconciler) lookAgainAt(s *snapshot, due map[ref]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := s.state.view
	if v == nil {
		return
	}
	v.revision = s.observed.Good
	for at := range due {
		s.state.dirty[at] = true
		if o := v.objects[at]; o != nil {
			o.looked = time.Time{}
		}
	}
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
