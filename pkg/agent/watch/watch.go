// Package watch reports when an object of a release changes. It keeps one watch of
// metadata per kind, open while a deployment has objects of that kind, and passes on
// the changes of objects that are ours.
package watch

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Change is a change of one live object.
type Change struct {
	Set  string // hash of the object set, by which a deployment is known
	Kind schema.GroupVersionKind
	Key  kube.Key
	// Meta is the object's metadata; nil if the object is gone or no longer bears the
	// set. It is shared: callers must not change it.
	Meta *metav1.PartialObjectMetadata
}

// opener is what Watches needs of the cluster.
type opener interface {
	WatchMeta(ctx context.Context, gvk schema.GroupVersionKind, selector string,
		f func(old, changed *metav1.PartialObjectMetadata)) (stop func(), err error)
}

// Watches are the open watches of an agent.
type Watches struct {
	ctx    context.Context //nolint:containedctx // of all watches; New says so
	live   opener
	report func(Change)
	mu     sync.Mutex
	users  map[string]map[schema.GroupVersionKind]bool // by deployment
	open   map[schema.GroupVersionKind]func()
	shut   map[schema.GroupVersionKind]bool // their CRD is gone
}

// New makes Watches that watch until ctx ends and call report for every change. report
// must return quickly; one goroutine per kind calls it.
func New(ctx context.Context, live opener, report func(Change)) *Watches {
	return &Watches{
		ctx: ctx, live: live, report: report,
		users: map[string]map[schema.GroupVersionKind]bool{},
		open:  map[schema.GroupVersionKind]func(){},
		shut:  map[schema.GroupVersionKind]bool{},
	}
}

// Set sets the kinds of which a deployment has objects; without kinds its watches end.
// If the cluster does not serve a kind, the next Set tries it again.
func (w *Watches) Set(deployment string, kinds []schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.users, deployment)
	if len(kinds) > 0 {
		w.users[deployment] = map[schema.GroupVersionKind]bool{}
	}
	for _, k := range kinds {
		w.users[deployment][k] = true
		if w.open[k] == nil && !w.shut[k] {
			if stop, err := w.live.WatchMeta(w.ctx, k, fleet.LabelObjectSetHash, w.handler(k)); err == nil {
				w.open[k] = stop
			}
		}
	}
	for k, stop := range w.open {
		if !w.isUsed(k) {
			stop()
			delete(w.open, k)
		}
	}
}

func (w *Watches) isUsed(k schema.GroupVersionKind) bool {
	for _, kinds := range w.users {
		if kinds[k] {
			return true
		}
	}
	return false
}

// handler returns the handler of changes of one kind. It reports an object that has
// lost its label as deleted, with the label that it had.
func (w *Watches) handler(k schema.GroupVersionKind) func(old, changed *metav1.PartialObjectMetadata) {
	return func(old, changed *metav1.PartialObjectMetadata) {
		if changed == nil {
			w.report(Change{Set: old.Labels[fleet.LabelObjectSetHash], Kind: k, Key: kube.KeyOf(old)})
			return
		}
		set := changed.Labels[fleet.LabelObjectSetHash]
		w.report(Change{Set: set, Kind: k, Key: kube.KeyOf(changed), Meta: changed})
		if old == nil {
			return
		}
		if was := old.Labels[fleet.LabelObjectSetHash]; was != set {
			w.report(Change{Set: was, Kind: k, Key: kube.KeyOf(changed)})
		}
	}
}

// CRDGone ends the watches of the kind that a deleted CRD served, so that they do not
// ask for it repeatedly. name is the CRD's, "<plural>.<group>".
func (w *Watches) CRDGone(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, stop := range w.open {
		if servedBy(k, name) {
			stop()
			delete(w.open, k)
			w.shut[k] = true
		}
	}
}

// CRDThere allows watches of the kind of a CRD again.
func (w *Watches) CRDThere(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.shut {
		if servedBy(k, name) {
			delete(w.shut, k)
		}
	}
}

// servedBy reports whether a CRD of this name serves a kind. It is right for kinds with
// a regular plural.
func servedBy(k schema.GroupVersionKind, name string) bool {
	plural, group, _ := strings.Cut(name, ".")
	guess, _ := meta.UnsafeGuessKindToResource(k)
	return group == k.Group && guess.Resource == plural
}
