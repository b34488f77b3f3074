package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// agentName is the name of the agent's Deployment.
const agentName = "fleet-agent"

// MaxNames is how many names an error lists.
const MaxNames = 10

const installHint = "fleet install controller | kubectl apply -f -"

var workloads = appsv1.SchemeGroupVersion.WithResource("deployments")

// A NotManagementError says that a cluster is not the management cluster. The answer of
// its API server is not in the chain: for most callers "not found" is an absent object.
type NotManagementError struct {
	text string
	hint string
}

func (e *NotManagementError) Error() string { return e.text }

// A missingKindError says that a server knows some kinds of Fleet and lacks one. The
// answer of its API server is in the chain.
type missingKindError struct {
	resource string
	err      error
}

func (e *missingKindError) Error() string {
	kind := e.resource
	for _, k := range fleet.Kinds() {
		if plural, _, _ := fleet.Resource(k.Kind); plural == e.resource {
			kind = k.Kind
		}
	}
	return fmt.Sprintf("the CRD of %s (%s.%s) is missing, and other kinds of Fleet are there: install the chart fleet-crd of the manager's version; %s does that, too",
		kind, e.resource, fleet.Group, installHint)
}

func (e *missingKindError) Unwrap() error { return e.err }

// notManagement returns the error for a cluster without a manager: it says what runs
// there instead, as far as the user may see it, and what helps.
func (s *Session) notManagement(ctx context.Context) error {
	e := &NotManagementError{}
	if _, err := s.API.List(ctx, Query{Resource: Namespaces}, Page{Limit: 1}); UnknownResource(err) {
		e.text = s.Server + " does not answer as the API server of Kubernetes does: see the server of the kubeconfig, or choose another context (--context)"
		e.hint = "--context NAME"
		return e
	}
	agent, known := s.agentSeen(ctx)
	switch {
	case agent:
		e.text = "only an agent runs in this cluster; choose the context of the management cluster (--context)"
		e.hint = "--context NAME"
	case known:
		e.text = "no Fleet in this cluster (" + s.Server + "); to install it: " + installHint + "; or choose another context (--context)"
		e.hint = installHint
	default:
		e.text = s.Server + " does not know the kinds of Fleet: it is not the management cluster; choose another context (--context), or install Fleet: " + installHint
		e.hint = "--context NAME"
	}
	if len(s.Contexts) > 0 {
		e.text += "; other contexts of the kubeconfig: " + view.List(s.Contexts, MaxNames)
	}
	return e
}

// agentSeen reports whether an agent runs in the cluster, or may run outside of it: then
// its ConfigMap is there. known reports whether the user may read both.
func (s *Session) agentSeen(ctx context.Context) (seen, known bool) {
	known = true
	for _, r := range []schema.GroupVersionResource{workloads, ConfigMaps} {
		found, readable := s.namespacesWith(ctx, r, agentName)
		if len(found) > 0 {
			return true, true
		}
		known = known && readable
	}
	return false, known
}

// namespacesWith are the namespaces that have an object of a name, sorted. A user who
// may not list all namespaces sees that of --system-namespace and the default one. known
// reports whether the user may read them.
func (s *Session) namespacesWith(ctx context.Context, r schema.GroupVersionResource, name string) (found []string, known bool) {
	items, _, err := s.Listed(ctx, Query{Resource: r, Fields: "metadata.name=" + name})
	if err != nil {
		known = true
		for _, ns := range printer.Unique([]string{s.System, DefaultSystemNamespace}) {
			u, err := s.API.Get(ctx, r, ns, name)
			if err == nil {
				items = append(items, u)
			}
			known = known && (err == nil || apierrors.IsNotFound(err))
		}
	}
	for _, u := range items {
		found = append(found, u.GetNamespace())
	}
	slices.Sort(found)
	return found, known || err == nil
}

// managementAPI is an api that explains why the server does not know a kind of Fleet. One
// that knows another kind has a manager, whose CRDs are not whole.
//
// An API server also forbids requests for kinds that it does not serve. Then discovery,
// which every user may read, says whether it serves them.
type managementAPI struct {
	API
	explain func(context.Context) error
	lacks   func() bool // discovery says that the server does not serve Fleet's kinds
}

func (m managementAPI) explained(ctx context.Context, r schema.GroupVersionResource, err error) error {
	switch {
	case err == nil || r.Group != fleet.Group:
		return err
	case apierrors.IsForbidden(err) && m.lacks():
		return m.explain(ctx)
	case !UnknownResource(err):
		return err
	}
	for _, k := range []string{"clusters", "bundles"} {
		other := cli.MustKind(k).Resource()
		if r == other {
			continue
		}
		switch _, failed := m.API.List(ctx, Query{Resource: other}, Page{Limit: 1}); {
		case failed == nil:
			return &missingKindError{r.Resource, err}
		case !UnknownResource(failed): // not for this user to know
			return err
		}
	}
	return m.explain(ctx)
}

