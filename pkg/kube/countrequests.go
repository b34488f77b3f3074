package kube

import (
	"net/http"
	"strconv"

	"k8s.io/client-go/rest"
)

// CountRequests returns a copy of cfg that calls count after each request, with its HTTP
// method and the status code of the answer, or "error" if there was none. count must be
// safe for concurrent use.
func CountRequests(cfg *rest.Config, count func(method, code string)) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return requestCounter{count, next} })
	return out
}

// A requestCounter counts the requests that it forwards.
type requestCounter struct {
	count func(method, code string)
	next  http.RoundTripper
}

// RoundTrip sends a request.
func (c requestCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	c.count(r.Method, code)
	return resp, err
}
