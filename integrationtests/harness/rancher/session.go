package rancher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/apply"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// object is an object of any kind.
type object = unstructured.Unstructured

// errSkip ends a rule's turn without changing what it has generated.
var errSkip = errors.New("skipped")

// A session is Rancher from a start to the next stop.
type session struct {
	*Rancher
	ctx    context.Context
	holder string
	on     map[string]bool // features
	rules  []rule
	caches map[schema.GroupVersionResource]cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[item]
	sets   apply.Apply
	work   sync.WaitGroup
}

// An item is something to look at.
type item struct {
	resource schema.GroupVersionResource
	key      string
}

// byCluster finds provisioning Clusters by their management Cluster.
const byCluster = "cluster"

func newSession(ctx context.Context, t testing.TB, r *Rancher, holder string) (*session, error) {
	sets, err := apply.NewForConfig(r.config)
	if err != nil {
		return nil, err
	}
	s := &session{
		Rancher: r, ctx: ctx, holder: holder, caches: map[schema.GroupVersionResource]cache.SharedIndexInformer{}, sets: sets,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[item](5*time.Millisecond, time.Second)),
	}
	if err := s.startup(t); err != nil {
		return nil, err
	}
	for _, one := range table {
		if !slices.Contains(r.Without, one.id) && (one.feature == "" || s.on[one.feature]) {
			s.rules = append(s.rules, one)
		}
	}
	return s, nil
}

// begin opens the caches and starts to work.
func (s *session) begin() error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(s.objects, 0)
	watched := []schema.GroupVersionResource{Clusters, ProvClusters, Workspaces, Settings, FleetClusters, FleetBundles, FleetHelmOps, ManagedCharts, Namespaces, GlobalRoles, GlobalRoleBindings, ClusterRoles, ClusterRoleBindings}
	for _, r := range watched {
		if slices.Contains(ofFleet, r) && !s.on[featureFleet] {
			continue
		}
		informer := factory.ForResource(r).Informer()
		if r == ProvClusters {
			index := cache.Indexers{byCluster: func(obj any) ([]string, error) { return []string{text(obj.(*object), "status", "clusterName")}, nil }}
			if err := informer.AddIndexers(index); err != nil {
				return err
			}
		}
		if _, err := informer.AddEventHandler(s.events(r)); err != nil {
			return err
		}
		s.caches[r] = informer
	}
	if err := s.renew(); err != nil {
		return err
	}
	factory.Start(s.ctx.Done())
	factory.WaitForCacheSync(s.ctx.Done())
	s.work.Go(s.keepLease)
	s.work.Go(func() {
		for s.turn() {
		}
	})
	s.work.Go(func() {
		<-s.ctx.Done()
		s.queue.ShutDown()
		factory.Shutdown()
	})
	return nil
}

func (s *session) wait() { s.work.Wait() }

