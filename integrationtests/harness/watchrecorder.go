package harness

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A WatchRecorder records what a program receives of objects through its lists and watches.
// Each of these is independent of the others, so a program may receive a later write before an
// earlier one. The zero WatchRecorder is ready for use.
type WatchRecorder struct {
	mu    sync.Mutex
	heard []*bytes.Buffer // from each list and watch
}

// Wrap is the link of a client of the program.
func (e *WatchRecorder) Wrap(next http.RoundTripper) http.RoundTripper { return listener{e, next} }

type listener struct {
	*WatchRecorder
	next http.RoundTripper
}

// RoundTrip sends a request, and listens to what comes of a list or a watch.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	q := r.URL.Query()
	if err == nil && r.Method == http.MethodGet && (q.Has("watch") || q.Has("limit") || q.Has("resourceVersion")) {
		resp.Body = overheard{resp.Body, l.WatchRecorder, l.open()}
	}
	return resp, err
}

func (e *WatchRecorder) open() *bytes.Buffer {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := &bytes.Buffer{}
	e.heard = append(e.heard, b)
	return b
}

type overheard struct {
	io.ReadCloser
	recorder *WatchRecorder
	heard    *bytes.Buffer
}

// Read reads, and keeps what was read.
func (o overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.recorder.mu.Lock()
	defer o.recorder.mu.Unlock()
	o.heard.Write(p[:n])
	return n, err
}

// Heard reports whether the program has received an object in the version that it has
// here.
func (e *WatchRecorder) Heard(o metav1.Object) bool {
	version := o.GetResourceVersion()
	asJSON := fmt.Appendf(nil, `"resourceVersion":%q`, version)
	asProtobuf := append([]byte{6<<3 | 2, byte(len(version))}, version...) // field 6 of ObjectMeta
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.heard, func(b *bytes.Buffer) bool {
		return bytes.Contains(b.Bytes(), asJSON) || bytes.Contains(b.Bytes(), asProtobuf)
	})
}
