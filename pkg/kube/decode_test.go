package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// serializers are the library's and ours.
func serializers(t testing.TB) (plain, ours runtime.NegotiatedSerializer, scheme *runtime.Scheme) {
	t.Helper()
	c, err := Connect(Config{REST: &rest.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	plain = serializer.NewCodecFactory(c.scheme).WithoutConversion()
	return plain, fastDecoder{plain, c.scheme}, c.scheme
}

func jsonInfo(t testing.TB, s runtime.NegotiatedSerializer) runtime.SerializerInfo {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no JSON")
	}
	return info
}

// seen is one step of reading: what came of it, in words.
func seen(obj any, err error) string {
	if err != nil {
		return "error"
	}
	raw, _ := json.Marshal(obj)
	return fmt.Sprintf("%T %s", obj, raw)
}

func readObject(s runtime.NegotiatedSerializer, info runtime.SerializerInfo, data string, into runtime.Object) string {
	obj, _, err := s.DecoderToVersion(info.Serializer, nil).Decode([]byte(data), nil, into)
	return seen(obj, err)
}

// readEvents reads a whole watch.
func readEvents(s runtime.NegotiatedSerializer, info runtime.SerializerInfo, from io.Reader) []string {
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(from))
	d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), s.DecoderToVersion(info.Serializer, nil))
	var out []string
	for range 100 {
		action, obj, err := d.Decode()
		if err != nil {
			return append(out, "end")
		}
		out = append(out, string(action)+" "+seen(obj, nil))
	}
	return out
}

const someDeployment = `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeployment","metadata":{"name":"a\u00e4\n","namespace":"n","labels":{"x":"y"},"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{".":{}}}}]},"spec":{"deploymentID":"1:2","options":{"helm":{"values":{"n":12345678901,"f":1.5}}}},"status":{"ready":true}}`

// texts are objects as API servers write them, and otherwise.
func texts() []string {
	return []string{
		someDeployment,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"a":"YQ=="},"type":"Opaque"}`,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`,
		`{"metadata":{"name":"late"},"kind":"Bundle","apiVersion":"fleet.cattle.io/v1alpha1"}`,
		` {"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Bundle"}`,
		`{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle"}`,
		`{"apiVersion":"fleet.cattle.io/v1alpha1","items":[` + someDeployment + `],"kind":"BundleDeploymentList","metadata":{}}`,
		`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Nothing"}`,
		`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":""}`,
		`{"apiVersion":"a/b/c","kind":"Bundle"}`,
		`{"apiVersion":"","kind":"Bundle"}`,
		`{"apiVersion":"v1","kind":"Sec\u0072et"}`,
		`{"apiVersion":"v1","kind":"Secret"`,
		`{"apiVersion":"v1","kind":"Secret","metadata":7}`,
		`{"apiVersion":"v1","kind":"Secret"}}`,
		`{"apiVersion":"v1","kind":"` + strings.Repeat("x", 300) + `"}`,
		`{"APIVERSION":"v1","kind":"Secret"}`,
		`{}`, ``, `null`, `[]`, `7`,
	}
}

// Ours reads what the library reads, and nothing else.
func TestDecodeAsTheLibrary(t *testing.T) {
	plain, ours, _ := serializers(t)
	a, b := jsonInfo(t, plain), jsonInfo(t, ours)
	for _, text := range texts() {
		for name, into := range map[string]func() runtime.Object{
			"nothing":    func() runtime.Object { return nil },
			"deployment": func() runtime.Object { return &fleet.BundleDeployment{} },
			"secret":     func() runtime.Object { return &corev1.Secret{} },
			"status":     func() runtime.Object { return &metav1.Status{} },
		} {
			want, got := readObject(plain, a, text, into()), readObject(ours, b, text, into())
			if want != got {
				t.Errorf("%s into %s:\nwant %s\ngot  %s", text, name, want, got)
			}
		}
	}
}

