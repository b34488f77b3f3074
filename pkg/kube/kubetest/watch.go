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
func (h handler) watch(c *call) (answer, error) {
	selects, err := h.selection(c)
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
	if from > h.version {
		return answer{}, tooLarge(from, h.version)
	}
	w := &stream{
		s: h.Server, res: c.res, ctx: c.ctx, selects: selects, partial: c.partial, bookmarks: c.query.Get("allowWatchBookmarks") == "true",
		tick: time.NewTicker(bookmarkEvery), closed: make(chan struct{}), after: from, cuts: c.res.cuts,
	}
	if seconds > 0 {
		w.end = time.After(time.Duration(seconds) * time.Second)
	}
	initial := c.query.Get("sendInitialEvents") == "true"
	switch {
	case initial && (!w.bookmarks || c.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan)):
		return answer{}, h.refuse("sends initial events only to watches that ask for bookmarks and NotOlderThan, as client-go does")
	case initial, from == 0:
		err = w.begin(initial)
	case from < c.res.lost:
		err = w.end410(from)
	}
	return answer{code: http.StatusOK, body: w}, err
}

// begin sends events for all existing objects.
func (st *stream) begin(mark bool) error {
	for _, r := range st.res.sorted(st.selects) {
		if err := st.report(watch.Added, r); err != nil {
			return err
		}
	}
	st.after = st.s.version
	if !mark {
		return nil
	}
	return st.bookmark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
}

// end410 ends a watch from a compacted resourceVersion.
func (st *stream) end410(from int64) error {
	st.over = true
	status := expired(from, st.res.lost)
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return err
	}
	st.line(watch.Error, body)
	return nil
}

// bookmark sends the resourceVersion up to which all events were sent.
func (st *stream) bookmark(annotations map[string]any) error {
	md := map[string]any{"resourceVersion": strconv.FormatInt(st.after, 10), "creationTimestamp": nil}
	if annotations != nil {
		md["annotations"] = annotations
	}
	apiVersion, kind := st.res.ToAPIVersionAndKind()
	return st.report(watch.Bookmark, &record{Unstructured: &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": md},
	}})
}

func (st *stream) report(kind watch.EventType, r *record) error {
	body := r.json
	if st.partial || body == nil {
		if r.json == nil {
			r.json, _ = json.Marshal(r.Object) // a bookmark: texts alone
		}
		var err error
		if body, err = r.text(st.partial); err != nil {
			return err
		}
	}
	st.line(kind, body)
	return nil
}

// line writes an event as json.Marshal would. The object is its output already: to
// marshal it once more would read all of it.
func (st *stream) line(kind watch.EventType, object []byte) {
	fmt.Fprintf(&st.buf, "{\"type\":%q,\"object\":", kind)
	st.buf.Write(object)
	st.buf.WriteString("}\n")
}

// Read waits for the next event.
func (st *stream) Read(p []byte) (int, error) {
	for {
		n, changes, err := st.next(p)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-changes:
		case <-st.ctx.Done():
			return 0, st.ctx.Err()
		case <-st.closed:
			return 0, io.ErrClosedPipe
		case <-st.s.done:
			return 0, io.EOF
		case <-st.end:
			if err := st.mark(true); err != nil {
				return 0, err
			}
		case <-st.tick.C:
			if err := st.mark(false); err != nil {
				return 0, err
			}
		}
	}
}

// mark sends a bookmark if the watch asked for bookmarks; last: the watch ends after
// it.
func (st *stream) mark(last bool) error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	st.over = st.over || last
	if !st.bookmarks {
		return nil
	}
	return st.bookmark(nil)
}

// next returns bytes to read, or a channel to wait on.
func (st *stream) next(p []byte) (n int, changes <-chan struct{}, err error) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.buf.Len() == 0 && st.res.held == 0 && !st.over {
		if err := st.catchUp(); err != nil {
			return 0, nil, err
		}
	}
	switch {
	case st.buf.Len() > 0:
		n, err = st.buf.Read(p)
		return n, nil, err
	case st.over, st.cuts != st.res.cuts:
		return 0, nil, io.EOF
	}
	return 0, st.res.changes, nil
}

// catchUp writes the changes since the previous call.
func (st *stream) catchUp() error {
	log := st.res.log
	for _, step := range log[sort.Search(len(log), func(i int) bool { return log[i].version > st.after }):] {
		kind, r, err := step.event(st.selects)
		if err != nil {
			return err
		}
		st.after = step.version
		if kind == "" {
			continue
		}
		if err := st.report(kind, r); err != nil {
			return err
		}
	}
	st.after = st.s.version
	return nil
}

// Close ends the watch.
func (st *stream) Close() error {
	st.close.Do(func() {
		st.tick.Stop()
		close(st.closed)
	})
	return nil
}
