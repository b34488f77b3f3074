package client

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// gathering is how long changes are collected before they are looked at, so that
// related changes are reported together.
const gathering = 50 * time.Millisecond

// ControllerLease is the lease of the process that rolls out.
const ControllerLease = "fleet-controller-leader-election-shard"

// Leases are the Leases of managers.
var Leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// FleetWatch is a fleet as it changes.
type FleetWatch interface {
	// Fleet returns the fleet as it was last reported. Its lists are of different
	// moments: one may show a commit that another does not have yet.
	Fleet() view.Fleet
	// Ordered reads the fleet again in order, so that its lists prove something of each
	// other.
	Ordered(ctx context.Context) (view.Fleet, error)
	// Next returns when it has changed, with ctx's error when that ends before.
	Next(ctx context.Context) error
}

// A Selection is what of a fleet is looked at, as label selectors; empty ones
// exclude nothing.
type Selection struct {
	Bundles, Deployments string
	HelmOps              bool // HelmOps are looked at
	// HelmOpsIfServed is HelmOps for commands that do without: a cluster may lack the kind,
	// and a user may not list it.
	HelmOpsIfServed bool
}

// ReadFleet reads a fleet once, in order and without deployments. It has no HelmOps where
// the cluster lacks the kind, or the user may not list it.
func (s *Session) ReadFleet(ctx context.Context) (view.Fleet, error) {
	f := view.Fleet{Ordered: true}
	var err error
	if f.Clusters, err = ListAs[fleet.Cluster](ctx, s, cli.MustKind("clusters"), ""); err != nil {
		return f, err
	}
	if f.Repositories, err = ListAs[fleet.GitRepo](ctx, s, cli.MustKind("repos"), ""); err != nil {
		return f, err
	}
	f.HelmOps, err = ListAs[fleet.HelmOp](ctx, s, cli.MustKind("helmops"), "")
	if f.HelmOpsHidden = apierrors.IsForbidden(err); err != nil && !isUnlisted(err) {
		return f, err
	}
	f.Bundles, err = ListAs[fleet.Bundle](ctx, s, cli.MustKind("bundles"), "")
	return f, err
}

// isUnlisted reports whether a list failed because the cluster lacks the kind, or because
// the user may not list it.
func isUnlisted(err error) bool {
	return apierrors.IsForbidden(err) || UnknownResource(err)
}

// Manager reads what can be seen of the manager.
func (s *Session) Manager(ctx context.Context) (view.Manager, error) {
	config, err := GetAs[corev1.ConfigMap](ctx, s, ConfigMaps, s.System, fleet.ConfigMapController)
	if err != nil {
		return view.Manager{}, err
	}
	installation, err := GetAs[corev1.ConfigMap](ctx, s, ConfigMaps, s.System, fleet.ConfigMapInstallation)
	if err != nil {
		return view.Manager{}, err
	}
	lease, hidden, err := s.lease(ctx, "")
	if err != nil {
		return view.Manager{}, err
	}
	reads, err := GetAs[coordinationv1.Lease](ctx, s, Leases, s.System, ReaderLease)
	m := view.ReadManager(config, installation, lease, s.Now()).WithCrashes("gitjob", reads, s.Now())
	m.Hidden = hidden
	return m, err
}

// ManagerOf reads the lease of the manager of a shard; "" is the default one.
func (s *Session) ManagerOf(ctx context.Context, shard string) (view.Manager, error) {
	lease, hidden, err := s.lease(ctx, shard)
	m := view.ReadManager(nil, nil, lease, s.Now())
	m.Shard, m.Hidden = shard, hidden
	return m, err
}

// Shards reads the leases of the managers of all shards that objects of a fleet belong
// to.
func (s *Session) Shards(ctx context.Context, f view.Fleet) (map[string]view.Manager, error) {
	out := map[string]view.Manager{}
	for _, id := range view.ShardsOf(f) {
		m, err := s.ManagerOf(ctx, id)
		if err != nil {
			return nil, err
		}
		out[id] = m
	}
	return out, nil
}

// lease returns the lease of the manager of a shard: nil where there is none. hidden
// reports that this user may not read it.
func (s *Session) lease(ctx context.Context, shard string) (lease *coordinationv1.Lease, hidden bool, err error) {
	u, err := s.API.Get(ctx, Leases, s.System, scope.Scope{Shard: shard}.Lease(ControllerLease))
	switch {
	case apierrors.IsForbidden(err):
		return nil, true, nil
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, DescribeServerError(s.Server, err)
	}
	lease, err = Convert[coordinationv1.Lease](u)
	return lease, false, err
}

// NoteSilentManager prints a note if the manager has not renewed its lease for longer than the
// lease allows: then what it wrote may be old.
func (s *Session) NoteSilentManager(m view.Manager) {
	if text := m.Unmanaged(); text != "" {
		s.Std.Note("%s: this may be old", text)
	} else if m.IsGone() {
		s.Std.Note("the manager was last heard %s ago: this may be old", view.Ago(*m.LastSign, s.Now()))
	}
}

// Absence returns a text that names the first shard whose manager does not run; the shard
// "" is the default manager. The text is empty if all run, or if that is unknown.
func (s *Session) Absence(ctx context.Context, shards ...string) (string, error) {
	for _, id := range printer.Unique(shards) {
		m, err := s.ManagerOf(ctx, id)
		if err != nil {
			return "", err
		}
		if text := m.Absence(s.Now()); text != "" {
			return text, nil
		}
	}
	return "", nil
}

// WatchedFleet is a world that watches an API server.
type WatchedFleet struct {
	s           *Session
	parts       []watchedKind // in the order in which Ordered reads them
	mu          sync.Mutex
	repos       map[string]*fleet.GitRepo
	helmOps     map[string]*fleet.HelmOp
	bundles     map[string]*fleet.Bundle
	clusters    map[string]*fleet.Cluster
	deployments map[string]*fleet.BundleDeployment
	hidden      bool          // the user may not list HelmOps
	changes     chan struct{} // holds one note at most
	failed      chan error
}

// A watchedKind of a world is one kind of objects.
type watchedKind struct {
	kind    string
	labels  string
	report  func(Change)
	read    func(*view.Fleet, []*unstructured.Unstructured)
	queries []Query
}

// Watch opens a world within -n, with what is selected, and returns when all of it
// is there. It ends with ctx.
func (s *Session) Watch(ctx context.Context, of Selection) (*WatchedFleet, error) {
	w := &WatchedFleet{
		s: s, repos: map[string]*fleet.GitRepo{}, helmOps: map[string]*fleet.HelmOp{}, bundles: map[string]*fleet.Bundle{}, clusters: map[string]*fleet.Cluster{},
		deployments: map[string]*fleet.BundleDeployment{}, changes: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	if of.HelmOps || of.HelmOpsIfServed {
		w.parts = []watchedKind{{
			kind: "helmops", report: keepObjects(w, w.helmOps, helmOpLoad...),
			read: readInto(func(f *view.Fleet) *[]*fleet.HelmOp { return &f.HelmOps }, helmOpLoad...),
		}}
	}
	w.parts = append(w.parts, []watchedKind{
		{kind: "repos", report: keepObjects(w, w.repos), read: readInto(func(f *view.Fleet) *[]*fleet.GitRepo { return &f.Repositories })},
		{
			kind: "bundles", labels: of.Bundles, report: keepObjects(w, w.bundles, bundleLoad...),
			read: readInto(func(f *view.Fleet) *[]*fleet.Bundle { return &f.Bundles }, bundleLoad...),
		},
		{
			kind: "deployments", labels: of.Deployments, report: keepObjects(w, w.deployments, deploymentLoad...),
			read: readInto(func(f *view.Fleet) *[]*fleet.BundleDeployment { return &f.Deployments }, deploymentLoad...),
		},
		{kind: "clusters", report: keepObjects(w, w.clusters), read: readInto(func(f *view.Fleet) *[]*fleet.Cluster { return &f.Clusters })},
	}...)
	var synced sync.WaitGroup
	for i := range w.parts {
		p := &w.parts[i]
		var err error
		p.queries, err = s.QueriesFor(ctx, cli.MustKind(p.kind), p.labels)
		if p.kind == "helmops" && of.HelmOpsIfServed {
			err = w.leaveOut(ctx, p, err)
		}
		if err != nil {
			return nil, err
		}
		for _, q := range p.queries {
			synced.Add(1)
			go w.follow(ctx, q, p.report, sync.OnceFunc(synced.Done))
		}
	}
	synced.Wait()
	select {
	case err := <-w.failed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
		return w, nil
	}
}

// leaveOut takes the queries off a part that the user may not list, or that the cluster
// lacks. err is that of making the queries; within -n that sends no request.
func (w *WatchedFleet) leaveOut(ctx context.Context, p *watchedKind, err error) error {
	if err == nil && w.s.Scope != "" {
		_, err = w.s.API.List(ctx, p.queries[0], Page{Limit: 1})
	}
	if err == nil || !isUnlisted(err) {
		return DescribeServerError(w.s.Server, err)
	}
	p.queries, w.hidden = nil, apierrors.IsForbidden(err)
	return nil
}

// follow keeps what a query selects, until ctx ends. It calls synced when all of it
// is there, or cannot be had.
func (w *WatchedFleet) follow(ctx context.Context, q Query, report func(Change), synced func()) {
	defer synced()
	err := followQuery(ctx, w.s.API, q, func(c Change) {
		if c.Object == nil {
			synced()
			return
		}
		report(c)
	}, w.s.NoteWatchError)
	if err != nil {
		w.fail(DescribeServerError(w.s.Server, err))
	}
}

// Ordered lists the kinds one after the other, each as the API server has it when it
// is asked. The manager and the agents write a status after what it speaks of, so each
// list shows all that the ones before speak of.
func (w *WatchedFleet) Ordered(ctx context.Context) (view.Fleet, error) {
	f := view.Fleet{Ordered: true}
	for _, p := range w.parts {
		for _, q := range p.queries {
			items, err := w.s.ListAll(ctx, q)
			if err != nil {
				return view.Fleet{}, err
			}
			p.read(&f, items)
		}
	}
	return f, nil
}

// Large fields of a spec that are not needed.
var (
	helmOpLoad     = []string{"targets"}
	bundleLoad     = []string{"resources", "targets", "targetRestrictions"}
	deploymentLoad = []string{"options", "stagedOptions"}
)

// stripFields drops from an object what is not looked at.
func stripFields(o *unstructured.Unstructured, drop []string) {
	if PauseOf(o) == nil { // else they say who has paused it
		o.SetManagedFields(nil)
	}
	for _, field := range drop {
		unstructured.RemoveNestedField(o.Object, "spec", field)
	}
}

// readInto adds objects to one list of a fleet, without these fields of their spec. One
// that cannot be read is treated as absent, as for keep.
func readInto[T any](list func(*view.Fleet) *[]*T, drop ...string) func(*view.Fleet, []*unstructured.Unstructured) {
	return func(f *view.Fleet, items []*unstructured.Unstructured) {
		to := list(f)
		for _, item := range items {
			stripFields(item, drop)
			if o, err := Convert[T](item); err == nil {
				*to = append(*to, o)
			}
		}
	}
}

func (w *WatchedFleet) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// keepObjects stores objects of one kind as they change, without these fields of their spec.
// An object that cannot be read is treated as absent.
func keepObjects[T any](w *WatchedFleet, into map[string]*T, drop ...string) func(Change) {
	return func(c Change) {
		key := KeyText(c.Object)
		stripFields(c.Object, drop)
		o, err := Convert[T](c.Object)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil || c.Kind == watch.Deleted {
			delete(into, key)
		} else {
			into[key] = o
		}
		select {
		case w.changes <- struct{}{}:
		default:
		}
	}
}

// Fleet returns the fleet as it was last reported.
func (w *WatchedFleet) Fleet() view.Fleet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view.Fleet{
		Repositories: mapValues(w.repos), HelmOps: mapValues(w.helmOps), Bundles: mapValues(w.bundles), Clusters: mapValues(w.clusters), Deployments: mapValues(w.deployments),
		HelmOpsHidden: w.hidden,
	}
}

func mapValues[T any](m map[string]*T) []*T {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]*T, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out
}

// Next returns when the fleet has changed, with the error of ctx when that ends before.
func (w *WatchedFleet) Next(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-w.failed:
		return err
	case <-w.changes:
	}
	select {
	case <-ctx.Done():
	case <-time.After(gathering):
	}
	select {
	case <-w.changes:
	default:
	}
	return nil
}

// KeysNamed are the objects of a name, in order, and all there are.
func KeysNamed[T metav1.Object](list []T, name string) (hits, all []view.Key) {
	for _, o := range list {
		key := view.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
		all = append(all, key)
		if o.GetName() == name {
			hits = append(hits, key)
		}
	}
	slices.SortFunc(hits, func(a, b view.Key) int { return strings.Compare(a.String(), b.String()) })
	return hits, all
}

// ReaderLease is the lease of the process that reads repositories.
const ReaderLease = "fleet-gitops-leader-election-shard"

// HelmOpsLease is the lease of the process that works on HelmOps.
const HelmOpsLease = "fleet-helmops-leader-election-shard"
