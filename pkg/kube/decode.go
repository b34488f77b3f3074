package kube

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Reading what the API server sends is most of a manager's work: at thousands of
// clusters, two events for each deployment that changes. The client library scans the
// text of an event six times: to find its end, to check it, to skip the object in it,
// to look for the object's kind (twice), to read it. Here it is scanned twice, because
// API servers write events and objects in one way: an event is a line
// {"type":"...","object":{...}}, and an object begins with its apiVersion and kind.
// Other forms are left to the library.

// fastDecoder is a serializer that reads JSON from API servers in fewer passes.
type fastDecoder struct {
	runtime.NegotiatedSerializer
	scheme *runtime.Scheme
}

// SupportedMediaTypes returns the media types of the wrapped serializer; JSON has our
// decoders.
func (f fastDecoder) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := append([]runtime.SerializerInfo(nil), f.NegotiatedSerializer.SupportedMediaTypes()...)
	for i := range infos {
		info := &infos[i]
		if info.MediaType != runtime.ContentTypeJSON {
			continue
		}
		info.Serializer = fastObject{info.Serializer, f.scheme}
		if stream := info.StreamSerializer; stream != nil {
			of := *stream
			of.Serializer, of.Framer = fastEvent{of.Serializer}, lineFramer{of.Framer}
			info.StreamSerializer = &of
		}
	}
	return infos
}

// fastObject reads objects whose text begins with apiVersion and kind.
type fastObject struct {
	runtime.Serializer
	scheme *runtime.Scheme
}

// Decode decodes an object as the wrapped serializer does. into may be nil.
func (f fastObject) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	gvk, ok := kindIn(data)
	if !ok {
		return f.Serializer.Decode(data, defaults, into)
	}
	if into == nil {
		made, err := f.scheme.New(gvk)
		if err != nil {
			return f.Serializer.Decode(data, defaults, into)
		}
		into = made
	} else if known, _, err := f.scheme.ObjectKinds(into); err != nil || len(known) != 1 || known[0] != gvk {
		return f.Serializer.Decode(data, defaults, into)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return nil, &gvk, err
	}
	return into, &gvk, nil
}

// kindIn returns the kind of an object whose JSON begins with it: apiVersion first for
// custom resources, kind first for built-in ones.
func kindIn(data []byte) (schema.GroupVersionKind, bool) {
	var kind string
	version, rest, ok := readMember(data, `{"apiVersion":"`)
	if ok {
		kind, _, ok = readMember(rest, `,"kind":"`)
	} else if kind, rest, ok = readMember(data, `{"kind":"`); ok {
		version, _, ok = readMember(rest, `,"apiVersion":"`)
	}
	if !ok {
		return schema.GroupVersionKind{}, false
	}
	gv, err := schema.ParseGroupVersion(version)
	return gv.WithKind(kind), err == nil && kind != "" && version != ""
}

// longestName bounds what is looked at for an apiVersion or a kind.
const longestName = 256

// readMember reads a JSON string without escapes after a prefix.
func readMember(data []byte, prefix string) (text string, rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(data, []byte(prefix))
	if !ok {
		return "", data, false
	}
	end := bytes.IndexByte(rest[:min(len(rest), longestName)], '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return "", data, false
	}
	return string(rest[:end]), rest[end+1:], true
}

// fastEvent reads the envelope of watch events.
type fastEvent struct{ runtime.Serializer }

// Decode decodes a watch event as the wrapped serializer does, except that the event
// shares its bytes with data. The caller uses them before the next event arrives.
func (f fastEvent) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return f.Serializer.Decode(data, defaults, into)
	}
	kind, rest, ok := readMember(data, `{"type":"`)
	if !ok {
		return f.Serializer.Decode(data, defaults, into)
	}
	object, ok := bytes.CutPrefix(rest, []byte(`,"object":{`))
	if !ok {
		return f.Serializer.Decode(data, defaults, into)
	}
	object = bytes.TrimRight(rest[len(rest)-len(object)-1:], " \t\r\n")
	if !bytes.HasSuffix(object, []byte("}}")) {
		return f.Serializer.Decode(data, defaults, into)
	}
	event.Type, event.Object = kind, runtime.RawExtension{Raw: object[:len(object)-1]}
	gvk := metav1.SchemeGroupVersion.WithKind(metav1.WatchEventKind)
	return event, &gvk, nil
}

// lineFramer takes one line of a watch for one event.
type lineFramer struct{ runtime.Framer }

// NewFrameReader returns a reader of one frame at a time. If the buffer is too short,
// Read returns io.ErrShortBuffer, and the next calls return the rest.
func (lineFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lines{Closer: r, from: bufio.NewReaderSize(r, 16<<10)}
}

type lines struct {
	io.Closer
	from *bufio.Reader
	rest []byte // of what was read of the line
	open bool   // the line continues after the buffered part
}

// Read fills p with the next part of a line.
func (l *lines) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, io.ErrShortBuffer
	}
	for {
		if len(l.rest) == 0 {
			if err := l.next(n > 0); err != nil {
				return n, err
			}
		}
		took := copy(p[n:], l.rest)
		n, l.rest = n+took, l.rest[took:]
		switch {
		case len(l.rest) == 0 && !l.open:
			return n, nil
		case n == len(p):
			return n, io.ErrShortBuffer
		}
	}
}

// next reads the rest of a line that was begun, else the next line that is not empty.
func (l *lines) next(begun bool) error {
	for {
		inside := l.open || begun
		part, err := l.from.ReadSlice('\n')
		l.open = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err == nil && !inside && len(bytes.TrimSpace(part)) == 0:
			continue
		case err == nil, l.open:
			l.rest = part
			return nil
		case errors.Is(err, io.EOF) && (inside || len(part) > 0):
			return io.ErrUnexpectedEOF
		}
		return err
	}
}
