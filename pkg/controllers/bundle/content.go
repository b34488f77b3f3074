package bundle

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// contentGrace is how long a content is kept after the last deployment that
// held it, or the last Bundle that named it: a commit may be taken back. It is
// also how long parts may lie about without their index, which comes last.
const contentGrace = 10 * time.Minute

// Reasons of Bundles that name their content.
const (
	reasonInvalidContent = "InvalidContent"
	reasonContentMissing = deployment.ReasonNoContent
)

// largestLimit is how much of the text about the largest files is repeated.
const largestLimit = 300

// A contentController deletes contents, and credentials of registries, that no object holds,
// and finds those that Bundles name.
type contentController struct {
	*base
	contents *kube.Store[*fleet.Content]
	secrets  *kube.Store[*corev1.Secret]
}

// reconcileContent deletes a content that no object has held for contentGrace. A
// content in several parts is treated as one: its index holds the parts, and they are
// deleted with it. A process that is about to use the content again updates it first,
// and then the deletion fails.
func (cc *contentController) reconcileContent(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := cc.cache.contents.Get(key)
	if !ok {
		cc.idle.setUnused(key.Name, "", time.Time{})
		return cc.reconcileCredentials(ctx, key.Name)
	}
	if cc.contentHeld(c) {
		cc.idle.setUnused(key.Name, "", time.Time{})
		return kube.Done, nil
	}
	since := cc.idle.setUnused(key.Name, c.ResourceVersion, cc.now())
	if left := cc.cfg.ContentGrace - cc.now().Sub(since); left > 0 {
		return kube.Result{After: left}, nil
	}
	if !cc.mayDeleteContent(c) {
		return kube.Done, nil // of another installation in the same cluster
	}
	parts := cc.partsOf(c)
	for _, o := range append([]*metav1.PartialObjectMetadata{c}, parts...) {
		err := cc.contents.Delete(ctx, kube.KeyOf(o), kube.Precondition{UID: o.UID, ResourceVersion: o.ResourceVersion})
		if kube.IsConflict(err) && o == c {
			return kube.Done, nil // still in use: the watch reports when that ends
		}
		if err != nil && !kube.IsConflict(err) {
			return kube.Done, err
		}
	}
	cc.log.WithField("content", key.Name).Info("content deleted, nothing holds it")
	return kube.Done, nil
}

// mayDeleteContent reports whether this installation may delete a Content. A Content
// without a manager ID was made by rancher/fleet; it may be deleted only if no other
// manager can be running.
func (cc *contentController) mayDeleteContent(c *metav1.PartialObjectMetadata) bool {
	owner := c.Labels[fleet.LabelManagerID]
	return owner == cc.cfg.ManagerID || owner == "" && !cc.cfg.Scope.Limited()
}

// indexID returns the id of a content: of the Content itself, or of the index that the
// Content is a part of.
func indexID(c *metav1.PartialObjectMetadata) string {
	if id := c.Labels[fleet.LabelContentOf]; id != "" {
		return id
	}
	return c.Name
}

// contentHeld reports whether a Content is in use. A part is in use if its index is.
func (cc *contentController) contentHeld(c *metav1.PartialObjectMetadata) bool {
	index := indexID(c)
	if index == c.Name {
		return cc.table.InUse(index)
	}
	_, ok := cc.cache.contents.Get(kube.Key{Name: index})
	return ok
}

// partsOf returns the existing Contents that are parts of an index.
func (cc *contentController) partsOf(index *metav1.PartialObjectMetadata) []*metav1.PartialObjectMetadata {
	n, err := content.Parts(index)
	if err != nil {
		return nil // parts without index are deleted one by one
	}
	var out []*metav1.PartialObjectMetadata
	for i := range n {
		part, ok := cc.cache.contents.Get(kube.Key{Name: content.PartName(index.Name, i)})
		if ok && part.Labels[fleet.LabelContentOf] == index.Name {
			out = append(out, part)
		}
	}
	return out
}

