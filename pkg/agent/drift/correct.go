package drift

import (
	"context"
	"slices"
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

const (
	// correctionDelay is when a correction that failed is tried again at the soonest.
	correctionDelay = 5 * time.Second
	// ownerDelay is when an object that another release has taken over is looked at
	// again.
	ownerDelay = time.Minute
)

// An Outcome is how the live objects of a release are after a correction.
type Outcome struct {
	Objects   []report.Object
	Failure   string        // why drift could not be corrected
	Contested string        // which client reverts corrections
	Attempt   *Attempt      // nil: there was nothing to correct now
	After     time.Duration // when to run again; 0: after an event
}

// An Attempt is one correction.
type Attempt struct {
	Changed []fleet.ModifiedStatus // the objects that were corrected
	Took    time.Duration
	Err     error
}

// requeueAfter asks for another check after a delay. The shortest delay applies.
func (o *Outcome) requeueAfter(after time.Duration) {
	if after > 0 && (o.After == 0 || after < o.After) {
		o.After = after
	}
}

// Correct reverts changes of other clients, if the deployment asks for that. It also
// applies again the objects that lostToOther returns. Then it reads the corrected
// objects again. If an object is changed back repeatedly, its delay grows; other
// objects are not delayed. After a failed upgrade it reverts nothing: that would
// restore the state before the upgrade. An error says that the objects could not be
// read again; the Outcome is valid nevertheless.
func (m *Monitor) Correct(ctx context.Context, rel Release, objects []report.Object) (Outcome, error) {
	d, out := m.deploymentOf(rel.Name), Outcome{Objects: objects}
	how := CorrectionOf(rel.Spec)
	changed := modified(objects)
	m.countNewDrift(d, changed)
	halfWay := rel.Failed && rel.Observed.State != release.Deployed
	if halfWay || rel.Observed.Good == 0 {
		clear(d.fieldConflicts)
		return out, nil
	}
	lost := m.lostToOther(ctx, rel, d, &out)
	if how == nil { // what others changed stays
		if how, changed = (&fleet.CorrectDrift{}), changedAt(changed, lost); len(changed) == 0 {
			clear(d.fieldConflicts)
			return out, nil
		}
	}
	due := d.dueObjects(changed, m.cfg.Now(), &out)
	var err error
	if len(due) > 0 {
		err = m.correct(ctx, rel, d, changed, correction(rel.Spec, *how, due, lost), due, &out)
	}
	m.setContested(d, &out)
	return out, err
}

// correct makes one correction of the objects that are due, and reads them again.
func (m *Monitor) correct(ctx context.Context, rel Release, d *deployment, changed []fleet.ModifiedStatus,
	c helm.Correction, due map[ref]bool, out *Outcome,
) error {
	log := m.cfg.Log.WithFields(logrus.Fields{"deployment": rel.Name, "action": "correct", "reason": changed[0].String()})
	began := m.cfg.Now()
	err := m.cfg.Helm.Correct(ctx, rel.Observed.ID, helm.RightsOf(rel.Spec.Options), c)
	out.Attempt = &Attempt{Changed: changedAt(changed, due), Took: m.cfg.Now().Sub(began), Err: err}
	for at := range due {
		d.fieldConflicts[at].Corrected(m.cfg.Now())
	}
	if err != nil {
		log.WithField("error", err.Error()).Warn("drift not corrected")
		out.Failure = summary.NotCorrected + err.Error()
		out.requeueAfter(correctionDelay)
		return nil
	}
	log.Info("drift corrected")
	if *rel.Observed, err = m.cfg.Helm.Observe(ctx, rel.Observed.ID); err != nil {
		return err
	}
	m.lookAgainAt(rel, d, due)
	out.Objects, err = m.Inspect(ctx, rel)
	if len(d.dueObjects(modified(out.Objects), m.cfg.Now(), out)) > 0 {
		out.requeueAfter(pause) // another client was faster than the second read, or the correction had no effect
	}
	return err
}

// dueObjects returns the objects whose correction need not wait. It requests another
// check for the others.
func (d *deployment) dueObjects(changed []fleet.ModifiedStatus, now time.Time, out *Outcome) map[ref]bool {
	for at, f := range d.fieldConflicts {
		if f.IsOver(now) {
			delete(d.fieldConflicts, at)
		}
	}
	due := map[ref]bool{}
	for _, m := range changed {
		at := refOf(m)
		f := d.fieldConflicts[at]
		if f == nil {
			f = &drift.CorrectionHistory{}
			d.fieldConflicts[at] = f
		}
		f.Found(m)
		if wait := f.Wait(now); wait > 0 {
			out.requeueAfter(wait)
			continue
		}
		due[at] = true
	}
	return due
}

func refOf(m fleet.ModifiedStatus) ref {
	return ref{
		kind: schema.FromAPIVersionAndKind(m.APIVersion, m.Kind), key: kube.Key{Namespace: m.Namespace, Name: m.Name},
	}
}

// correction returns the input of helm.Client.
func correction(spec fleet.BundleDeploymentSpec, how fleet.CorrectDrift, due, lost map[ref]bool) helm.Correction {
	out := InterruptedCorrection(spec, how)
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

// InterruptedCorrection returns the correction of all objects of a release, which
// completes one that was interrupted.
func InterruptedCorrection(spec fleet.BundleDeploymentSpec, how fleet.CorrectDrift) helm.Correction {
	out := helm.Correction{CorrectDrift: how, Patches: rulesOf(spec.Options).patches}
	if spec.Options.Helm != nil {
		out.History = spec.Options.Helm.MaxHistory
	}
	return out
}

// setContested records which client reverts corrections. A later run records when that
// has ended.
func (m *Monitor) setContested(d *deployment, out *Outcome) {
	fieldConflicts := make([]*drift.CorrectionHistory, 0, len(d.fieldConflicts))
	for _, f := range d.fieldConflicts {
		fieldConflicts = append(fieldConflicts, f)
		if f.IsContested() {
			out.requeueAfter(f.Rest(m.cfg.Now()))
		}
	}
	out.Contested = drift.ContestedMessage(fieldConflicts)
}

// lookAgainAt marks the corrected objects for the next check. It also moves the view to the
// release's new revision, which has the same manifest: else the next check would read all
// objects again.
func (m *Monitor) lookAgainAt(rel Release, d *deployment, due map[ref]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := d.view
	if v == nil {
		return
	}
	v.revision = rel.Observed.Good
	for at := range due {
		d.dirty[at] = true
		if o := v.objects[at]; o != nil {
			o.looked = time.Time{}
		}
	}
}

// CorrectionOf returns how drift is corrected; nil: it is not.
func CorrectionOf(spec fleet.BundleDeploymentSpec) *fleet.CorrectDrift {
	for _, c := range []*fleet.CorrectDrift{spec.CorrectDrift, spec.Options.CorrectDrift} {
		if c != nil && c.Enabled {
			return c
		}
	}
	return nil
}

// countNewDrift reports how many objects differ now that did not differ at the last
// check.
func (m *Monitor) countNewDrift(d *deployment, changed []fleet.ModifiedStatus) {
	now := map[string]bool{}
	changes := 0
	for _, c := range changed {
		name := c.APIVersion + " " + c.Kind + " " + c.Namespace + "/" + c.Name
		now[name] = true
		if !d.differed[name] {
			changes++
		}
	}
	d.differed = now
	if changes > 0 && m.cfg.OnDrift != nil {
		m.cfg.OnDrift(changes)
	}
}

// lostToOther returns objects of the release that another release has taken over and
// does not have any more. They are applied again, even if drift is not corrected. An
// object whose state is unknown is checked later.
func (m *Monitor) lostToOther(ctx context.Context, rel Release, d *deployment, out *Outcome) map[ref]bool {
	lost := map[ref]bool{}
	if d.view == nil {
		return lost
	}
	claims := map[release.ID]helm.Claims{}
	for at, o := range d.view.objects {
		if o.owner.Name == "" || o.owner == rel.Observed.ID || o.object.Modified == nil {
			continue
		}
		out.requeueAfter(ownerDelay)
		c, known := claims[o.owner]
		if !known {
			var err error
			if c, err = m.cfg.Helm.Claims(ctx, o.owner); err != nil {
				m.cfg.Log.WithFields(logrus.Fields{"deployment": rel.Name, "error": err.Error()}).Debug("owner of an object not known")
				continue
			}
			claims[o.owner] = c
		}
		if release.Reclaimed(c.There, c.Made, c.Objects[helm.Identity(at.kind, at.key.Namespace, at.key.Name)], o.marked) {
			lost[at] = true
		}
	}
	return lost
}

// changedAt returns the differences that concern some objects.
func changedAt(changed []fleet.ModifiedStatus, at map[ref]bool) []fleet.ModifiedStatus {
	return slices.DeleteFunc(slices.Clone(changed), func(m fleet.ModifiedStatus) bool { return !at[refOf(m)] })
}

// modified returns the differences of objects that differ.
func modified(objects []report.Object) []fleet.ModifiedStatus {
	var out []fleet.ModifiedStatus
	for _, o := range objects {
		if o.Modified != nil {
			out = append(out, *o.Modified)
		}
	}
	return out
}