func (s *session) events(r schema.GroupVersionResource) cache.ResourceEventHandler {
	add := func(obj any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return
		}
		s.queue.Add(item{r, key})
		s.wakeRoles(r, obj)
		if r == Settings && (key == settingRegistry || key == settingPullSecrets) {
			s.wakeLegacy()
		}
		if r == Clusters { // what belongs to it looks again, the first at least
			if list, _ := s.caches[ProvClusters].GetIndexer().ByIndex(byCluster, key); len(list) > 0 {
				p := list[0].(*object)
				s.queue.Add(item{ProvClusters, p.GetNamespace() + "/" + p.GetName()})
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
}

// wakeLegacy lets the clusters have a turn to which the registry of the settings may apply
// (rancher-differences.md, A 3).
func (s *session) wakeLegacy() {
	if s.caches[ProvClusters] == nil {
		return
	}
	for _, key := range s.caches[ProvClusters].GetIndexer().ListKeys() {
		if _, name, _ := cache.SplitMetaNamespaceKey(key); legacy(name) {
			s.queue.Add(item{ProvClusters, key})
		}
	}
}

// turn looks at one thing; false when the session is over.
func (s *session) turn() bool {
	i, quit := s.queue.Get()
	if quit {
		return false
	}
	defer s.queue.Done(i)
	if s.ctx.Err() != nil {
		return true
	}
	if err := s.look(i); err != nil {
		s.log("%s %s: %v", i.resource.GroupResource(), i.key, err)
		s.queue.AddRateLimited(i)
		return true
	}
	s.queue.Forget(i)
	return true
}

// look lets every rule for a resource have its turn, one after the other: each
// sees what the one before has made of the object.
func (s *session) look(i item) error {
	obj := s.cached(i.resource, i.key)
	var errs []error
	for _, one := range s.rules {
		if one.on != i.resource {
			continue
		}
		if obj == nil {
			errs = append(errs, s.prune(one, i.key))
			continue
		}
		changed, err := one.run(s, obj)
		if err != nil && !errors.Is(err, errSkip) {
			errs = append(errs, fmt.Errorf("%s: %w", one.id, err))
		}
		if changed != nil {
			obj = changed
		}
	}
	return errors.Join(errs...)
}

// cached is a copy of an object as the cache has it; nil if there is none.
func (s *session) cached(r schema.GroupVersionResource, key string) *object {
	found, ok, err := s.caches[r].GetIndexer().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return found.(*object).DeepCopy()
}

// put generates objects for an owner, and prunes what the rule has generated for
// it before.
func (s *session) put(rule string, owner *object, makes []schema.GroupVersionResource, objs ...*object) error {
	return s.putSince("", rule, owner, makes, objs...)
}

// putSince is put that fails with a conflict where a management Cluster is to be
// changed which is not at a version any more; "": it may be at any.
func (s *session) putSince(version, rule string, owner *object, makes []schema.GroupVersionResource, objs ...*object) error {
	list := make([]runtime.Object, 0, len(objs))
	for _, o := range objs {
		list = append(list, o)
	}
	of := s.setOf(rule, makes).WithOwner(owner)
	if version != "" {
		of = of.WithPatcher(kindOf(Clusters), func(_, name string, kind types.PatchType, data []byte) (runtime.Object, error) {
			var patch map[string]any
			if err := json.Unmarshal(data, &patch); err != nil {
				return nil, err
			}
			if err := unstructured.SetNestedField(patch, version, "metadata", "resourceVersion"); err != nil {
				return nil, err
			}
			data, err := json.Marshal(patch)
			if err != nil {
				return nil, err
			}
			return s.objects.Resource(Clusters).Patch(s.ctx, name, kind, data, metav1.PatchOptions{})
		})
	}
	return of.ApplyObjects(list...)
}

// prune removes what a rule has generated for an owner that is gone.
func (s *session) prune(r rule, key string) error {
	if r.makes == nil {
		return nil
	}
	return s.setOf(r.id, r.makes).WithOwnerKey(key, kindOf(r.on)).ApplyObjects()
}

func (s *session) setOf(rule string, makes []schema.GroupVersionResource) apply.Apply {
	kinds := make([]schema.GroupVersionKind, 0, len(makes))
	for _, r := range makes {
		kinds = append(kinds, kindOf(r))
	}
	return s.sets.WithDynamicLookup().WithRateLimiting(100).WithContext(s.ctx).WithGVK(kinds...).WithSetID(rule)
}

// update replaces an object, as Rancher does.
func (s *session) update(r schema.GroupVersionResource, obj *object) (*object, error) {
	return s.objects.Resource(r).Namespace(obj.GetNamespace()).Update(s.ctx, obj, metav1.UpdateOptions{})
}

// updateStatus replaces the status of an object.
func (s *session) updateStatus(r schema.GroupVersionResource, obj *object) (*object, error) {
	return s.objects.Resource(r).Namespace(obj.GetNamespace()).UpdateStatus(s.ctx, obj, metav1.UpdateOptions{})
}

// log writes failures to the log of the test.
func (s *session) log(format string, args ...any) {
	harness.Logger().Warnf("rancher: "+format, args...)
}

// blank makes an object of a resource.
func blank(r schema.GroupVersionResource, namespace, name string) *object {
	obj := &object{Object: map[string]any{}}
	obj.SetGroupVersionKind(kindOf(r))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// text is a field that is a string; "" where there is none.
func text(obj *object, path ...string) string {
	value, _, _ := unstructured.NestedString(obj.Object, path...)
	return value
}

// truth is a field that is a boolean; false where there is none.
func truth(obj *object, path ...string) bool {
	value, _, _ := unstructured.NestedBool(obj.Object, path...)
	return value
}

// field is a copy of a field; nil where there is none.
func field(obj *object, path ...string) any {
	value, _, _ := unstructured.NestedFieldCopy(obj.Object, path...)
	return value
}

// set sets a field, unless value is nil.
func set(obj *object, value any, path ...string) {
	if value == nil {
		return
	}
	if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
		panic(err) // a fault of the test: some part of the path is no map
	}
}

// clean are the labels or annotations that travel from one object to another.
func clean(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if !strings.HasPrefix(k, "kubectl.kubernetes.io/") && !strings.Contains(k, "cattle.io/") {
			out[k] = v
		}
	}
	return out
}
