package helmop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/helmop"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const (
	// freshEnough is how old an answer of a source may be for a HelmOp that is not polled,
	// or whose spec has changed: HelmOps that are applied together share one.
	freshEnough = 10 * time.Second
	// lookAgain is when a HelmOp that waits for its Bundle's deletion is looked at again
	// even if no watch reports it.
	lookAgain = 30 * time.Second
	// retryInterval is when a source is asked again that has no version for a HelmOp, if
	// the HelmOp is not polled.
	retryInterval = time.Minute
)

// Events of HelmOps, in the words of Rancher Fleet.
const (
	eventGotVersion       = "GotNewChartVersion"
	eventFailedGetVersion = "FailedToGetNewChartVersion"
	eventFailedPatch      = "FailedToPatchBundle"
)

// Reconcile brings the Bundle of one HelmOp in line with it.
//
//  1. gather: the HelmOp, its Secret, the version that its constraint stands for
//  2. decide: helmop.SpecError, Known, BundleOf (pure)
//  3. act:    write the Bundle, or delete it
//  4. report: one patch of the status, if its meaning changed
//
// It may run at any time and any number of times.
func (h *Controller) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	op, ok := h.cache.ops.Get(key)
	if !ok || !h.cfg.Scope.Owns(op) { // gone, or of another manager
		h.forget(key)
		return kube.Done, nil
	}
	if op.DeletionTimestamp != nil {
		h.forget(key)
		return h.remove(ctx, op)
	}
	op, err := h.ops.AddFinalizer(ctx, op, fleet.FinalizerHelmOp) // so that it is not deleted before its Bundle
	if err != nil {
		return kube.Done, kube.IgnoreGone(err)
	}
	if op, err = h.removeDisplayName(ctx, op); err != nil {
		return kube.Done, kube.IgnoreGone(err)
	}
	op = h.withDefaults(op)
	f := helmop.Facts{Op: op, Refused: h.refused(op), Suspended: h.suspended()}
	next := kube.Done
	if f.Refused == nil && f.Suspended == "" {
		if next, err = h.apply(ctx, &f); err != nil {
			return kube.Done, err
		}
	}
	return next, h.report(ctx, f)
}

// removeDisplayName removes the label with the name of a person from a HelmOp.
func (h *Controller) removeDisplayName(ctx context.Context, op *fleet.HelmOp) (*fleet.HelmOp, error) {
	if _, named := op.Labels[fleet.LabelCreatedByDisplayName]; !named {
		return op, nil
	}
	return h.ops.Mutate(ctx, op, func(o *fleet.HelmOp) error {
		delete(o.Labels, fleet.LabelCreatedByDisplayName)
		return nil
	})
}

// withDefaults returns a HelmOp with the defaults of the Policies of its namespace, which go
// to its Bundle; the HelmOp itself is not changed.
func (h *Controller) withDefaults(op *fleet.HelmOp) *fleet.HelmOp {
	out := *op
	h.cache.policies.Of(op.Namespace).SetHelmOpDefaults(&out.Spec)
	return &out
}

// refused returns why nothing is done for a HelmOp until a user changes something; nil if
// nothing speaks against it.
func (h *Controller) refused(op *fleet.HelmOp) error {
	return cmp.Or(h.cache.policies.Of(op.Namespace).HelmOpError(&op.Spec), helmop.SpecError(&op.Spec))
}

// suspended returns why the whole fleet is suspended ("fleet suspend --all"); empty if it
// is not.
func (h *Controller) suspended() string {
	m, ok := h.cache.config.Get(kube.Key{Namespace: h.cfg.Namespace, Name: fleet.ConfigMapBrake})
	if !ok {
		return ""
	}
	return view.HoldReason(m.Data)
}

