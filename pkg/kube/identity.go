package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// As returns the same connection with the rights of another user, whom the user of this
// one must be allowed to impersonate. Without a user it is the connection itself.
func (c *Client) As(user string) *Client {
	if user == "" {
		return c
	}
	cfg := c.cfg
	cfg.REST = impersonating(c.cfg.REST, user)
	return &Client{cfg: cfg, scheme: c.scheme, loop: c.loop}
}

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

// As reads with the rights of another user; see Client.As. It sends no request.
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
