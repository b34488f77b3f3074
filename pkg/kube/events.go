package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds of events.
const (
	Normal  = corev1.EventTypeNormal
	Warning = corev1.EventTypeWarning
)

// maxNote is the API's limit for the text of an event.
const maxNote = 1024

// A Recorder records what happened to an object, as events.k8s.io/v1 Events. Events are
// not state: one that the API server refuses is dropped. It is sent again, a few times,
// if the API server is not able to answer.
type Recorder struct {
	process string
	client  *Client
	queue   chan *eventsv1.Event
	now     func() time.Time
	delays  Backoff
}

// eventTries is how often an event is sent that gets no answer.
const eventTries = 5

// NewRecorder returns a recorder whose events name "fleet.cattle.io/<process>" as their
// source. It writes while it runs; at most 1,000 events wait.
func NewRecorder(c *Client, process string) *Recorder {
	return &Recorder{process: process, client: c.Loop("events"), queue: make(chan *eventsv1.Event, 1000), now: time.Now}
}

// Event emits an event about obj: kind is Normal or Warning, reason one PascalCase
// word. It never blocks. Callers emit an event once for a change: there is no series
// and no count.
func (r *Recorder) Event(obj Object, kind, reason, message string) {
	info, err := r.client.kindOf(obj)
	if err != nil {
		return
	}
	if len(message) > maxNote {
		message = message[:maxNote-3] + "..."
	}
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := r.now()
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("%s.%x", obj.GetName(), now.UnixNano()),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: "fleet.cattle.io/" + r.process,
		ReportingInstance:   r.process,
		Action:              reason,
		Reason:              reason,
		Type:                kind,
		Note:                message,
		Regarding: corev1.ObjectReference{
			APIVersion: info.gvk.GroupVersion().String(), Kind: info.gvk.Kind,
			Namespace: obj.GetNamespace(), Name: obj.GetName(),
			UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		},
	}
	select {
	case r.queue <- e:
	default:
	}
}

// Run writes events until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			r.write(ctx, e)
		}
	}
}

// write sends an event until the API server has answered, a limited number of times.
func (r *Recorder) write(ctx context.Context, e *eventsv1.Event) {
	delays := r.delays
	for try := 1; ; try++ {
		_, err := StoreOf[*eventsv1.Event](r.client).Create(ctx, e)
		if !IsAway(err) || IsForbidden(err) || IsUnauthorized(err) || try == eventTries || delays.Wait(ctx) != nil {
			return
		}
	}
}
