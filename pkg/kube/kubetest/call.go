package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A call is a request that was understood.
type call struct {
	Request
	who         user // who has the rights: who sends the request, or who is impersonated
	ctx         context.Context
	res         *resource
	query       url.Values
	contentType string
	body        []byte
	content     map[string]any // of the body, where it was read already
	manager     string         // of fields
	partial     bool           // metadata alone is asked for
	dryRun      bool
}

// An answer is what the server sends back.
type answer struct {
	code   int
	header http.Header
	body   io.ReadCloser
}

// jsonAnswer returns an answer with a JSON body.
func jsonAnswer(code int, body []byte) answer {
	return answer{code: code, body: io.NopCloser(bytes.NewReader(body))}
}

// refusal returns the answer of an API server for an error.
func refusal(err error) answer {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
		}}
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		body = []byte(err.Error())
	}
	return jsonAnswer(int(status.Code), body)
}

// A handler answers requests.
type handler struct{ *Server }

// RoundTrip answers a request of an administrator.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) { return s.answer(req, false) }

// answer answers a request. guarded means that the user of its token needs the right.
func (s *Server) answer(req *http.Request, guarded bool) (*http.Response, error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.done:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	default:
	}
	c, a := handler{s}.read(req, body)
	var denied error
	if guarded {
		denied = handler{s}.permit(c, req)
	}
	if denied != nil {
		a = refusal(denied)
		if c != nil {
			s.note(c.Request, a.code)
		}
	} else if c != nil {
		fault := s.meet(c.Request)
		if fault == nil || fault.status == nil {
			a = handler{s}.serve(c)
		} else {
			a = refusal(fault.status)
			a.header = fault.header.Clone()
		}
		if fault != nil && fault.status == nil {
			s.note(c.Request, 0)
			return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		}
		s.note(c.Request, a.code)
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("Content-Type", "application/json")
	return &http.Response{
		StatusCode: a.code, Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: a.body, ContentLength: -1, Request: req,
	}, nil
}

func bearerToken(req *http.Request) string {
	return strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
}

func bodyOf(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	return io.ReadAll(req.Body)
}

// read parses a request. If it returns no call, the answer is final.
func (h handler) read(req *http.Request, body []byte) (*call, answer) {
	c := &call{who: user{"kubetest", []string{groupMasters}}, ctx: req.Context(), query: req.URL.Query(), contentType: req.Header.Get("Content-Type"), body: body}
	c.At, c.Query = time.Now(), req.URL.RawQuery
	c.UserAgent, c.User = req.Header.Get("User-Agent"), req.Header.Get("Impersonate-User")
	c.Token = bearerToken(req)
	gv, rest, ok := groupVersion(req.URL.Path)
	if !ok || len(rest) == 0 {
		return nil, h.discover(req.URL.Path)
	}
	c.Namespace, rest = namespaceIn(rest)
	c.Resource, c.Kind = rest[0], gv.WithResource(rest[0])
	if len(rest) > 1 {
		c.Name = rest[1]
	}
	c.Subresource = strings.Join(rest[min(2, len(rest)):], "/")
	switch c.Kind {
	case reviewKind.resource():
		c.res = newResource(reviewKind)
	case selfReviewKind.resource():
		c.res = newResource(selfReviewKind)
	default:
		h.mu.Lock()
		c.res = h.resources[gv.WithResource(c.Resource)]
		h.mu.Unlock()
	}
	switch {
	case c.res == nil && h.builtInGroup(gv):
		return nil, refusal(h.refuse("does not serve %s of %s, see builtIn", c.Resource, gv))
	case c.res == nil, c.Namespace != "" && !c.res.Namespaced:
		return nil, refusal(c.notServed())
	}
	if err := h.readMore(c, req); err != nil {
		return nil, refusal(err)
	}
	return c, answer{}
}

// readMore parses the parts of a request besides its path.
func (h handler) readMore(c *call, req *http.Request) error {
	c.Verb = verbOf(req.Method, c)
	c.Body = string(c.body)
	if strings.HasPrefix(c.contentType, runtime.ContentTypeProtobuf) { // a request is recorded as JSON
		fields, err := h.fieldsOf(c)
		if err != nil {
			return err
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		c.Body = string(text)
	}
	if c.Verb == "create" && c.Subresource == "" {
		var err error
		if c.content, err = h.fieldsOf(c); err != nil {
			return err
		}
		c.Name, _, _ = unstructured.NestedString(c.content, "metadata", "name")
	}
	c.dryRun = c.query.Get("dryRun") == metav1.DryRunAll
	if c.manager = c.query.Get("fieldManager"); c.manager == "" {
		c.manager, _, _ = strings.Cut(c.UserAgent, "/")
	}
	form := req.Header.Get("Accept")
	for clause := range strings.SplitSeq(form, ",") {
		kind, parameters, _ := strings.Cut(strings.TrimSpace(clause), ";")
		switch {
		case kind == "" || kind == "*/*":
			return nil
		case kind != "application/json":
		case strings.Contains(parameters, "as=PartialObjectMetadata"):
			c.partial = true
			return nil
		case !strings.Contains(parameters, "as="):
			return nil
		}
	}
	return h.refuse("does not answer in the form %q", form)
}

func verbOf(method string, c *call) string {
	switch {
	case method == http.MethodGet && c.query.Get("watch") != "" && c.query.Get("watch") != "false":
		return "watch"
	case method == http.MethodGet && c.Name == "":
		return "list"
	case method == http.MethodDelete && c.Name == "":
		return "deletecollection"
	}
	return map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]
}

