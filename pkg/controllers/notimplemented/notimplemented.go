// Package notimplemented answers for kinds that this version accepts but does not
// implement, or that are switched off: it sets condition Accepted of their objects, and
// sends one Warning event.
package notimplemented

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
)

// A Manager is the loops of this package.
type Manager struct {
	parts  []kube.Runner
	loops  []*kube.Controller
	events *kube.Recorder
	scope  scope.Scope
	now    func() time.Time
}

// New prepares the loops, which answer for objects within s; they send no
// request before they run. imageScans reports that ImageScans are acted on, schedules that
// Schedules are.
func New(s scope.Scope, c *kube.Client, imageScans, schedules bool) *Manager {
	h := &Manager{events: kube.NewRecorder(c, "fleet-controller"), scope: s, now: time.Now}
	h.parts = append(h.parts, h.events)
	client := c.Loop("notimplemented")
	if !imageScans {
		off := refusal{reason: fleet.ReasonSwitchedOff, message: support.ScanningOff}
		refuse(h, client, "imagescan", off, func(o *fleet.ImageScan) { h.setAccepted(&o.Status.Conditions, o, off) })
	}
	if !schedules {
		off := refusal{fleet.ReasonSwitchedOff, support.SchedulesOff, fleet.FinalizerSchedule}
		refuse(h, client, "schedule", off, func(o *fleet.Schedule) { h.setAccepted(&o.Status.Conditions, o, off) })
	}
	return h
}

// Runnables returns the caches and loops to run.
func (m *Manager) Runnables() []kube.Runner { return m.parts }

// Loops returns the loops, for metrics.
func (m *Manager) Loops() []*kube.Controller { return m.loops }

// copied is a pointer to an API type that can be copied.
type copied[T any] interface {
	*T
	kube.Object
	DeepCopy() *T
}

// A refusal is why nothing acts on a kind. finalizer is that of rancher/fleet, which would
// keep a deleted object for ever; empty: there is none.
type refusal struct{ reason, message, finalizer string }

// refuse writes to the status of a kind's objects why nothing acts on them, and sends
// an event to those whose status did not say it yet.
func refuse[T any, P copied[T]](h *Manager, c *kube.Client, name string, why refusal, status func(obj P)) {
	cache := kube.NewCache[P](c, kube.Watch{}, nil)
	store := kube.StoreOf[P](c)
	loop := kube.NewController(name, 1, func(ctx context.Context, key kube.Key) (kube.Result, error) {
		obj, ok := cache.Get(key)
		if !ok || !h.scope.Owns(obj) {
			return kube.Done, nil
		}
		if obj.GetDeletionTimestamp() != nil {
			_, err := store.RemoveFinalizer(ctx, obj, why.finalizer)
			return kube.Done, kube.IgnoreGone(err)
		}
		changed := P(obj.DeepCopy())
		status(changed)
		if equality.Semantic.DeepEqual(obj, changed) {
			return kube.Done, nil
		}
		if _, err := store.PatchStatus(ctx, obj, changed); err != nil {
			return kube.Done, kube.IgnoreGone(err)
		}
		h.events.Event(obj, kube.Warning, why.reason, why.message)
		return kube.Done, nil
	})
	cache.OnChange(func(_, changed P) {
		if changed != nil {
			loop.Add(kube.KeyOf(changed))
		}
	})
	h.parts, h.loops = append(h.parts, cache, loop), append(h.loops, loop)
}

// setAccepted sets Accepted=False in the conditions of an object.
func (m *Manager) setAccepted(conditions *[]fleet.Condition, obj kube.Object, why refusal) {
	*conditions = condition.Set(*conditions, fleet.Condition{
		Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, ObservedGeneration: obj.GetGeneration(),
		Reason: why.reason, Message: condition.Message(why.message),
	}, m.now())
}
