package helm

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// checkRead refuses what a bundle reads with the agent's own rights outside of the
// namespace to which an administrator has limited it. where is the namespace, or
// empty for all.
func (l namespaceLimit) checkRead(what, where string) error {
	if !l.closed || where == l.namespace {
		return nil
	}
	at := "in the whole cluster"
	if where != "" {
		at = fmt.Sprintf("of namespace %q", where)
	}
	return reconcile.TerminalError(release.ReasonClusterScoped, fmt.Errorf(
		"%s %s: the bundle is limited to namespace %q and reads in no other without an account; "+
			"serviceAccount of the GitRepo can name one that may read it", what, at, l.namespace))
}

// reader is the configuration of the connection by which templates look objects
// up. An account reads what RBAC allows it; the agent itself may read everything, so
// the limit of the bundle decides.
func (e *engine) reader(cfg *rest.Config) *rest.Config {
	if e.tenant || !e.limit.closed {
		return cfg
	}
	root := ""
	if at, _, err := rest.DefaultServerUrlFor(cfg); err == nil {
		root = at.Path
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &limitedReader{engine: e, root: root, next: next}
	})
	return cfg
}

// A limitedReader sends the requests of lookup within the limit of a bundle.
type limitedReader struct {
	engine *engine
	root   string // of the API server's paths
	next   http.RoundTripper
}

// RoundTrip sends a request, if the bundle may read what it asks for.
func (r *limitedReader) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := r.checkPath(strings.TrimPrefix(path.Clean(req.URL.Path), strings.TrimSuffix(r.root, "/"))); err != nil {
		return nil, r.engine.noteRefusal(err)
	}
	return r.next.RoundTrip(req)
}

// checkPath judges a path: /api/v1/..., or /apis/GROUP/VERSION/... Kinds themselves may
// be read, and what no namespace holds.
func (r *limitedReader) checkPath(at string) error {
	parts := strings.Split(strings.Trim(at, "/"), "/")
	gv := schema.GroupVersion{}
	switch {
	case parts[0] == "api" && len(parts) > 2:
		gv.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		return r.engine.limit.checkRead("lookup of "+parts[2], parts[1])
	}
	if r.clusterScoped(gv.WithResource(parts[0])) {
		return nil
	}
	return r.engine.limit.checkRead("lookup of "+parts[0], "")
}

// clusterScoped reports whether a resource is known to be in no namespace.
func (r *limitedReader) clusterScoped(resource schema.GroupVersionResource) bool {
	kind, err := r.engine.api.mapper.KindFor(resource)
	if err != nil {
		return false
	}
	m, err := r.engine.api.mapping(kind)
	return err == nil && m.Scope.Name() == meta.RESTScopeNameRoot
}
