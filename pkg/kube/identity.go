package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// As returns the same connection with the rights of another user, which the user of
// this one must be allowed to impersonate. If user is empty, it returns the connection
// itself.
func (c *Client) As(user string) *Client {
	if user == "" {
		return c
	}
	cfg := c.cfg
	cfg.REST = impersonating(c.cfg.REST, user)
	return &Client{cfg: cfg, scheme: c.scheme, loop: c.loop}
}

// impersonating returns a copy of cfg that impersonates a user.
func impersonating(cfg *rest.Config, user string) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Impersonate = rest.ImpersonationConfig{UserName: user}
	return out
}

// A Reader reads live objects with the rights of one user. It learns the kinds of the
// cluster from the Live that it was made from.
type Reader struct {
	live    *Live
	objects dynamic.Interface
}

// As returns a Reader with the rights of another user; see Client.As. It sends no
// request.
func (l *Live) As(user string) (*Reader, error) {
	if user == "" {
		return &Reader{live: l, objects: l.objects}, nil
	}
	objects, err := dynamic.NewForConfig(impersonating(l.cfg, user))
	if err != nil {
		return nil, fmt.Errorf("read as %q: %w", user, err)
	}
	return &Reader{live: l, objects: objects}, nil
}

// Get is Live.Get with the reader's rights.
func (r *Reader) Get(ctx context.Context, gvk schema.GroupVersionKind, key Key) (*unstructured.Unstructured, error) {
	return r.live.get(ctx, r.objects, gvk, key)
}
