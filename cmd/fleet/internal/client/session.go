package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// A Session is one user at one API server.
type Session struct {
	Access
	Std    printer.Stdio
	Now    func() time.Time
	Scope  string // -n; empty: all workspaces that the user may list
	System string // the manager's namespace
	Random func(bytes int) string

	unnamed *cobra.Command // the command that writes, where the user names no workspace

	Within string // where scope is empty although the user gave -n: the value of -n

	Narrowed bool // it was said that not all workspaces may be listed
}

// The resources of Kubernetes that a session reads.
var (
	ConfigMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	Namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	events     = corev1.SchemeGroupVersion.WithResource("events")
)

// Connect opens a session. It warns if the brake is on; said reports that the
// command says so itself.
func (g *Globals) Connect(ctx context.Context, std printer.Stdio, said bool) (*Session, error) {
	a, err := g.Dial(std)
	if err != nil {
		return nil, err
	}
	s := &Session{Access: a, Std: std, Now: g.Now, Scope: g.Namespace, System: g.System, Random: g.Random, unnamed: g.unnamed}
	s.API = managementAPI{a.API, s.notManagement, KindsLacking(a.Rest, fleet.GroupVersion)}
	if said {
		return s, nil
	}
	return s, s.Warn(ctx)
}

// Warn notes that the brake is on. A user who may not see that gets no note.
func (s *Session) Warn(ctx context.Context) error {
	b, err := s.GlobalPause(ctx)
	if err != nil {
		return err
	}
	if b.On {
		s.Std.Note("warning: rollouts are %s (fleet resume --all)", b.Text(s.Now()))
	}
	return nil
}

// GlobalPause reads the brake; it is off for a user who may not read it.
func (s *Session) GlobalPause(ctx context.Context) (view.GlobalPause, error) {
	m, err := GetAs[corev1.ConfigMap](ctx, s, ConfigMaps, s.System, fleet.ConfigMapBrake)
	if m == nil || err != nil {
		return view.GlobalPause{}, err
	}
	return view.ParseGlobalPause(m.Data), nil
}

// ListAll lists what a query selects, in pages, sorted by workspace and name as
// the server does.
func (s *Session) ListAll(ctx context.Context, q Query) ([]*unstructured.Unstructured, error) {
	items, _, err := s.Listed(ctx, q)
	return items, DescribeServerError(s.Server, err)
}

// Listed is all, and the version of the list.
func (s *Session) Listed(ctx context.Context, q Query) ([]*unstructured.Unstructured, string, error) {
	return Listed(ctx, s.API, q)
}

// Listed lists what a query selects, in pages, with the version of the list.
func Listed(ctx context.Context, a API, q Query) ([]*unstructured.Unstructured, string, error) {
	var items []*unstructured.Unstructured
	version, err := VisitAll(ctx, a, q, func(u *unstructured.Unstructured) error {
		items = append(items, u)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return items, version, nil
}

// VisitAll visits what a query selects, in pages, and returns the version of the list.
func VisitAll(ctx context.Context, a API, q Query, visit func(*unstructured.Unstructured) error) (string, error) {
	return VisitPages(ctx, a, q, pageSize, visit)
}

// VisitOnce visits what a query selects, in pages of limit objects. An object is emptied after
// its visit, so that only what the visitor keeps of it is held.
func VisitOnce(ctx context.Context, a API, q Query, limit int64, visit func(*unstructured.Unstructured) error) error {
	_, err := VisitPages(ctx, a, q, limit, func(u *unstructured.Unstructured) error {
		err := visit(u)
		u.Object = nil
		return err
	})
	return err
}

// VisitPages is VisitAll in pages of limit objects.
func VisitPages(ctx context.Context, a API, q Query, limit int64, visit func(*unstructured.Unstructured) error) (string, error) {
	p := Page{Limit: limit}
	for {
		list, err := a.List(ctx, q, p)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return "", err
			}
		}
		p.From = list.GetContinue()
		if p.From == "" {
			return list.GetResourceVersion(), nil
		}
	}
}

// QueriesFor are the queries that together find all objects of a kind that the user may list,
// within -n. It is one query for a user who may list all namespaces.
func (s *Session) QueriesFor(ctx context.Context, k cli.Kind, labels string) ([]Query, error) {
	q := Query{Resource: k.Resource(), Labels: labels}
	deployments := k.Plural == "deployments"
	if s.Scope != "" {
		if !deployments {
			q.Namespace = s.Scope
			return []Query{q}, nil
		}
		q.Labels = JoinSelectors(labels, fleet.LabelClusterNamespace+"="+s.Scope)
	}
	_, err := s.API.List(ctx, q, Page{Limit: 1})
	if !apierrors.IsForbidden(err) {
		return []Query{q}, DescribeServerError(s.Server, err)
	}
	candidates, cause := s.workspaces(ctx), err
	if deployments {
		if candidates, err = s.clusterNamespaces(ctx); err != nil {
			return nil, err
		}
	}
	var out []Query
	for _, ns := range candidates {
		q.Namespace = ns
		if _, err := s.API.List(ctx, q, Page{Limit: 1}); err == nil {
			out = append(out, q)
		} else if !apierrors.IsForbidden(err) {
			return nil, DescribeServerError(s.Server, err)
		}
	}
	if len(out) == 0 {
		return nil, s.cannotListError(k, candidates, cause)
	}
	if !deployments {
		s.NoteNarrowed(scopes(out))
	}
	return out, nil
}

