package main

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

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// A session is one user at one API server.
type session struct {
	access
	std    printer.Stdio
	now    func() time.Time
	scope  string // -n; empty: all workspaces that the user may list
	system string // the manager's namespace
	random func(bytes int) string

	unnamed *cobra.Command // the command that writes, where the user names no workspace

	within string // where scope is empty although the user gave -n: the value of -n

	narrowed bool // it was said that not all workspaces may be listed
}

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	events     = corev1.SchemeGroupVersion.WithResource("events")
)

// connect opens a session. It warns if the brake is on; said reports that the
// command says so itself.
func (g *globals) connect(ctx context.Context, std printer.Stdio, said bool) (*session, error) {
	a, err := g.dial(std)
	if err != nil {
		return nil, err
	}
	s := &session{access: a, std: std, now: g.now, scope: g.namespace, system: g.system, random: g.random, unnamed: g.unnamed}
	s.api = managementAPI{a.api, s.notManagement, kindsLacking(a.rest, fleet.GroupVersion)}
	if said {
		return s, nil
	}
	return s, s.warn(ctx)
}

// warn notes that the brake is on. A user who may not see that gets no note.
func (s *session) warn(ctx context.Context) error {
	b, err := s.brake(ctx)
	if err != nil {
		return err
	}
	if b.On {
		s.std.Note("warning: rollouts are %s (fleet resume --all)", b.Text(s.now()))
	}
	return nil
}

// brake reads the brake; it is off for a user who may not read it.
func (s *session) brake(ctx context.Context) (view.Brake, error) {
	m, err := getAs[corev1.ConfigMap](ctx, s, configMaps, s.system, fleet.ConfigMapBrake)
	if m == nil || err != nil {
		return view.Brake{}, err
	}
	return view.ParseBrake(m.Data), nil
}

// all lists what a query selects, in pages, sorted by workspace and name as
// the server does.
func (s *session) all(ctx context.Context, q query) ([]*unstructured.Unstructured, error) {
	items, _, err := s.listed(ctx, q)
	return items, reached(s.server, err)
}

// listed is all, and the version of the list.
func (s *session) listed(ctx context.Context, q query) ([]*unstructured.Unstructured, string, error) {
	return listed(ctx, s.api, q)
}

func listed(ctx context.Context, a api, q query) ([]*unstructured.Unstructured, string, error) {
	var items []*unstructured.Unstructured
	version, err := each(ctx, a, q, func(u *unstructured.Unstructured) error {
		items = append(items, u)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return items, version, nil
}

// each visits what a query selects, in pages, and returns the version of the list.
func each(ctx context.Context, a api, q query, visit func(*unstructured.Unstructured) error) (string, error) {
	p := page{limit: pageSize}
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
		p.from = list.GetContinue()
		if p.from == "" {
			return list.GetResourceVersion(), nil
		}
	}
}

// wide are the queries that together find all objects of a kind that the user may list,
// within -n. It is one query for a user who may list all namespaces.
func (s *session) wide(ctx context.Context, k kind, labels string) ([]query, error) {
	q := query{resource: k.resource(), labels: labels}
	deployments := k.plural == "deployments"
	if s.scope != "" {
		if !deployments {
			q.namespace = s.scope
			return []query{q}, nil
		}
		q.labels = both(labels, fleet.LabelClusterNamespace+"="+s.scope)
	}
	_, err := s.api.List(ctx, q, page{limit: 1})
	if !apierrors.IsForbidden(err) {
		return []query{q}, reached(s.server, err)
	}
	candidates, cause := s.workspaces(ctx), err
	if deployments {
		if candidates, err = s.clusterNamespaces(ctx); err != nil {
			return nil, err
		}
	}
	var out []query
	for _, ns := range candidates {
		q.namespace = ns
		if _, err := s.api.List(ctx, q, page{limit: 1}); err == nil {
			out = append(out, q)
		} else if !apierrors.IsForbidden(err) {
			return nil, reached(s.server, err)
		}
	}
	if len(out) == 0 {
		return nil, s.nowhere(k, candidates, cause)
	}
	if !deployments {
		s.noteNarrowed(scopes(out))
	}
	return out, nil
}

// noteNarrowed prints once which workspaces are searched for a user who may not list
// all namespaces.
func (s *session) noteNarrowed(workspaces []string) {
	if !s.narrowed {
		s.narrowed = true
		s.std.Note("only %s: this user may not list all namespaces", strings.Join(workspaces, ", "))
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

// nowhere returns the error for a user who may list a kind neither in all workspaces
// nor in those that were tried, because the user named none.
func (s *session) nowhere(k kind, tried []string, cause error) error {
	if k.plural == "deployments" && len(tried) > 0 {
		return &unseenDeploymentsError{tried, cause}
	}
	if s.scope != "" || len(tried) == 0 {
		return cause
	}
	if s.within != "" && slices.Contains(tried, s.within) {
		tried = []string{s.within}
	}
	if s.within != "" {
		return fmt.Errorf("this user may not list %s in %s: %w", k.plural, view.List(tried, 5), cause)
	}
	return fmt.Errorf("this user may list %s neither in all workspaces nor in %s (tried without -n); name a workspace with -n: %w",
		k.plural, view.List(tried, 5), cause)
}

// workspaces are the namespaces that may hold Fleet's objects, for a user who may not
// list all namespaces: the namespaces that can be listed, or else the usual ones.
func (s *session) workspaces(ctx context.Context) []string {
	found, _, err := s.listed(ctx, query{resource: namespaces, labels: fleet.LabelManaged + "!=true"})
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
func (s *session) usualWorkspaces() []string {
	names := []string{s.namespace, s.within, fleet.NamespaceDefault, fleet.NamespaceLocal}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// clusterNamespaces are where the deployments of the Clusters are that the
// user may list.
func (s *session) clusterNamespaces(ctx context.Context) ([]string, error) {
	clusters, err := listAs[fleet.Cluster](ctx, s, mustKind("clusters"), "")
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

// listAs lists all objects of a kind that the user may list, within -n.
func listAs[T any](ctx context.Context, s *session, k kind, labels string) ([]*T, error) {
	qs, err := s.wide(ctx, k, labels)
	if err != nil {
		return nil, err
	}
	var out []*T
	for _, q := range qs {
		items, err := s.all(ctx, q)
		if err != nil {
			return nil, err
		}
		typed, err := allAs[T](items)
		if err != nil {
			return nil, err
		}
		out = append(out, typed...)
	}
	return out, nil
}

// allAs are objects as the type of their kind.
func allAs[T any](items []*unstructured.Unstructured) ([]*T, error) {
	out := make([]*T, len(items))
	for i, u := range items {
		var err error
		if out[i], err = as[T](u); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// as reads an object as the type of its kind.
func as[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("read %s %q: %w", strings.ToLower(u.GetKind()), u.GetNamespace()+"/"+u.GetName(), err)
	}
	return out, nil
}

// scopes are the namespaces of queries.
func scopes(qs []query) []string {
	var out []string
	for _, q := range qs {
		out = append(out, q.namespace)
	}
	return out
}

// both returns a label selector that combines two others, each of which may be empty.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// getAs reads one object as the type of its kind; it is nil where there is
// none, or none for this user.
func getAs[T any](ctx context.Context, s *session, r schema.GroupVersionResource, namespace, name string) (*T, error) {
	u, err := s.api.Get(ctx, r, namespace, name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, reached(s.server, err)
	}
	return as[T](u)
}