// apply finds the version and writes the Bundle. What is wrong with the source or the
// Bundle goes into f; an error is one of the API server.
func (h *Controller) apply(ctx context.Context, f *helmop.Facts) (kube.Result, error) {
	live, err := h.bundleOf(ctx, f.Op)
	if err != nil {
		return kube.Done, err
	}
	if live != nil && !helmop.IsOf(live) {
		f.Refused = helmop.TakenError(f.Op.Name)
		return kube.Done, nil
	}
	authorities, err := h.rancher.PEM(ctx)
	if reconcile.IsTerminal(err) {
		f.Refused = err
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	next, err := h.findVersion(ctx, f, live, authorities)
	if err != nil || f.Err != nil || f.Refused != nil {
		return next, err
	}
	return next, h.writeBundle(ctx, f, live, authorities)
}

// bundleOf returns the Bundle with the name of a HelmOp; nil if there is none. The cache
// holds only Bundles with the label of HelmOps.
func (h *Controller) bundleOf(ctx context.Context, op *fleet.HelmOp) (*fleet.Bundle, error) {
	if b, ok := h.cache.bundles.Get(kube.KeyOf(op)); ok {
		return b, nil
	}
	b, err := h.bundles.Get(ctx, kube.KeyOf(op))
	if kube.IsGone(err) {
		return nil, nil
	}
	if err == nil {
		stripBundle(b)
	}
	return b, err
}

// findVersion finds out which version the HelmOp stands for, and when to ask again.
func (h *Controller) findVersion(ctx context.Context, f *helmop.Facts, live *fleet.Bundle, authorities []byte) (kube.Result, error) {
	op := f.Op
	request := helmop.Request(&op.Spec)
	if !helmop.IsConstraint(op.Spec.Helm) {
		_, err := h.access(ctx, op, request, authorities) // a Secret that is missing is said at once
		if reconcile.IsTerminal(err) {
			f.Refused, err = err, nil
		}
		f.Version = request.Version
		return kube.Done, err
	}
	interval := helmop.Interval(&op.Spec)
	last, asked := h.answerOf(op)
	version, known := helmop.Known(op, live)
	switch {
	case asked && (last.due.IsZero() || last.due.After(h.now())):
		f.Version = last.version
		return h.until(last.due), nil
	case !asked && interval == 0 && known: // before this process began
		f.Version = version
		return kube.Done, nil
	}
	access, err := h.access(ctx, op, request, authorities)
	if reconcile.IsTerminal(err) {
		f.Refused = err
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	return h.ask(ctx, f, request, access, interval)
}

// ask asks the source of a HelmOp.
func (h *Controller) ask(ctx context.Context, f *helmop.Facts, request chart.Request, access chart.Access, interval time.Duration) (kube.Result, error) {
	maxAge := interval
	if _, asked := h.answerOf(f.Op); !asked || interval == 0 {
		maxAge = freshEnough
	}
	version, next, err := h.cfg.Versions.Resolve(ctx, request, access, maxAge, func() { h.loop.Add(kube.KeyOf(f.Op)) })
	switch {
	case ctx.Err() != nil:
		return kube.Done, ctx.Err()
	case reconcile.ReasonOf(err) == bundlesource.ReasonBusy:
		return kube.Done, err // the HelmOp is enqueued when the source was asked
	case err != nil:
		f.Asked, f.Err = true, err
		delay := max(next, helmop.MinInterval)
		if reconcile.IsTerminal(err) { // the source has answered
			delay = max(delay, cmp.Or(interval, retryInterval))
		}
		return kube.Result{After: delay}, nil
	}
	f.Asked, f.Version = true, version
	due := time.Time{}
	if interval > 0 {
		if maxAge < interval { // the answer may be used for the rest of the interval
			next += interval - maxAge
		}
		due = h.now().Add(max(next, helmop.MinInterval))
	}
	h.setAnswer(f.Op, version, due)
	return h.until(due), nil
}

// until is the result of a run that is due again at a time; zero is never.
func (h *Controller) until(due time.Time) kube.Result {
	if due.IsZero() {
		return kube.Done
	}
	return kube.Result{After: max(due.Sub(h.now()), time.Millisecond)}
}

// access returns the credentials of a HelmOp, for its own source only, with authorities
// where its Secret has none. Terminal: the Secret is missing, or cannot be used.
func (h *Controller) access(ctx context.Context, op *fleet.HelmOp, request chart.Request, authorities []byte) (chart.Access, error) {
	var data map[string][]byte
	if name := op.Spec.HelmSecretName; name != "" {
		secret, err := h.secrets.Get(ctx, kube.Key{Namespace: op.Namespace, Name: name})
		if kube.IsGone(err) {
			return chart.Access{}, reconcile.TerminalError(chart.ReasonInvalidCredentials, fmt.Errorf("helmSecretName: there is no Secret %q in namespace %s", name, op.Namespace))
		}
		if err != nil {
			return chart.Access{}, err
		}
		data = secret.Data
	}
	c, err := chart.HelmOpCredentials(data, fleet.BundleHelmOptions{InsecureSkipTLSverify: op.Spec.InsecureSkipTLSverify, CABundle: authorities})
	if err != nil {
		return chart.Access{}, fmt.Errorf("Secret %q: %w", op.Spec.HelmSecretName, err) //nolint:staticcheck // a kind
	}
	return chart.HelmOpAccess(c, []chart.Request{request}), nil
}

// writeBundle creates the Bundle, or puts right in live what differs from it. It replaces
// users' labels, and keeps those of Fleet and Rancher.
func (h *Controller) writeBundle(ctx context.Context, f *helmop.Facts, live *fleet.Bundle, authorities []byte) error {
	want := helmop.BundleOf(f.Op, f.Version, authorities)
	log := h.logFor(f.Op).WithField("version", f.Version)
	if live == nil {
		_, err := h.bundles.Create(ctx, want)
		if err == nil {
			log.Info("bundle created")
		}
		return h.reportDenied(f.Op, err)
	}
	if live.DeletionTimestamp != nil {
		return nil // the watch event of its deletion enqueues the HelmOp
	}
	changed := live.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	for key := range naming.UserKeys(changed.Labels) {
		delete(changed.Labels, key)
	}
	maps.Copy(changed.Labels, want.Labels)
	changed.Spec = want.Spec
	if equality.Semantic.DeepEqual(live, changed) {
		return nil
	}
	if _, err := h.bundles.Patch(ctx, live, changed); err != nil {
		return h.reportDenied(f.Op, kube.IgnoreGone(err))
	}
	log.Info("bundle changed")
	return nil
}

// reportDenied emits an event if the API server denies the write of a Bundle, as an admission
// webhook does, and returns the error.
func (h *Controller) reportDenied(op *fleet.HelmOp, err error) error {
	if kube.IsDenied(err) {
		h.events.Event(op, kube.Warning, eventFailedPatch, err.Error())
	}
	return err
}

// report writes the status if it has changed, and emits events.
func (h *Controller) report(ctx context.Context, f helmop.Facts) error {
	var old, now fleet.HelmOpStatus
	got, err := h.ops.MutateStatus(ctx, f.Op, func(op *fleet.HelmOp) error {
		old, f.Op = op.Status, op
		now = helmop.Status(f, h.now())
		op.Status = now
		return nil
	})
	if err != nil {
		return kube.IgnoreGone(err)
	}
	if f.Asked && f.Err == nil && old.Version != now.Version {
		h.events.Event(got, kube.Normal, eventGotVersion, fmt.Sprintf("version %s of the chart", now.Version))
	}
	for _, kind := range []string{fleet.ConditionAccepted, fleet.ConditionPolled, fleet.ConditionStalled} {
		bad := corev1.ConditionFalse
		if kind == fleet.ConditionStalled {
			bad = corev1.ConditionTrue
		}
		after := condition.Turned(old.Conditions, now.Conditions, kind, bad)
		if after == nil {
			continue
		}
		reason := after.Reason
		if kind == fleet.ConditionPolled {
			reason = eventFailedGetVersion
		}
		h.events.Event(got, kube.Warning, reason, after.Message)
		h.logFor(f.Op).WithFields(logrus.Fields{"reason": reason, "error": after.Message}).Warn("helmop not deployed as it asks")
		break // the same text is in the others
	}
	return nil
}

// remove deletes the Bundle of a HelmOp that is being deleted, and removes the finalizer
// when it is gone.
func (h *Controller) remove(ctx context.Context, op *fleet.HelmOp) (kube.Result, error) {
	if !slices.Contains(op.Finalizers, fleet.FinalizerHelmOp) {
		return kube.Done, nil
	}
	own, err := h.bundles.List(ctx, op.Namespace, fleet.LabelHelmOpName+"="+op.Name)
	if err != nil && !kube.IsGone(err) {
		return kube.Done, err
	}
	for _, b := range own {
		if b.DeletionTimestamp != nil {
			continue
		}
		if err := h.bundles.Delete(ctx, kube.KeyOf(b), kube.Exactly(b)); err != nil {
			return kube.Done, err
		}
		h.logFor(op).WithField("reason", "the HelmOp is deleted").Info("bundle removed")
	}
	if len(own) > 0 {
		return kube.Result{After: lookAgain}, nil
	}
	_, err = h.ops.RemoveFinalizer(ctx, op, fleet.FinalizerHelmOp)
	return kube.Done, kube.IgnoreGone(err)
}

func (h *Controller) logFor(op *fleet.HelmOp) *logrus.Entry {
	return h.log.WithFields(naming.LogFields("helmop", op))
}

// metaChanged reports whether a change of an object is more than one of its status.
func metaChanged(old, changed metav1.Object) bool {
	return old.GetGeneration() != changed.GetGeneration() || old.GetDeletionTimestamp().IsZero() != changed.GetDeletionTimestamp().IsZero() ||
		!maps.Equal(old.GetLabels(), changed.GetLabels()) || !slices.Equal(old.GetFinalizers(), changed.GetFinalizers())
}

// orOld returns changed, or old if changed is nil: the object that a deletion reports.
func orOld[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}
