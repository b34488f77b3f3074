package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkEvery is how often a watch that wants bookmarks gets one.
const bookmarkEvery = time.Minute

// stream is the body of an answer to a watch. It has no goroutine: who reads from it
// waits for the next change.
type stream struct {
	s         *Server
	res       *resource
	ctx       context.Context // of the request
	selects   func(*record) bool
	partial   bool
	bookmarks bool
	end       <-chan time.Time // of the watch; nil: it has none
	tick      *time.Ticker     // of bookmarks
	closed    chan struct{}
	close     sync.Once

	// Guarded by s.mu.
	after int64 // the version that was sent last
	cuts  int   // of the resource when the watch began
	over  bool
	buf   bytes.Buffer
}

// watch answers with a stream of changes. The caller holds s.mu.
func (s handler) watch(c *call) (answer, error) {
	selects, err := s.selection(c)
	if err != nil {
		return answer{}, err
	}
	from, err := number(c, "resourceVersion")
	if err != nil {
		return answer{}, err
	}
	seconds, err := number(c, "timeoutSeconds")
	if err != nil {
		return answer{}, err
	}
	if from > s.version {
		return answer{}, tooLarge(from, s.version)
	}
	w := &stream{
		s: s.Server, res: c.res, ctx: c.ctx, selects: selects, partial: c.partial, bookmarks: c.query.Get("allowWatchBookmarks") == "true",
		tick: time.NewTicker(bookmarkEvery), closed: make(chan struct{}), after: from, cuts: c.res.cuts,
	}
	if seconds > 0 {
		w.end = time.After(time.Duration(seconds) * time.Second)
	}
	initial := c.query.Get("sendInitialEvents") == "true"
	switch {
	case initial && (!w.bookmarks || c.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan)):
		return answer{}, s.refuse("sends initial events only to watches that ask for bookmarks and NotOlderThan, as client-go does")
	case initial, from == 0:
		err = w.begin(initial)
	case from < c.res.lost:
		err = w.end410(from)
	}
	return answer{code: http.StatusOK, body: w}, err
}

// begin sends events for all existing objects.
func (w *stream) begin(mark bool) error {
	for _, r := range w.res.sorted(w.selects) {
		if err := w.report(watch.Added, r); err != nil {
			return err
		}
	}
	w.after = w.s.version
	if !mark {
		return nil
	}
	return w.bookmark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
}

// end410 ends a watch from a compacted resourceVersion.
func (w *stream) end410(from int64) error {
	w.over = true
	status := expired(from, w.res.lost)
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return err
	}
	w.line(watch.Error, body)
	return nil
}

// bookmark sends the resourceVersion up to which all events were sent.
func (w *stream) bookmark(annotations map[string]any) error {
	md := map[string]any{"resourceVersion": strconv.FormatInt(w.after, 10), "creationTimestamp": nil}
	if annotations != nil {
		md["annotations"] = annotations
	}
	apiVersion, kind := w.res.ToAPIVersionAndKind()
	return w.report(watch.Bookmark, &record{Unstructured: &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": md},
	}})
}

func (w *stream) report(kind watch.EventType, r *record) error {
	body := r.json
	if w.partial || body == nil {
		if r.json == nil {
			r.json, _ = json.Marshal(r.Object) // a bookmark: texts alone
		}
		var err error
		if body, err = r.text(w.partial); err != nil {
			return err
		}
	}
	w.line(kind, body)
	return nil
}

// line writes an event as json.Marshal would. The object is its output already: to
// marshal it once more would read all of it.
func (w *stream) line(kind watch.EventType, object []byte) {
	fmt.Fprintf(&w.buf, "{\"type\":%q,\"object\":", kind)
	w.buf.Write(object)
	w.buf.WriteString("}\n")
}

// Read waits for the next event.
func (w *stream) Read(p []byte) (int, error) {
	for {
		n, changes, err := w.next(p)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-changes:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		case <-w.closed:
			return 0, io.ErrClosedPipe
		case <-w.s.done:
			return 0, io.EOF
		case <-w.end:
			if err := w.mark(true); err != nil {
				return 0, err
			}
		case <-w.tick.C:
			if err := w.mark(false); err != nil {
				return 0, err
			}
		}
	}
}

// mark sends a bookmark if the watch asked for bookmarks; last: the watch ends after
// it.
func (w *stream) mark(last bool) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.over = w.over || last
	if !w.bookmarks {
		return nil
	}
	return w.bookmark(nil)
}

// next returns bytes to read, or a channel to wait on.
func (w *stream) next(p []byte) (n int, changes <-chan struct{}, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.buf.Len() == 0 && w.res.held == 0 && !w.over {
		if err := w.catchUp(); err != nil {
			return 0, nil, err
		}
	}
	switch {
	case w.buf.Len() > 0:
		n, err = w.buf.Read(p)
		return n, nil, err
	case w.over, w.cuts != w.res.cuts:
		return 0, nil, io.EOF
	}
	return 0, w.res.changes, nil
}

// catchUp writes the changes since the previous call.
func (w *stream) catchUp() error {
	log := w.res.log
	for _, step := range log[sort.Search(len(log), func(i int) bool { return log[i].version > w.after }):] {
		kind, r, err := step.event(w.selects)
		if err != nil {
			return err
		}
		w.after = step.version
		if kind == "" {
			continue
		}
		if err := w.report(kind, r); err != nil {
			return err
		}
	}
	w.after = w.s.version
	return nil
}

// Close ends the watch.
func (w *stream) Close() error {
	w.close.Do(func() {
		w.tick.Stop()
		close(w.closed)
	})
	return nil
}