// NoteNarrowed prints once which workspaces are searched for a user who may not list
// all namespaces.
func (s *Session) NoteNarrowed(workspaces []string) {
	if !s.Narrowed {
		s.Narrowed = true
		s.Std.Note("only %s: this user may not list all namespaces", strings.Join(workspaces, ", "))
	}
}

// An unseenDeploymentsError is the error for a user who may list deployments neither
// everywhere nor in the namespaces of the clusters that the user may see.
type unseenDeploymentsError struct {
	tried []string
	cause error
}

func (e *unseenDeploymentsError) Error() string {
	return fmt.Sprintf("this user may list deployments neither everywhere nor in the namespaces of the clusters (%s): %v", view.List(e.tried, 5), e.cause)
}

func (e *unseenDeploymentsError) Unwrap() error { return e.cause }

// cannotListError returns the error for a user who may list a kind neither in all workspaces
// nor in those that were tried, because the user named none.
func (s *Session) cannotListError(k cli.Kind, tried []string, cause error) error {
	if k.Plural == "deployments" && len(tried) > 0 {
		return &unseenDeploymentsError{tried, cause}
	}
	if s.Scope != "" || len(tried) == 0 {
		return cause
	}
	if s.Within != "" && slices.Contains(tried, s.Within) {
		tried = []string{s.Within}
	}
	if s.Within != "" {
		return fmt.Errorf("this user may not list %s in %s: %w", k.Plural, view.List(tried, 5), cause)
	}
	return fmt.Errorf("this user may list %s neither in all workspaces nor in %s (tried without -n); name a workspace with -n: %w",
		k.Plural, view.List(tried, 5), cause)
}

// workspaces are the namespaces that may hold Fleet's objects, for a user who may not
// list all namespaces: the namespaces that can be listed, or else the usual ones.
func (s *Session) workspaces(ctx context.Context) []string {
	found, _, err := s.Listed(ctx, Query{Resource: Namespaces, Labels: fleet.LabelManaged + "!=true"})
	var names []string
	for _, ns := range found {
		names = append(names, ns.GetName())
	}
	if err != nil || len(names) == 0 {
		return s.usualWorkspaces()
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// usualWorkspaces are the namespaces that are likely to be workspaces where that cannot
// be read, by name.
func (s *Session) usualWorkspaces() []string {
	names := []string{s.namespace, s.Within, fleet.NamespaceDefault, fleet.NamespaceLocal}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// clusterNamespaces are where the deployments of the Clusters are that the
// user may list.
func (s *Session) clusterNamespaces(ctx context.Context) ([]string, error) {
	clusters, err := ListAs[fleet.Cluster](ctx, s, cli.MustKind("clusters"), "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range clusters {
		if c.Status.Namespace != "" {
			names = append(names, c.Status.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// ListAs lists all objects of a kind that the user may list, within -n.
func ListAs[T any](ctx context.Context, s *Session, k cli.Kind, labels string) ([]*T, error) {
	qs, err := s.QueriesFor(ctx, k, labels)
	if err != nil {
		return nil, err
	}
	var out []*T
	for _, q := range qs {
		items, err := s.ListAll(ctx, q)
		if err != nil {
			return nil, err
		}
		typed, err := AllAs[T](items)
		if err != nil {
			return nil, err
		}
		out = append(out, typed...)
	}
	return out, nil
}

// AllAs are objects as the type of their kind.
func AllAs[T any](items []*unstructured.Unstructured) ([]*T, error) {
	out := make([]*T, len(items))
	for i, u := range items {
		var err error
		if out[i], err = Convert[T](u); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Convert reads an object as the type of its kind.
func Convert[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("read %s %q: %w", strings.ToLower(u.GetKind()), u.GetNamespace()+"/"+u.GetName(), err)
	}
	return out, nil
}

// scopes are the namespaces of queries.
func scopes(qs []Query) []string {
	var out []string
	for _, q := range qs {
		out = append(out, q.Namespace)
	}
	return out
}

// JoinSelectors returns a label selector that combines two others, each of which may be empty.
func JoinSelectors(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// GetAs reads one object as the type of its kind; it is nil where there is
// none, or none for this user.
func GetAs[T any](ctx context.Context, s *Session, r schema.GroupVersionResource, namespace, name string) (*T, error) {
	u, err := s.API.Get(ctx, r, namespace, name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, DescribeServerError(s.Server, err)
	}
	return Convert[T](u)
}
