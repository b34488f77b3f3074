// Package kube is the port to the Kubernetes API: typed stores, informer
// caches stripped, queues with workers, leases and events. It uses lasso's
// client and informer and client-go; its loop runner is its own, because
// lasso's has neither priorities nor contexts nor returned errors.
//
// Nothing here decides anything about Fleet, logs, or keeps package state.
package kube

import (
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

// An Object is a pointer to an API type, for example *fleet.Bundle.
type Object interface {
	metav1.Object
	runtime.Object
}

// A Key names an object of a known kind. Cluster-scoped objects have no
// namespace.
type Key struct {
	Namespace string
	Name      string
}

// String returns "namespace/name", or the name of a cluster-scoped object.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// ParseKey parses the result of Key.String.
func ParseKey(s string) Key {
	if ns, name, ok := strings.Cut(s, "/"); ok {
		return Key{Namespace: ns, Name: name}
	}
	return Key{Name: s}
}

// KeyOf returns the key of an object.
func KeyOf(o metav1.Object) Key {
	return Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Config is how to reach one API server, and as whom.
type Config struct {
	// REST is the connection. Its rate limits are ignored: the API server's own
	// flow control is the limit.
	REST *rest.Config
	// UserAgent is "<process>/<version>"; each loop adds its name.
	UserAgent string
	// FieldManager is the name under which every write is recorded.
	FieldManager string
	// Line, where not nil, carries the requests; else client-go does.
	Line *Conn

	maxPages int // of one list; 0: all that the server has
}

// A Client is a connection to one API server. It may be used by several
// goroutines and holds no cache.
type Client struct {
	cfg    Config
	scheme *runtime.Scheme
	loop   string

	once sync.Once
	rest rest.Interface
	err  error

	metaOnce sync.Once
	meta     metadata.Interface
	metaErr  error
}

// scheme returns the scheme of all connections of the process. It takes milliseconds to
// build. Clients only read it, which is safe for concurrent use.
var scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, fleet.AddToScheme,
		management.AddToScheme, provisioning.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
})

// Connect prepares a connection; it sends no request.
func Connect(cfg Config) (*Client, error) {
	if cfg.REST == nil {
		return nil, fmt.Errorf("connect: no REST configuration")
	}
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	cfg.REST = withoutRateLimit(cfg.REST, cfg.UserAgent)
	c := &Client{cfg: cfg, scheme: scheme}
	if cfg.Line == nil {
		return c, nil
	}
	c.cfg.REST = cfg.Line.use(cfg.REST, ordinary)
	_, err = c.restClient() // an error now, not a panic of a store later
	return c, err
}

// RESTConfig reads a kubeconfig file; with an empty path it returns the configuration
// of a pod in its own cluster. It ignores KUBECONFIG and the user's home.
func RESTConfig(path string) (*rest.Config, error) {
	if path == "" {
		return rest.InClusterConfig()
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", path, err)
	}
	return cfg, nil
}

// Loop returns the same connection under the User-Agent "<process>/<version> (<loop>)",
// so that audit logs distinguish loops.
func (c *Client) Loop(name string) *Client {
	cfg := c.cfg
	cfg.REST = withoutRateLimit(c.cfg.REST, fmt.Sprintf("%s (%s)", c.cfg.UserAgent, name))
	return &Client{cfg: cfg, scheme: c.scheme, loop: name}
}

// REST returns a copy of the connection's configuration, for libraries that make their
// own clients.
func (c *Client) REST() *rest.Config { return rest.CopyConfig(c.cfg.REST) }

// FieldManager returns the name under which this connection writes.
func (c *Client) FieldManager() string { return c.cfg.FieldManager }

// Scheme returns the scheme with the kinds of stores and caches. All connections share
// it: the caller must not change it.
func (c *Client) Scheme() *runtime.Scheme { return c.scheme }

// withoutRateLimit returns a copy of cfg without client-side rate limits.
func withoutRateLimit(cfg *rest.Config, agent string) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.QPS, out.Burst, out.RateLimiter = -1, 0, nil
	if agent != "" {
		out.UserAgent = agent
	}
	return out
}

// restClient returns the one REST client for all kinds of this connection, made on
// first use.
func (c *Client) restClient() (rest.Interface, error) {
	c.once.Do(func() {
		cfg := rest.CopyConfig(c.cfg.REST)
		cfg.NegotiatedSerializer = fastDecoder{serializer.NewCodecFactory(c.scheme).WithoutConversion(), c.scheme}
		c.rest, c.err = rest.UnversionedRESTClientFor(cfg)
	})
	return c.rest, c.err
}

// kindOf returns the kind, the resource and the scope of a Go type.
func (c *Client) kindOf(obj runtime.Object) (kindInfo, error) {
	gvks, _, err := c.scheme.ObjectKinds(obj)
	if err != nil {
		return kindInfo{}, err
	}
	gvk := gvks[0]
	gvr, _ := meta.UnsafeGuessKindToResource(gvk)
	info := kindInfo{gvk: gvk, gvr: gvr, namespaced: !clusterScoped(gvk.GroupKind())}
	if gvk.Group == fleet.GroupVersion.Group {
		if plural, namespaced, ok := fleet.Resource(gvk.Kind); ok {
			info.gvr.Resource, info.namespaced = plural, namespaced
		}
	}
	return info, nil
}

type kindInfo struct {
	gvk        schema.GroupVersionKind
	gvr        schema.GroupVersionResource
	namespaced bool
}

// clusterScoped reports whether a kind is cluster-scoped. It is right for the kinds that
// Fleet itself reads or writes, not for all kinds of the scheme.
func clusterScoped(gk schema.GroupKind) bool {
	switch gk.Group {
	case "":
		return gk.Kind == "Namespace" || gk.Kind == "Node" || gk.Kind == "PersistentVolume"
	case rbacv1.GroupName:
		return strings.HasPrefix(gk.Kind, "Cluster")
	case apiextensionsv1.GroupName, "apiregistration.k8s.io", "scheduling.k8s.io", "storage.k8s.io", management.Group:
		return true
	}
	return false
}
