package deploy

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"golang.org/x/sync/errgroup"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/health"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// lookers is how many live objects are read at once.
const lookers = 8

// view is what was seen of the live objects of one revision of a release.
type view struct {
	id        release.ID
	revision  int
	rules     rules
	objects   map[ref]*seen
	unwatched bool // a kind could not be watched yet
}

// rules are the parts of the options that objects are judged by.
type rules struct {
	patches []fleet.ComparePatch
	ignored []map[string]string
}

func rulesOf(o fleet.BundleDeploymentOptions) rules {
	out := rules{ignored: o.Conditions}
	if o.Diff != nil {
		out.patches = o.Diff.ComparePatches
	}
	return out
}

// seen is one live object as it was judged last.
type seen struct {
	object  report.Object
	version uint64 // resourceVersion; 0 if it is missing
}

// mustLook tells whether a change of a live object is news.
func (v *view) mustLook(at ref, version string) bool {
	s, ours := v.objects[at]
	if !ours {
		return false
	}
	n, err := strconv.ParseUint(version, 10, 64)
	return err != nil || n > s.version
}

// list is what was found of all objects.
func (v *view) list() []report.Object {
	out := make([]report.Object, 0, len(v.objects))
	for _, s := range v.objects {
		out = append(out, s.object)
	}
	return out
}

// inspect looks at the live objects of a release: at all of them when there is
// a new revision or a long time has passed, else at those that changed.
func (r *Reconciler) inspect(ctx context.Context, s *snapshot) ([]report.Object, error) {
	if s.observed.Good == 0 {
		r.watches.Set(s.name, nil)
		r.take(s.state)
		r.keep(s.state, nil)
		return nil, nil
	}
	all, dirty := r.take(s.state)
	old := s.state.view
	want := rulesOf(s.spec.Options)
	fresh := all || old == nil || old.id != s.observed.ID || old.revision != s.observed.Good || !reflect.DeepEqual(old.rules, want)
	if !fresh && len(dirty) == 0 {
		return old.list(), nil
	}
	wanted, err := drift.Objects(s.observed.Manifest)
	if err != nil {
		return nil, fault.PermanentError("UnreadableManifest", err)
	}
	v := &view{id: s.observed.ID, revision: s.observed.Good, rules: want, objects: map[ref]*seen{}}
	var look []*unstructured.Unstructured
	for _, o := range wanted {
		at, err := locate(ctx, r.cfg.Live, o, s.observed.ID.Namespace)
		if err != nil {
			return nil, err
		}
		if !fresh && !dirty[at] && old.objects[at] != nil {
			v.objects[at] = old.objects[at]
			continue
		}
		look = append(look, o)
	}
	if fresh {
		// Watches are open before the first look, so that no change is missed.
		v.unwatched = !r.watchKinds(s.name, wanted)
	} else {
		v.unwatched = old.unwatched
	}
	found, err := lookAt(ctx, r.cfg.Live, r.setHash(s.name), want, look)
	if err != nil {
		r.remember(s.state, all, dirty)
		return nil, err
	}
	for i, o := range look {
		v.objects[ref{kind: o.GroupVersionKind(), key: kube.KeyOf(o)}] = found[i]
	}
	r.keep(s.state, v)
	return v.list(), nil
}

// take empties the list of objects to look at.
func (r *Reconciler) take(st *state) (all bool, dirty map[ref]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, dirty = st.all, st.dirty
	st.all, st.dirty = false, map[ref]bool{}
	return all, dirty
}

// remember puts back what could not be looked at.
func (r *Reconciler) remember(st *state, all bool, dirty map[ref]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.all = st.all || all
	for at := range dirty {
		st.dirty[at] = true
	}
}

func (r *Reconciler) keep(st *state, v *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.view = v
}

// locate sets the namespace that an object of a manifest ends up in. An object
// of an unknown kind stays as it is: it cannot exist.
func locate(ctx context.Context, live *kube.Live, o *unstructured.Unstructured, namespace string) (ref, error) {
	if o.GetNamespace() == "" {
		namespaced, err := live.ScopeOf(ctx, o.GroupVersionKind())
		if err != nil && !fault.IsWait(err) {
			return ref{}, err
		}
		if err == nil && namespaced {
			o.SetNamespace(namespace)
		}
	}
	return ref{kind: o.GroupVersionKind(), key: kube.KeyOf(o)}, nil
}

// watchKinds opens the watches for a deployment's objects. It is false if a
// kind is not served yet.
func (r *Reconciler) watchKinds(name string, objs []*unstructured.Unstructured) bool {
	set := map[schema.GroupVersionKind]bool{}
	var kinds []schema.GroupVersionKind
	served := true
	for _, o := range objs {
		k := o.GroupVersionKind()
		if !set[k] {
			set[k] = true
			kinds = append(kinds, k)
			if _, err := r.cfg.Live.ScopeOf(context.Background(), k); err != nil {
				served = false
			}
		}
	}
	r.watches.Set(name, kinds)
	return served
}

// lookAt reads the live objects of a manifest and judges them.
func lookAt(ctx context.Context, live *kube.Live, set string, by rules, objs []*unstructured.Unstructured) ([]*seen, error) {
	expected := drift.Expected{SetHash: set, Patches: by.patches}
	out := make([]*seen, len(objs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, o := range objs {
		group.Go(func() error {
			found, err := live.Get(ctx, o.GroupVersionKind(), kube.KeyOf(o))
			if err != nil && !kube.IsGone(err) && !fault.IsWait(err) {
				return fmt.Errorf("look at the release: %w", err)
			}
			out[i] = judge(expected, by.ignored, o, found)
			return nil
		})
	}
	return out, group.Wait()
}

// judge compares one live object, nil if it is missing, with the wanted one.
func judge(expected drift.Expected, ignored []map[string]string, wanted, live *unstructured.Unstructured) *seen {
	out := &seen{object: report.Object{
		Kind: wanted.GetKind(), APIVersion: wanted.GetAPIVersion(), Namespace: wanted.GetNamespace(), Name: wanted.GetName(),
	}}
	if m, modified := expected.Compare(wanted, live); modified {
		out.object.Modified = &m
	}
	if live == nil {
		return out
	}
	out.object.CreatedAt = metav1.NewTime(live.GetCreationTimestamp().UTC())
	out.version, _ = strconv.ParseUint(live.GetResourceVersion(), 10, 64)
	pruned := health.Without(live, ignored)
	shown := kube.Summarize(pruned)
	n, ready := health.Of(pruned, fleet.Summary{
		State: shown.State, Error: shown.Error, Transitioning: shown.Transitioning, Message: shown.Message,
	})
	if !ready {
		out.object.NonReady = &n
	}
	return out
}
