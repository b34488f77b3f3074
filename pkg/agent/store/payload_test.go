package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A payload of any size is kept in Secrets that an API server takes, survives a
// restart of the agent, and leaves nothing when it is no longer needed.
func TestPayloadOfAnySize(t *testing.T) {
	const mib = 1 << 20
	cases := map[string]struct {
		why             string
		content, values int
		tail            bool
	}{
		"Empty":           {why: "a bundle may have no values", content: 10},
		"Small":           {why: "values beside the record, as before", content: 1000, values: 1000},
		"FullPiece":       {why: "a full piece with values beside it, as before", content: chunkBytes, values: besideBytes},
		"LargeBoth":       {why: "a full piece and values together are above 1 MiB", content: chunkBytes, values: 400 << 10, tail: true},
		"LargeValues":     {why: "values near 1 MiB leave no room for the record", content: 1000, values: mib - 100, tail: true},
		"SeveralPieces":   {why: "pieces without values", content: 3 * chunkBytes},
		"LargeAndSeveral": {why: "values begin within a piece", content: 2*chunkBytes + 7, values: mib - 100, tail: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, client := secretServer(t)
			key := Key{"m", "web"}
			want := Payload{Content: bytes.Repeat([]byte("c"), c.content), Values: bytes.Repeat([]byte("v"), c.values)}
			if err := New(client, "fleet").Accept(t.Context(), Record{Key: key}, want); err != nil {
				t.Fatalf("%s: %v", c.why, err)
			}
			s := loaded(t, client)
			got, ok, err := s.Payload(t.Context(), key)
			if err != nil || !ok || !bytes.Equal(got.Content, want.Content) || !bytes.Equal(got.Values, want.Values) {
				t.Errorf("%s: read %d and %d bytes, %v, %v", c.why, len(got.Content), len(got.Values), ok, err)
			}
			r, _ := s.Get(key)
			if (r.Values != nil) != c.tail {
				t.Errorf("%s: values after the content: %v", c.why, r.Values)
			}
			if err := s.Save(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			r.Applied, r.Chunks = "s-1", 0
			if err := s.Save(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if names := server.names(); len(names) != 1 {
				t.Errorf("what is deployed leaves more than its record: %v", names)
			}
		})
	}
}

// Stores of agents before are read: their values stand beside the record.
func TestPayloadOfAnOlderAgent(t *testing.T) {
	server, client := secretServer(t)
	key := Key{"m", "web"}
	server.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: chunkName(key, 0)},
		Data: map[string][]byte{
			keyRecord: []byte(`{"key":{"manager":"m","name":"web"},"chunks":2}`), keyChunk: []byte("con"), keyValues: []byte("{}"),
		},
	})
	server.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: chunkName(key, 1), Labels: map[string]string{labelChunkOf: chunkName(key, 0)}},
		Data:       map[string][]byte{keyChunk: []byte("tent")},
	})
	got, ok, err := loaded(t, client).Payload(t.Context(), key)
	if err != nil || !ok || string(got.Content) != "content" || string(got.Values) != "{}" {
		t.Errorf("read %q and %q, %v, %v", got.Content, got.Values, ok, err)
	}
}

// Values that an agent which was cut off has written for the next version do not
// pass for those of the version before.
func TestPayloadWithOtherValues(t *testing.T) {
	server, client := secretServer(t)
	key := Key{"m", "web"}
	s := New(client, "fleet")
	if err := s.Accept(t.Context(), Record{Key: key}, Payload{Values: bytes.Repeat([]byte("1"), 1<<20)}); err != nil {
		t.Fatal(err)
	}
	next, _, _ := Payload{Values: bytes.Repeat([]byte("2"), 1<<20)}.split()
	server.put(s.chunk(key, 1, next[1]))
	if _, ok, err := s.Payload(t.Context(), key); ok || err != nil {
		t.Errorf("values of two versions were taken for one payload (%v)", err)
	}
}

// A smaller payload leaves no pieces of the larger one before it.
func TestSmallerPayload(t *testing.T) {
	server, client := secretServer(t)
	s := New(client, "fleet")
	for _, size := range []int{4 * chunkBytes, 2 * chunkBytes, 1} {
		if err := s.Accept(t.Context(), Record{Key: Key{"m", "web"}}, Payload{Content: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		if names, want := server.names(), max(1, size/chunkBytes); len(names) != want {
			t.Errorf("%d bytes: want %d Secrets, got %v", size, want, names)
		}
	}
}

func loaded(t *testing.T, client *kube.Client) *Store {
	t.Helper()
	s := New(client, "fleet")
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(t.Context()); n > 0 || err != nil {
		t.Fatalf("swept %d pieces that are in use, %v", n, err)
	}
	return s
}

// secrets stand for the Secrets of one namespace, with the API server's limit of
// their size.
type secrets struct {
	mu      sync.Mutex
	version int
	objects map[string]*corev1.Secret
}

func secretServer(t *testing.T) (*secrets, *kube.Client) {
	t.Helper()
	s := &secrets{objects: map[string]*corev1.Secret{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}, FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func (s *secrets) put(o *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o.ResourceVersion = strconv.Itoa(s.version)
	s.objects[o.Name] = o
}

func (s *secrets) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.objects {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// ServeHTTP serves what the store asks for.
func (s *secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := path.Base(r.URL.Path)
	s.mu.Lock()
	there := s.objects[name]
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && name == "secrets":
		s.list(w, r)
	case r.Method == http.MethodPost, r.Method == http.MethodPut:
		s.write(w, r)
	case there == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, name)
		s.mu.Unlock()
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	default:
		_ = json.NewEncoder(w).Encode(there)
	}
}

// list tells pieces from records by the only label that says so.
func (s *secrets) list(w http.ResponseWriter, r *http.Request) {
	selector := r.URL.Query().Get("labelSelector")
	list := corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}}
	for _, name := range s.names() {
		o := s.objects[name]
		_, piece := o.Labels[labelChunkOf]
		if piece == strings.Contains(selector, "!"+labelChunkOf) {
			continue
		}
		list.Items = append(list.Items, *o)
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (s *secrets) write(w http.ResponseWriter, r *http.Request) {
	o := &corev1.Secret{}
	if err := json.NewDecoder(r.Body).Decode(o); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	total := 0
	for _, data := range o.Data {
		total += len(data)
	}
	s.mu.Lock()
	_, there := s.objects[o.Name]
	s.mu.Unlock()
	switch {
	case total > corev1.MaxSecretSize:
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case there && r.Method == http.MethodPost:
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
	default:
		s.put(o)
		_ = json.NewEncoder(w).Encode(o)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"refused"}`, code, reason)
}