func (m managementAPI) List(ctx context.Context, q Query, p Page) (*unstructured.UnstructuredList, error) {
	list, err := m.API.List(ctx, q, p)
	return list, m.explained(ctx, q.Resource, err)
}

func (m managementAPI) Watch(ctx context.Context, q Query, resourceVersion string) (watch.Interface, error) {
	w, err := m.API.Watch(ctx, q, resourceVersion)
	return w, m.explained(ctx, q.Resource, err)
}

func (m managementAPI) Get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := m.API.Get(ctx, r, namespace, name)
	return u, m.explained(ctx, r, err)
}

func (m managementAPI) Create(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	u, err := m.API.Create(ctx, r, o)
	return u, m.explained(ctx, r, err)
}

func (m managementAPI) Patch(ctx context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error) {
	u, err := m.API.Patch(ctx, r, namespace, name, merge)
	return u, m.explained(ctx, r, err)
}

func (m managementAPI) Delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error {
	return m.explained(ctx, r, m.API.Delete(ctx, r, namespace, name))
}

func (m managementAPI) DeleteExactly(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	return m.explained(ctx, r, m.API.DeleteExactly(ctx, r, o))
}

// KindsLacking reports whether the discovery of an API server says that it does not serve
// a group of kinds. It asks once.
func KindsLacking(cfg *rest.Config, group schema.GroupVersion) func() bool {
	return sync.OnceValue(func() bool {
		if cfg == nil {
			return false
		}
		client, err := discovery.NewDiscoveryClientForConfig(cfg)
		if err != nil {
			return false
		}
		_, err = client.ServerResourcesForGroupVersion(group.String())
		return apierrors.IsNotFound(err)
	})
}

// Served is an error if the server does not know the kinds of Fleet.
func (s *Session) Served(ctx context.Context) error {
	_, err := s.API.List(ctx, Query{Resource: cli.MustKind("clusters").Resource(), Namespace: s.System}, Page{Limit: 1})
	if errors.As(err, new(*NotManagementError)) {
		return err
	}
	return nil
}

// managerSeen reports whether something of the manager is in the namespace of
// --system-namespace. known is false where that may not be read.
func (s *Session) managerSeen(ctx context.Context) (seen, known bool, err error) {
	known = true
	for _, o := range []struct {
		resource schema.GroupVersionResource
		name     string
	}{
		{ConfigMaps, fleet.ConfigMapController},
		{ConfigMaps, fleet.ConfigMapInstallation},
		{Leases, ControllerLease},
	} {
		_, err := s.API.Get(ctx, o.resource, s.System, o.name)
		switch {
		case err == nil:
			return true, true, nil
		case apierrors.IsForbidden(err):
			known = false
		case !apierrors.IsNotFound(err):
			return false, false, DescribeServerError(s.Server, err)
		}
	}
	return false, known, nil
}

// ManagerAbsent is an error if the namespace of --system-namespace is known to have no
// manager. It names the namespaces that have one, or says that only an agent runs here, or
// that there is no Fleet in the cluster. It notes on stderr if the user may not read whether a manager is there.
func (s *Session) ManagerAbsent(ctx context.Context) error {
	seen, known, err := s.managerSeen(ctx)
	if err != nil || seen {
		return err
	}
	if err := s.Served(ctx); err != nil {
		return err
	}
	if !known {
		s.Std.Note("this user may not read ConfigMaps and Leases in %s: whether a manager is there is not known", s.System)
		return nil
	}
	others, known := s.namespacesWith(ctx, ConfigMaps, fleet.ConfigMapController)
	if len(others) > 0 {
		return fmt.Errorf("no manager in namespace %s; there is one in %s (--system-namespace)", s.System, strings.Join(others, ", "))
	}
	if agent, _ := s.agentSeen(ctx); known && agent {
		return s.notManagement(ctx)
	}
	return fmt.Errorf("no manager in namespace %s; --system-namespace names another one", s.System)
}

// NoteManager notes what ManagerAbsent finds, where nothing of the manager was read.
func (s *Session) NoteManager(ctx context.Context, m view.Manager) {
	if m.Version != "" || m.LastSign != nil || m.Hidden {
		return
	}
	if err := s.ManagerAbsent(ctx); err != nil {
		s.Std.Note("%v", err)
	}
}

// NoteNoManager is NoteManager for commands that have found no object. A user who may
// not read whether a manager is there gets no note.
func (s *Session) NoteNoManager(ctx context.Context) {
	if seen, known, err := s.managerSeen(ctx); err == nil && known && !seen {
		s.NoteManager(ctx, view.Manager{})
	}
}