func TestWatchAsTheLibrary(t *testing.T) {
	plain, ours, _ := serializers(t)
	a, b := jsonInfo(t, plain), jsonInfo(t, ours)
	event := func(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }
	long := strings.Replace(someDeployment, `"x":"y"`, `"x":"`+strings.Repeat("long ", 100_000)+`"`, 1)
	all := texts()
	streams := map[string]string{
		"some":       event("ADDED", all[0]) + event("MODIFIED", all[1]) + event("ERROR", all[2]) + event("DELETED", all[0]),
		"long":       event("ADDED", long) + event("MODIFIED", all[0]) + event("MODIFIED", long),
		"bookmark":   event("BOOKMARK", `{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"12"}}`),
		"empty":      "",
		"lines":      "\n\n" + event("ADDED", all[0]) + "\n \n" + event("ADDED", all[1]) + "\n",
		"cut":        event("ADDED", all[0]) + `{"type":"ADDED","object":{"kind":`,
		"cut long":   event("ADDED", all[0]) + long[:300_000],
		"unknown":    event("STRANGE", all[0]),
		"other form": `{"object":` + all[0] + `,"type":"ADDED"}` + "\n" + event("ADDED", all[0]),
		"spaces":     `{"type": "ADDED", "object": ` + all[0] + " } \n" + event("ADDED", all[0]),
		"more":       strings.Replace(event("ADDED", all[0]), "}\n", `,"x":1}`+"\n", 1),
		"no object":  event("ADDED", "null") + event("ADDED", all[0]),
	}
	for name, stream := range streams {
		t.Run(name, func(t *testing.T) {
			want := readEvents(plain, a, strings.NewReader(stream))
			for how, from := range map[string]io.Reader{
				"at once": strings.NewReader(stream), "in bytes": iotest.OneByteReader(strings.NewReader(stream)),
				"in halves": iotest.HalfReader(strings.NewReader(stream)), "with the end": iotest.DataErrReader(strings.NewReader(stream)),
			} {
				if d := cmp.Diff(want, readEvents(ours, b, from)); d != "" {
					t.Errorf("%s: -library +ours\n%s", how, d)
				}
			}
		})
	}
}

// A line is handed out in as many pieces as the reader has room for.
func TestLines(t *testing.T) {
	text := strings.Repeat("x", 40_000)
	r := lineFramer{}.NewFrameReader(io.NopCloser(strings.NewReader(text + "\nnext\n")))
	var got []byte
	for small := make([]byte, 1000); ; {
		n, err := r.Read(small)
		got = append(got, small[:n]...)
		if err == nil {
			break
		}
		if n != len(small) || !errors.Is(err, io.ErrShortBuffer) {
			t.Fatalf("a short buffer is filled: %d, %v", n, err)
		}
	}
	if string(got) != text+"\n" {
		t.Errorf("got %d bytes", len(got))
	}
	if n, err := r.Read(got); err != nil || string(got[:n]) != "next\n" {
		t.Errorf("got %q, %v", got[:n], err)
	}
	if _, err := r.Read(got); !errors.Is(err, io.EOF) {
		t.Errorf("want the end, got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range texts() {
		f.Add([]byte(text))
	}
	plain, ours, _ := serializers(f)
	a, b := jsonInfo(f, plain), jsonInfo(f, ours)
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Count(data, []byte(`"apiVersion"`)) > 1 || bytes.Count(data, []byte(`"kind"`)) > 1 {
			return // an object has one kind
		}
		if want, got := readObject(plain, a, string(data), nil), readObject(ours, b, string(data), nil); want != got {
			t.Errorf("want %s\ngot  %s", want, got)
		}
	})
}

func BenchmarkWatch(b *testing.B) {
	plain, ours, _ := serializers(b)
	var stream bytes.Buffer
	for range 100 {
		fmt.Fprintf(&stream, `{"type":"MODIFIED","object":%s}`+"\n", someDeployment)
	}
	for name, s := range map[string]runtime.NegotiatedSerializer{"library": plain, "ours": ours} {
		info := jsonInfo(b, s)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(stream.Len()))
			for range b.N {
				frames := info.StreamSerializer.NewFrameReader(io.NopCloser(bytes.NewReader(stream.Bytes())))
				d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), s.DecoderToVersion(info.Serializer, nil))
				for range 100 {
					if _, _, err := d.Decode(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