// groupVersion splits the path of an object or a list.
func groupVersion(path string) (gv schema.GroupVersion, rest []string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 1:
		return schema.GroupVersion{Version: parts[1]}, parts[2:], true
	case parts[0] == "apis" && len(parts) > 2:
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], true
	}
	return gv, nil, false
}

// namespaceIn splits "namespaces/x/configmaps"; "namespaces/x" and its subresources
// are a Namespace.
func namespaceIn(parts []string) (namespace string, rest []string) {
	if parts[0] != "namespaces" || len(parts) < 3 || parts[2] == "status" || parts[2] == "finalize" {
		return "", parts
	}
	return parts[1], parts[2:]
}

// refuse fails the test, because the server does not implement what was requested.
func (h handler) refuse(format string, args ...any) error {
	message := "kubetest " + fmt.Sprintf(format, args...)
	h.t.Error(message)
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented", Message: message,
	}}
}

// serve carries out a call that webhooks allow. They are asked again if the object has
// changed meanwhile.
func (h handler) serve(c *call) answer {
	for {
		r, err := admission{h}.reviewOf(c)
		if err == nil && r != nil {
			err = admission{h}.ask(c.ctx, r)
		}
		if err != nil {
			return refusal(err)
		}
		if a, done := h.carryOut(c, r); done {
			return a
		}
	}
}

// carryOut carries out a call, unless the object is not the one that was reviewed.
func (h handler) carryOut(c *call, reviewed *review) (_ answer, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reviewed != nil && reviewed.live != c.res.objects[kube.Key{Namespace: c.Namespace, Name: c.Name}] {
		return answer{}, false
	}
	a, err := h.dispatch(c)
	c.Terminating = kube.IsTerminating(err)
	if err != nil {
		return refusal(err), true
	}
	return a, true
}

func (h handler) dispatch(c *call) (answer, error) {
	if c.Kind != reviewKind.resource() && c.Kind != selfReviewKind.resource() {
		if c.res = h.resources[c.Kind]; c.res == nil { // its definition was deleted meanwhile
			return answer{}, c.notServed()
		}
	}
	if c.res.Namespaced && c.Namespace == "" && c.Verb != "list" && c.Verb != "watch" {
		return answer{}, apierrors.NewBadRequest("an empty namespace may not be set for an object of a namespaced kind")
	}
	switch c.Subresource {
	case "":
	case "token":
		return h.makeToken(c)
	case "status":
		if !c.res.Status {
			return answer{}, apierrors.NewGenericServerResponse(http.StatusNotFound, c.Verb, c.res.resource().GroupResource(), c.Name, "", 0, true)
		}
	default:
		return answer{}, h.refuse("does not serve the subresource %s", c.Request)
	}
	switch c.Kind {
	case reviewKind.resource():
		return h.review(c)
	case selfReviewKind.resource():
		return h.selfReview(c)
	}
	switch c.Verb {
	case "get":
		return h.get(c)
	case "list":
		return h.list(c)
	case "watch":
		return h.watch(c)
	case "create":
		return c.objectAnswer(http.StatusCreated)(h.create(c))
	case "update":
		return c.objectAnswer(http.StatusOK)(h.update(c))
	case "patch":
		return h.patch(c)
	case "delete":
		return h.delete(c)
	}
	return answer{}, h.refuse("does not serve %s", c.Request)
}

// objectAnswer returns a function that turns an object, or its error, into an answer with a
// status code.
func (c *call) objectAnswer(code int) func(*record, error) (answer, error) {
	return func(r *record, err error) (answer, error) {
		if err != nil {
			return answer{}, err
		}
		body, err := r.text(c.partial)
		return jsonAnswer(code, body), err
	}
}

// get answers with one object.
func (h handler) get(c *call) (answer, error) {
	return c.objectAnswer(http.StatusOK)(c.live())
}
