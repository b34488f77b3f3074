package bundle

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

const (
	// scheduleDelay is how long changes of Clusters are collected before the status of a
	// Schedule is computed.
	scheduleDelay = time.Second
	// shownClusters is how many Clusters the status of a Schedule names.
	shownClusters = 1000
	// eventOverridden is the reason of the event about a deployment that is opened outside of
	// the change windows.
	eventOverridden = "WindowOverridden"
)

// A scheduleController writes the status of Schedules, and wakes up when a window opens or
// closes. Which windows a cluster has, and whether they are open, is in the table.
type scheduleController struct {
	*base
	schedules *kube.Store[*fleet.Schedule]
	targeting *targeting
}

// onSchedule updates the table after a change of a Schedule. Every manager does so,
// whatever the shard of the Schedule: its clusters may be in another one.
func (sc *scheduleController) onSchedule(old, changed *fleet.Schedule) {
	key := kube.KeyOf(orOld(old, changed))
	defer sc.scheduleQueue.Add(key) // once the table has it
	switch {
	case changed == nil || changed.DeletionTimestamp != nil:
		sc.apply(key.Namespace)(sc.table.SetSchedule(key, nil))
	case old == nil || old.UID != changed.UID || old.Generation != changed.Generation || !maps.Equal(old.Annotations, changed.Annotations):
		sc.apply(key.Namespace)(sc.table.SetSchedule(key, schedule.NewRule(changed, sc.cfg.Location)))
	}
}

// apply returns a function that enqueues what changes of windows in a namespace affect.
func (sc *scheduleController) apply(namespace string) func(fleetstate.Changes, []fleetstate.ClusterChange) {
	return func(delta fleetstate.Changes, changes []fleetstate.ClusterChange) {
		sc.enqueue(delta)
		for _, change := range changes {
			sc.targeting.enqueueAffected(namespace, change)
		}
	}
}

// enqueueSchedules enqueues the Schedules of a namespace after a change of its clusters.
func (bs *base) enqueueSchedules(namespace string) {
	if bs.cache.schedules == nil {
		return
	}
	for _, s := range bs.cache.schedules.List(namespace) {
		bs.scheduleQueue.AddAfter(kube.KeyOf(s), scheduleDelay)
	}
}

// reconcileSchedule updates the clusters of a Schedule whose windows have opened or closed,
// writes the status of the Schedule, and returns when they next do so.
func (sc *scheduleController) reconcileSchedule(ctx context.Context, key kube.Key) (kube.Result, error) {
	s, ok := sc.cache.schedules.Get(key)
	if !ok {
		return kube.Done, nil
	}
	owned := sc.cfg.Scope.Owns(s)
	if s.DeletionTimestamp != nil {
		if !owned {
			return kube.Done, nil
		}
		_, err := sc.schedules.RemoveFinalizer(ctx, s, fleet.FinalizerSchedule) // of rancher/fleet
		return kube.Done, kube.IgnoreGone(err)
	}
	sc.apply(key.Namespace)(sc.table.CheckWindows(key.Namespace))
	rule, clusters, ok := sc.table.Schedule(key)
	if !ok {
		return kube.Done, nil
	}
	now := sc.now()
	if owned {
		if err := sc.report(ctx, s, scheduleStatus(s, rule, clusters, now)); err != nil {
			return kube.Done, err
		}
	}
	return nextWindow(rule, now), nil
}

// nextWindow returns when a window of a Schedule next opens or closes.
func nextWindow(r *schedule.Rule, now time.Time) kube.Result {
	if r.Schedule() == nil {
		return kube.Done
	}
	next := r.Schedule().NextChange(now)
	if next.IsZero() {
		return kube.Done
	}
	return kube.Result{After: next.Sub(now)}
}

// report writes the status of a Schedule if it has changed.
func (sc *scheduleController) report(ctx context.Context, s *fleet.Schedule, status fleet.ScheduleStatus) error {
	if equality.Semantic.DeepEqual(s.Status, status) {
		return nil
	}
	changed := *s
	changed.Status = status
	_, err := sc.schedules.PatchStatus(ctx, s, &changed)
	if kube.IgnoreGone(err) != nil {
		return err
	}
	if c := newlyFalse(s.Status.Conditions, status.Conditions, fleet.ConditionReady); c != nil && err == nil {
		sc.events.Event(s, kube.Warning, c.Reason, c.Message)
	}
	return nil
}

// scheduleStatus returns the status of a Schedule. Ready is False while the Schedule cannot
// be used, and is not set otherwise, as in rancher/fleet.
func scheduleStatus(s *fleet.Schedule, r *schedule.Rule, clusters []string, now time.Time) fleet.ScheduleStatus {
	st := fleet.ScheduleStatus{Conditions: slices.Clone(s.Status.Conditions), MatchingClusters: clusters[:min(len(clusters), shownClusters)]}
	problem := ""
	if r.Problem != nil {
		problem = r.Problem.Error()
	}
	if windows := r.Schedule(); windows != nil {
		st.Active = windows.Open(now)
		if next := windows.NextOpen(now); !next.IsZero() {
			st.NextStartTime = metav1.NewTime(next)
		} else if !st.Active && problem == "" {
			problem = "the last window has closed: no date in the future matches the cron expression"
		}
	}
	st.Conditions = condition.Remove(st.Conditions, fleet.ConditionAccepted) // of a manager where Schedules were switched off
	if problem == "" {
		st.Conditions = condition.Remove(st.Conditions, fleet.ConditionReady)
		return st
	}
	st.Conditions = condition.Set(st.Conditions, fleet.Condition{
		Type: fleet.ConditionReady, Status: corev1.ConditionFalse, ObservedGeneration: s.Generation,
		Reason: fleet.ReasonInvalidSchedule, Message: condition.Message(problem),
	}, now)
	return st
}

// onOverride records an override of the change windows in an event, and plans the Bundle when
// the override begins or ends.
func (sc *scheduleController) onOverride(old, changed *fleet.BundleDeployment) {
	text := orOld(old, changed).Annotations[fleet.AnnotationOpenUntil]
	if changed == nil || text == "" {
		return
	}
	bundle, _, ok := sc.table.PairOf(kube.KeyOf(changed))
	if !ok {
		return
	}
	now := sc.now()
	o, err := schedule.ParseOverride(text)
	if next := o.NextChange(now); !next.IsZero() {
		sc.bundleQueue.AddAfter(bundle, next.Sub(now))
	}
	if old != nil && old.Annotations[fleet.AnnotationOpenUntil] == text || !sc.ownsBundle(bundle) {
		return
	}
	switch {
	case err != nil:
		sc.events.Event(changed, kube.Warning, eventOverridden, "annotation "+fleet.AnnotationOpenUntil+" has no effect: it "+err.Error())
	case o.Active(now):
		sc.events.Event(changed, kube.Warning, eventOverridden, o.String())
	}
}
