package main

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

// fieldManager is the name under which the command line writes.
const fieldManager = "fleet-cli"

// A query says which objects of one resource are meant. Empty fields exclude
// nothing.
type query struct {
	resource  schema.GroupVersionResource
	namespace string
	labels    string // label selector
	fields    string // field selector
}

// A page is a part of a list: at most limit objects (0: all), from where the
// one before ended.
type page struct {
	limit int64
	from  string
}

// api is what the commands need of an API server. Objects are as the server
// sends them, with nothing added or left out.
type api interface {
	List(ctx context.Context, q query, p page) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, q query, resourceVersion string) (watch.Interface, error)
	Get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error
}

// server is the api of a real API server.
type server struct{ client dynamic.Interface }

func (s server) List(ctx context.Context, q query, p page) (*unstructured.UnstructuredList, error) {
	return s.client.Resource(q.resource).Namespace(q.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: q.labels, FieldSelector: q.fields, Limit: p.limit, Continue: p.from,
	})
}

func (s server) Watch(ctx context.Context, q query, resourceVersion string) (watch.Interface, error) {
	return s.client.Resource(q.resource).Namespace(q.namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: q.labels, FieldSelector: q.fields, ResourceVersion: resourceVersion, AllowWatchBookmarks: true,
	})
}

func (s server) Get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.client.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (s server) Create(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.client.Resource(r).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
}

func (s server) Patch(ctx context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error) {
	return s.client.Resource(r).Namespace(namespace).Patch(ctx, name, types.MergePatchType, merge,
		metav1.PatchOptions{FieldManager: fieldManager})
}

func (s server) Delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error {
	return s.client.Resource(r).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// access is how the user reaches an API server.
type access struct {
	api       api
	server    string // its address
	namespace string // of the kubeconfig's context
	user      string // of the kubeconfig's context
	rest      *rest.Config
	contexts  []string // of the kubeconfig, except the one in use; sorted
}

// open reads the kubeconfig by kubectl's rules (--kubeconfig, KUBECONFIG,
// ~/.kube/config, a pod's own account) and sends no request.
func (g *globals) open(std printer.Stdio) (access, error) {
	if err := g.checkContext(); err != nil {
		return access{}, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: g.context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return access{}, g.unread(rules, err)
	}
	if raw, err := loader.RawConfig(); err == nil && raw.Contexts[cmp.Or(g.context, raw.CurrentContext)] != nil {
		if err := incomplete(rules, &raw, g.context); err != nil {
			return access{}, err
		}
	}
	cfg.UserAgent = "fleet/" + version.Version
	cfg.QPS = -1
	cfg.WarningHandler = rest.NewWarningWriter(std.Err, rest.WarningWriterOptions{Deduplicate: true})
	if g.debug {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return tracer{next, std} })
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return access{}, fmt.Errorf("use kubeconfig: %w", err)
	}
	a := access{api: server{client}, server: cfg.Host, rest: cfg}
	a.namespace, _, _ = loader.Namespace()
	if raw, err := loader.RawConfig(); err == nil {
		name := cmp.Or(g.context, raw.CurrentContext)
		if c := raw.Contexts[name]; c != nil {
			a.user = c.AuthInfo
		}
		delete(raw.Contexts, name)
		a.contexts = slices.Sorted(maps.Keys(raw.Contexts))
	}
	return a, nil
}

// contexts are the names of the kubeconfig's contexts, sorted; none where it cannot
// be read.
func (g *globals) contexts() []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// checkContext is an error if the kubeconfig has contexts, and not that of --context.
func (g *globals) checkContext() error {
	there := g.contexts()
	if g.context == "" || len(there) == 0 || slices.Contains(there, g.context) {
		return nil
	}
	list := view.List(there, maxNames)
	if near := spelling.Nearest(g.context, there); near != "" {
		return fmt.Errorf("no context %q in the kubeconfig; did you mean %q? (there are: %s)", g.context, near, list)
	}
	return fmt.Errorf("no context %q in the kubeconfig; there are: %s", g.context, list)
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

// tracer notes each request, without headers and bodies.
type tracer struct {
	next http.RoundTripper
	std  printer.Stdio
}

func (t tracer) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := t.next.RoundTrip(r)
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		t.std.Note("debug: %s %s: %v after %s", r.Method, r.URL, err, took)
		return nil, err
	}
	t.std.Note("debug: %s %s: %d after %s", r.Method, r.URL, resp.StatusCode, took)
	return resp, nil
}

// reached puts an error of an API server into words. The cause stays in the
// chain.
func reached(address string, err error) error {
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
	case unknownResource(err):
		return fmt.Errorf("%s does not know the kinds of Fleet; install charts/fleet-crd and charts/fleet there: %w", address, err)
	}
	return err
}

// unknownResource reports whether a request failed because the server does not
// have the resource at all.
func unknownResource(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == "" || apierrors.IsUnexpectedServerError(err)
}