// idle records since when no object holds another object, and which version that one
// had then.
type idle struct {
	since   time.Time
	version string
}

// idleTimes remembers since when no object holds an object, by its name.
type idleTimes struct {
	mu     sync.Mutex
	unused map[string]idle
}

func newIdleTimes() *idleTimes { return &idleTimes{unused: map[string]idle{}} }

// setUnused records that an object is unused since at, unless an earlier time is
// recorded for the same version. The zero time records that the object is used. It
// returns the recorded time.
func (i *idleTimes) setUnused(id, version string, at time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at.IsZero() {
		delete(i.unused, id)
		return at
	}
	if known, ok := i.unused[id]; !ok || known.version != version {
		i.unused[id] = idle{at, version}
	}
	return i.unused[id].since
}

// findContent finds the Content that a Bundle names instead of holding resources. parts
// is the number of Contents that it is divided into; 0 if it is stored in a form that
// every agent can read. The error for a missing Content is a wait.
func (cc *contentController) findContent(b *fleet.Bundle) (parts int, err error) {
	id := fleetstate.NamedBy(b)
	switch {
	case deployment.PulledByManager(&b.Spec) && !chartsPulled(b):
		return 0, chartsPending(b)
	case id == "":
		return 0, nil
	case b.Spec.ContentsID != "" && !content.IsID(id):
		return 0, reconcile.TerminalError(reasonInvalidContent, fmt.Errorf("contentsId %q is not the id of a content", cut(id, idLimit)))
	case b.Spec.ContentsID != "":
		return 0, cc.checkCredential(b)
	case !content.IsID(id):
		return 0, reconcile.TerminalError(reasonInvalidContent, fmt.Errorf(
			"annotation %s: %q is not the id of a content", fleet.AnnotationContent, cut(id, idLimit)))
	}
	index, ok := cc.cache.contents.Get(kube.Key{Name: id})
	if !ok {
		return 0, contentMissing(fmt.Sprintf("Content %q", id))
	}
	if parts, err = content.Parts(index); err != nil {
		return 0, err
	}
	if there := len(cc.partsOf(index)); there < parts {
		return 0, contentMissing(fmt.Sprintf("%d of %d parts of Content %q", parts-there, parts, id))
	}
	return parts, nil
}

// contentMissing returns the wait for an object that does not exist yet.
func contentMissing(what string) error {
	return reconcile.RequeueError(reasonContentMissing, 0, fmt.Errorf(
		"waits for %s with its files; if it does not come, raise spec.forceSyncGeneration of the GitRepo, or apply the bundle with another --sync-generation", what))
}

// idLimit is how much of a text that should be an id is repeated.
const idLimit = 80

// cut returns at most the first limit bytes of a text, as valid UTF-8.
func cut(s string, limit int) string { return strings.ToValidUTF8(s[:min(limit, len(s))], "") }

// unreadableReason returns why an agent of a protocol cannot read the content of the
// Bundle; empty if it can.
func (s *snapshot) unreadableReason(protocol int) string {
	if s.parts == 0 || protocol >= fleet.ProtocolContentChunks {
		return ""
	}
	speaks := fmt.Sprintf("protocol %d", protocol)
	if protocol == 0 {
		speaks = "the reference's"
	}
	// The important part comes first: conditions show only the beginning.
	text := fmt.Sprintf("above 1 MiB, the limit of this agent (%s): upgrade the agent, make the bundle smaller, or use an OCI registry", speaks)
	if largest := oneLine(s.bundle.Annotations[fleet.AnnotationContentLargest]); largest != "" {
		text += "; largest files: " + largest
	}
	return text + fmt.Sprintf("; it is kept in %d parts, which agents of protocol %d can read", s.parts, fleet.ProtocolContentChunks)
}

// oneLine returns a text from an annotation, which any user may have written, as one
// line.
func oneLine(s string) string { return strings.Join(strings.Fields(cut(s, largestLimit)), " ") }
