package credential

import (
	"net/http"
	"sync/atomic"
)

// A bearer adds a token to every request. Connections and watches continue when it gets
// another token.
type bearer struct {
	token atomic.Pointer[string]
}

func (b *bearer) set(token string) { b.token.Store(&token) }

func (b *bearer) get() string {
	if t := b.token.Load(); t != nil {
		return *t
	}
	return ""
}

// wrap returns a RoundTripper that adds the token to requests.
func (b *bearer) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+b.get())
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }
