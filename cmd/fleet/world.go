package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// gathering is how long news is collected before it is looked at, so that what
// belongs together is told together.
const gathering = 50 * time.Millisecond

// controllerLease is the lease of the process that rolls out.
const controllerLease = "fleet-controller-leader-election-shard"

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// world is a fleet as it changes.
type world interface {
	// Fleet is the fleet as it is now.
	Fleet() view.Fleet
	// Next returns when it has changed, with ctx's error when that ends before.
	Next(ctx context.Context) error
}

// look reads a fleet once, without deployments.
func (s *session) look(ctx context.Context) (view.Fleet, error) {
	var f view.Fleet
	var err error
	if f.Clusters, err = listAs[fleet.Cluster](ctx, s, mustKind("clusters"), ""); err != nil {
		return f, err
	}
	if f.Bundles, err = listAs[fleet.Bundle](ctx, s, mustKind("bundles"), ""); err != nil {
		return f, err
	}
	f.Repositories, err = listAs[fleet.GitRepo](ctx, s, mustKind("repos"), "")
	return f, err
}

// manager reads what can be seen of the manager.
func (s *session) manager(ctx context.Context) (view.Manager, error) {
	config, err := getAs[corev1.ConfigMap](ctx, s, configMaps, s.system, fleet.ConfigMapController)
	if err != nil {
		return view.Manager{}, err
	}
	installation, err := getAs[corev1.ConfigMap](ctx, s, configMaps, s.system, fleet.ConfigMapInstallation)
	if err != nil {
		return view.Manager{}, err
	}
	lease, err := getAs[coordinationv1.Lease](ctx, s, leases, s.system, controllerLease)
	return view.ReadManager(config, installation, lease, s.now()), err
}

// watched is a world that watches an API server.
type watched struct {
	mu          sync.Mutex
	repos       map[string]*fleet.GitRepo
	bundles     map[string]*fleet.Bundle
	clusters    map[string]*fleet.Cluster
	deployments map[string]*fleet.BundleDeployment
	news        chan struct{} // holds one note at most
	failed      chan error
}

// watch opens a world within -n, with the deployments that a label selector
// matches, and returns when all of it is there. It ends with ctx.
func (s *session) watch(ctx context.Context, deployments string) (*watched, error) {
	w := &watched{
		repos: map[string]*fleet.GitRepo{}, bundles: map[string]*fleet.Bundle{}, clusters: map[string]*fleet.Cluster{},
		deployments: map[string]*fleet.BundleDeployment{}, news: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	var synced sync.WaitGroup
	for _, part := range []struct {
		kind   string
		labels string
		tell   func(change)
	}{
		{"repos", "", keep(w, w.repos)},
		{"bundles", "", keep(w, w.bundles, "resources", "targets", "targetRestrictions")},
		{"clusters", "", keep(w, w.clusters)},
		{"deployments", deployments, keep(w, w.deployments, "options", "stagedOptions")},
	} {
		qs, err := s.wide(ctx, mustKind(part.kind), part.labels)
		if err != nil {
			return nil, err
		}
		for _, q := range qs {
			synced.Add(1)
			go func() {
				done := sync.OnceFunc(synced.Done)
				defer done()
				err := follow(ctx, s.api, q, func(c change) {
					if c.object == nil {
						done()
						return
					}
					part.tell(c)
				}, s.trouble)
				if err != nil {
					w.fail(reached(s.server, err))
				}
			}()
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

func (w *watched) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// keep stores objects of one kind as they change, without these fields of their
// spec. An object that cannot be read counts as absent.
func keep[T any](w *watched, into map[string]*T, drop ...string) func(change) {
	return func(c change) {
		key := keyText(c.object)
		c.object.SetManagedFields(nil)
		for _, field := range drop {
			unstructured.RemoveNestedField(c.object.Object, "spec", field)
		}
		o, err := as[T](c.object)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil || c.kind == watch.Deleted {
			delete(into, key)
		} else {
			into[key] = o
		}
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

func (w *watched) Fleet() view.Fleet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view.Fleet{
		Repositories: values(w.repos), Bundles: values(w.bundles), Clusters: values(w.clusters), Deployments: values(w.deployments),
	}
}

func values[T any](m map[string]*T) []*T {
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

func (w *watched) Next(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-w.failed:
		return err
	case <-w.news:
	}
	select {
	case <-ctx.Done():
	case <-time.After(gathering):
	}
	select {
	case <-w.news:
	default:
	}
	return nil
}

// keysNamed are the objects of a name, in order, and all there are.
func keysNamed[T metav1.Object](list []T, name string) (hits, all []view.Key) {
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
