// Package kubetest is an API server in memory, for tests of what is built on
// package kube. It is an http.RoundTripper: stores, caches, leases and events run for
// real on it, and no request leaves the process.
//
// The server starts no goroutine and uses the clock of package time, so that a test may
// run it in a bubble of testing/synctest. Make it inside of the bubble, and let a
// second pass before the first assertion: kube.Run looks every 10 ms whether caches are
// filled, and synctest.Wait lets no time pass. Call synctest.Wait between a time.Sleep
// and an assertion: what is due at the same moment may come after the time.Sleep.
//
// What it does: discovery, get, list in pages, watch with bookmarks and initial events,
// create, update, patch, server-side apply, delete, the status subresource,
// resourceVersions, conflicts, UIDs, generations, finalizers, managed fields, metadata
// alone (PartialObjectMetadata), dry runs, tokens of service accounts, webhooks that
// validate, kinds that come and go with their CustomResourceDefinitions. It always serves the kinds of Fleet and of
// Rancher: see ServeByDefinition. What controllers of a cluster do it does on request: see
// CollectGarbage, FillAccountTokens, AggregateRoles, RunWorkloads and RunPods. Conform is the test that it has in common with real
// servers.
//
// Handler serves it to clients over a network, and Guard makes it authenticate and
// authorize them.
//
// What it does not do: validate (except names, labels and the size of data), default (except
// Secrets, Namespaces and by the schemas of CustomResourceDefinitions) and admit. Test
// what depends on these on a real API server. A request that it does not understand is
// answered with 501 and fails the test.
package kubetest

import (
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Server is an API server in memory. It is safe for concurrent use.
type Server struct {
	t    testing.TB
	done chan struct{} // closed by Close

	mu         sync.Mutex
	resources  map[schema.GroupVersionResource]*resource
	version    int64 // of the last change
	collected  int64 // the version at which no garbage was left
	aggregated int   // how many changes of ClusterRoles are in those that are aggregated
	made       counts
	pages      map[string]page
	requests   []Request
	faults     []*Fault
	closed     bool

	byDefinition bool                    // see ServeByDefinition
	clients      map[string]*http.Client // of webhooks, by their certificate authority

	guard guard
}

// growHeap lets the heap of a test grow to five times of what is in use, unless GOGC says
// otherwise: to collect garbage takes a quarter of the processor time of such tests.
var growHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
})

// counts are what the server has made up so far.
type counts struct {
	mark   string // eight hexadecimal digits that begin UIDs and tokens
	uids   int
	names  int // generated
	tokens int // of service accounts

	rollouts map[types.UID]rollout // the newest of each Deployment
}

// New makes a server with only the namespaces default and kube-system. It is closed
// when the test ends. Two servers give the same UIDs and tokens: see
// NewDistinct.
func New(t testing.TB) *Server { return newServer(t, "00000000") }

// NewDistinct is New with UIDs and tokens that no other server gives: the UID of kube-system
// is the identity of a cluster.
func NewDistinct(t testing.TB) *Server { return newServer(t, string(uuid.NewUUID()[:8])) }

func newServer(t testing.TB, mark string) *Server {
	growHeap()
	s := &Server{t: t, done: make(chan struct{}), made: counts{mark: mark, rollouts: map[types.UID]rollout{}}, resources: map[schema.GroupVersionResource]*resource{}, pages: map[string]page{}, clients: map[string]*http.Client{}, guard: guard{owners: map[string]tokenOwner{}}}
	for _, k := range builtIn() {
		s.Serve(k)
	}
	for _, k := range custom() {
		s.Serve(k)
	}
	s.version = 1
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		s.MakeNamespace(name)
	}
	t.Cleanup(s.Close)
	return s
}

// Serve adds a kind.
func (s *Server) Serve(k Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[k.resource()] = newResource(k)
	s.collected = 0 // it may be the kind of an owner that is gone
}

// REST returns a configuration whose requests this server answers, also those that go
// over a kube.Conn.
func (s *Server) REST() *rest.Config {
	return &rest.Config{Host: "http://kubetest", WrapTransport: func(http.RoundTripper) http.RoundTripper { return s }}
}

// Connect returns a connection to the server with a field manager.
func (s *Server) Connect(manager string) *kube.Client {
	c, err := kube.Connect(kube.Config{REST: s.REST(), UserAgent: manager + "/v0", FieldManager: manager})
	if err != nil {
		s.t.Fatal(err) // only a scheme that cannot be built
	}
	return c
}

// Close ends all watches; every later request fails. It fails the test if a fault with
// a number of times was not met: then the test does not test what it says.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, f := range s.faults {
		if f.left > 0 && !f.lifted {
			s.t.Errorf("kubetest: %d more %s", f.left, f)
		}
	}
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
	s.closed = true
	close(s.done)
}

// MakeNamespace creates a namespace if it does not exist.
func (s *Server) MakeNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ns := s.resources[schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}]
	if ns.objects[kube.Key{Name: name}] != nil {
		return
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	h := handler{s}
	if _, err := h.create(&call{Request: Request{Verb: "create", Resource: "namespaces"}, res: ns, body: body, manager: "kubetest"}); err != nil {
		s.t.Errorf("kubetest: make namespace %q: %v", name, err)
	}
}

// A Request is one that the server has answered, or cut.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, delete
	Kind        schema.GroupVersionResource
	Resource    string // plural
	Subresource string
	Namespace   string
	Name        string // also of what is created, unless the server chooses it
	UserAgent   string
	By          string // the user; empty where the server authorizes no request
	User        string // who is impersonated
	At          time.Time
	Query       string // of the URL, as it was sent
	Token       string // the bearer token that was shown
	Body        string // JSON, also where it was sent as protobuf
	Code        int    // of the answer; 0: the connection was cut
	Terminating bool   // refused because the namespace is being deleted
}

// writes reports whether a request is a write.
func (r Request) writes() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// String returns the request for messages of tests.
func (r Request) String() string {
	where := r.Resource
	if r.Subresource != "" {
		where += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s %s: %d", r.Verb, where, kube.Key{Namespace: r.Namespace, Name: r.Name}, r.Code)
}

// Requests returns all requests, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Writes returns the requests that are writes, whatever was answered.
func (s *Server) Writes() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.writes() })
}

// note records the answer to a request.
func (s *Server) note(r Request, code int) {
	r.Code = code
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}
