package kubetest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Always is for a fault that happens until it is lifted.
const Always = -1

// A Match selects requests. Empty fields select all.
type Match struct {
	Verb, Resource, Subresource, Namespace, Name string
	// Agent is how the User-Agent begins.
	Agent string
	// Token is the bearer token that a request shows.
	Token string
}

func (m Match) selects(r Request) bool {
	for _, f := range [][2]string{
		{m.Verb, r.Verb}, {m.Resource, r.Resource}, {m.Subresource, r.Subresource}, {m.Namespace, r.Namespace}, {m.Name, r.Name},
		{m.Token, r.Token},
	} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return strings.HasPrefix(r.UserAgent, m.Agent)
}

// A Fault is what happens to some requests instead of an answer.
type Fault struct {
	s      *Server
	match  Match
	words  string
	status *apierrors.StatusError // nil: the request is carried out and the connection is cut
	header http.Header
	left   int
	lifted bool
	met    int
}

// String returns what the fault still waits for: the requests that it matches.
func (f *Fault) String() string { return fmt.Sprintf("requests %+v were to meet %s", f.match, f.words) }

// Lift ends a fault.
func (f *Fault) Lift() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.lifted = true
}

// Met returns how many requests the fault has answered.
func (f *Fault) Met() int {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.met
}

// meet returns the oldest fault that matches a request; nil if there is none.
func (s *Server) meet(r Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.lifted || f.left == 0 || !f.match.selects(r) {
			continue
		}
		if f.left > 0 {
			f.left--
		}
		f.met++
		return f
	}
	return nil
}

func (s *Server) fail(times int, m Match, words string, status *apierrors.StatusError) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &Fault{s: s, match: m, words: words, status: status, left: times}
	s.faults = append(s.faults, f)
	return f
}

// Conflict answers with 409: the object was changed in between.
func (s *Server) Conflict(times int, m Match) *Fault {
	return s.fail(times, m, "a conflict", apierrors.NewConflict(schema.GroupResource{Resource: m.Resource}, m.Name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again")))
}

// Busy answers with 429 and a Retry-After of whole seconds. client-go waits for it and
// sends the request again.
func (s *Server) Busy(times int, m Match, after time.Duration) *Fault {
	f := s.fail(times, m, "429", apierrors.NewTooManyRequests("too many requests, please try again later", int(after/time.Second)))
	f.header = http.Header{"Retry-After": {strconv.Itoa(int(after / time.Second))}}
	return f
}

// Broken answers with 500.
func (s *Server) Broken(times int, m Match) *Fault {
	return s.fail(times, m, "500", apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out")))
}

// Forbid answers with 403, as RBAC does.
func (s *Server) Forbid(times int, m Match) *Fault {
	why := fmt.Errorf("the user has no right to %s it", m.Verb)
	return s.fail(times, m, "403", apierrors.NewForbidden(schema.GroupResource{Resource: m.Resource}, m.Name, why))
}

// Missing makes a server answer with 404, as for a kind whose CRD is missing.
func Missing(s *Server, times int, m Match) *Fault {
	return s.fail(times, m, "404", apierrors.NewNotFound(schema.GroupResource{Resource: m.Resource}, m.Name))
}

// Refuse answers with 401: the credential is not accepted.
func (s *Server) Refuse(times int, m Match) *Fault {
	return s.fail(times, m, "401", apierrors.NewUnauthorized("Unauthorized"))
}

// Deny answers with 401 in the form of a denial by an admission webhook, as the API
// server does when Rancher's webhook denies a write.
func (s *Server) Deny(times int, m Match) *Fault {
	return s.fail(times, m, "a denial", apierrors.NewUnauthorized(DeniedText))
}

// DeniedText is the message of a denial by Deny.
const DeniedText = `admission webhook "rancher.cattle.io.test" denied the request: Unauthorized`

// Expired answers a list or a watch with 410: its resourceVersion is too old.
func (s *Server) Expired(times int, m Match) *Fault {
	return s.fail(times, m, "410", apierrors.NewResourceExpired("the resourceVersion for the provided list is too old"))
}

// CutAfter carries out a request, and closes the connection before the answer.
func (s *Server) CutAfter(times int, m Match) *Fault {
	return s.fail(times, m, "a cut after they were carried out", nil)
}

// HoldWatches delays all watches of a resource: they get no event until release is
// called.
func (s *Server) HoldWatches(gvr schema.GroupVersionResource) (release func()) {
	hold := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		r := s.resource(gvr)
		r.held += n
		r.report()
	}
	hold(1)
	return func() { hold(-1) }
}

// CutWatches ends all watches of a resource, as a restarted server does.
func (s *Server) CutWatches(gvr schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resource(gvr)
	r.cuts++
	r.report()
}

// ForgetHistory compacts the history: watches from earlier versions, and lists that
// were begun, are answered with 410. Running watches continue.
func (s *Server) ForgetHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.resources {
		r.lost = s.version
	}
	s.pages = map[string]page{}
}

// resource returns a resource for a test.
func (s *Server) resource(gvr schema.GroupVersionResource) *resource {
	r := s.resources[gvr]
	if r == nil {
		s.t.Errorf("kubetest: %s is not served", gvr)
		return newResource(Kind{})
	}
	return r
}

// expired returns the status 410 as a watch gets it.
func expired(asked, oldest int64) metav1.Status {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", asked, oldest)).ErrStatus
}
