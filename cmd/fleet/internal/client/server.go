package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// FieldManager is the name under which the command line writes.
const FieldManager = "fleet-cli"

// A Query says which objects of one resource are meant. Empty fields exclude
// nothing.
type Query struct {
	Resource  schema.GroupVersionResource
	Namespace string
	Labels    string // label selector
	Fields    string // field selector
}

// A Page is a part of a list: at most limit objects (0: all), from where the
// one before ended.
type Page struct {
	Limit int64
	From  string
}

// API is what the commands need of an API server. Objects are as the server
// sends them, with nothing added or left out.
type API interface {
	List(ctx context.Context, q Query, p Page) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, q Query, resourceVersion string) (watch.Interface, error)
	Get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error
	// DeleteExactly deletes an object unless it has changed since it was read, which is a
	// conflict. Dependents go in the background.
	DeleteExactly(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error
}

// server is the api of a real API server.
type server struct{ client dynamic.Interface }

func (s server) List(ctx context.Context, q Query, p Page) (*unstructured.UnstructuredList, error) {
	return s.client.Resource(q.Resource).Namespace(q.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: q.Labels, FieldSelector: q.Fields, Limit: p.Limit, Continue: p.From,
	})
}

func (s server) Watch(ctx context.Context, q Query, resourceVersion string) (watch.Interface, error) {
	return s.client.Resource(q.Resource).Namespace(q.Namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: q.Labels, FieldSelector: q.Fields, ResourceVersion: resourceVersion, AllowWatchBookmarks: true,
	})
}

func (s server) Get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.client.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (s server) Create(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.client.Resource(r).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{FieldManager: FieldManager})
}

func (s server) Patch(ctx context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error) {
	return s.client.Resource(r).Namespace(namespace).Patch(ctx, name, types.MergePatchType, merge,
		metav1.PatchOptions{FieldManager: FieldManager})
}

func (s server) Delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error {
	return s.client.Resource(r).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func (s server) DeleteExactly(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	uid, version, background := o.GetUID(), o.GetResourceVersion(), metav1.DeletePropagationBackground
	return s.client.Resource(r).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &background,
	})
}

// Access is how the user reaches an API server.
type Access struct {
	API       API
	Server    string // its address
	namespace string // of the kubeconfig's context
	User      string // of the kubeconfig's context
	Rest      *rest.Config
	Contexts  []string // of the kubeconfig, except the one in use; sorted
}

// Open reads the kubeconfig by kubectl's rules (--kubeconfig, KUBECONFIG,
// ~/.kube/config, a pod's own account) and sends no request.
func (g *Globals) Open(std printer.Stdio) (Access, error) {
	if err := g.checkContext(); err != nil {
		return Access{}, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: g.Context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return Access{}, g.kubeconfigError(rules, err)
	}
	if raw, err := loader.RawConfig(); err == nil && raw.Contexts[cmp.Or(g.Context, raw.CurrentContext)] != nil {
		if err := incompleteError(rules, &raw, g.Context); err != nil {
			return Access{}, err
		}
	}
	cfg.UserAgent = "fleet/" + version.Version
	cfg.QPS = -1
	cfg.WarningHandler = rest.NewWarningWriter(std.Err, rest.WarningWriterOptions{Deduplicate: true})
	if g.Debug {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return Tracer{next, std} })
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return Access{}, fmt.Errorf("use kubeconfig: %w", err)
	}
	a := Access{API: server{client}, Server: cfg.Host, Rest: cfg}
	a.namespace, _, _ = loader.Namespace()
	if raw, err := loader.RawConfig(); err == nil {
		name := cmp.Or(g.Context, raw.CurrentContext)
		if c := raw.Contexts[name]; c != nil {
			a.User = c.AuthInfo
		}
		delete(raw.Contexts, name)
		a.Contexts = slices.Sorted(maps.Keys(raw.Contexts))
	}
	return a, nil
}

// contexts are the names of the kubeconfig's contexts, sorted; none where it cannot
// be read.
func (g *Globals) contexts() []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.Kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// checkContext is an error if the kubeconfig has contexts, and not that of --context.
func (g *Globals) checkContext() error {
	there := g.contexts()
	if g.Context == "" || len(there) == 0 || slices.Contains(there, g.Context) {
		return nil
	}
	list := view.List(there, MaxNames)
	if near := spelling.Nearest(g.Context, there); near != "" {
		return fmt.Errorf("no context %q in the kubeconfig; did you mean %q? (there are: %s)", g.Context, near, list)
	}
	return fmt.Errorf("no context %q in the kubeconfig; there are: %s", g.Context, list)
}

// noKubeconfig is the error where no kubeconfig names a cluster, with the files
// of the environment that are missing.
func noKubeconfig(environment string) error {
	var missing []string
	for _, path := range filepath.SplitList(environment) {
		if _, err := os.Stat(path); path != "" && err != nil {
			missing = append(missing, path)
		}
	}
	switch {
	case environment == "":
		return errors.New("no kubeconfig: set KUBECONFIG, or use --kubeconfig FILE")
	case len(missing) > 0:
		return fmt.Errorf("no kubeconfig: KUBECONFIG names %s, which cannot be read or is not there", strings.Join(missing, " and "))
	}
	return fmt.Errorf("no kubeconfig: KUBECONFIG names %s, which names no cluster", environment)
}

// Tracer notes each request, without headers and bodies.
type Tracer struct {
	Next http.RoundTripper
	Std  printer.Stdio
}

// RoundTrip notes a request and what came of it.
func (t Tracer) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := t.Next.RoundTrip(r)
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		t.Std.Note("debug: %s %s: %v after %s", r.Method, r.URL, err, took)
		return nil, err
	}
	t.Std.Note("debug: %s %s: %d after %s", r.Method, r.URL, resp.StatusCode, took)
	return resp, nil
}

// DescribeServerError puts an error of an API server into words. The cause stays in the
// chain.
func DescribeServerError(address string, err error) error {
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err) && kube.IsDenied(err):
		return fmt.Errorf("%s does not let you do this: %w", address, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept the credentials of the kubeconfig; they are wrong, or its token or certificate has expired: log in again, or get a new kubeconfig: %w", address, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("cannot reach %s: it speaks HTTP and not HTTPS; write http:// in the server of the kubeconfig: %w", address, http.ErrSchemeMismatch)
	case !strings.HasPrefix(address, "https://") && apierrors.IsBadRequest(err) && apierrors.IsUnexpectedServerError(err):
		return fmt.Errorf("%s does not understand requests; if it speaks HTTPS, write https:// in the server of the kubeconfig: %w", address, err)
	case errors.As(err, &urlErr):
		return fmt.Errorf("cannot reach %s: %w", address, urlErr.Err)
	case errors.As(err, &netErr):
		return fmt.Errorf("cannot reach %s: %w", address, err)
	case errors.As(err, new(*missingKindError)):
		return err
	case UnknownResource(err):
		return fmt.Errorf("%s does not know the kinds of Fleet; install charts/fleet-crd and charts/fleet there: %w", address, err)
	}
	return err
}

// UnknownResource reports whether a request failed because the server does not
// have the resource at all.
func UnknownResource(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == "" || apierrors.IsUnexpectedServerError(err)
}
