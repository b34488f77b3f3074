package drift

import (
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"golang.org/x/sync/errgroup"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/health"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// lookers is the number of live objects that are read at once.
const lookers = 8

// view is what was seen of the live objects of one revision of a release.
type view struct {
	id        release.ID
	revision  int
	rules     rules
	objects   map[ref]*seen
	crds      []report.Object // of crds folders: shown, and never drift
	at        time.Time       // when all objects were looked at
	whole     bool            // all objects were looked at for this view
	unwatched bool            // a kind could not be watched yet
}

// rules are the parts of the options that objects are judged by.
type rules struct {
	patches []fleet.ComparePatch
	ignored []map[string]string
}

// rulesOf returns the rules of a deployment's options.
func rulesOf(o fleet.BundleDeploymentOptions) rules {
	out := rules{ignored: o.Conditions}
	if o.Diff != nil {
		out.patches = o.Diff.ComparePatches
	}
	return out
}

// seen is one live object as it was judged last.
type seen struct {
	object report.Object
	mark   drift.Mark // zero if it is missing
	keys   drift.Keys
	looked time.Time
	owner  release.ID // that the object is marked with; zero if none
	marked bool       // by a Fleet agent
}

// list returns the state of all objects.
func (v *view) list() []report.Object {
	out := make([]report.Object, 0, len(v.objects))
	for _, s := range v.objects {
		out = append(out, s.object)
	}
	return append(out, v.crds...)
}

// Inspect checks the live objects of a release: all of them for a new revision or after
// a long time, else those that have changed.
func (m *Monitor) Inspect(ctx context.Context, rel Release) ([]report.Object, error) {
	d := m.deploymentOf(rel.Name)
	all, dirty := m.takeDirty(d)
	v, err := m.readView(ctx, rel, d, all, dirty)
	if err != nil {
		m.restoreDirty(d, all, dirty)
		return nil, err
	}
	m.storeView(rel.Name, d, v)
	if v == nil {
		m.watches.Set(rel.Name, nil)
		return nil, nil
	}
	return v.list(), nil
}

// readView makes a new view of the objects in dirty, or of all; nil if there is no
// release.
func (m *Monitor) readView(ctx context.Context, rel Release, d *deployment, all bool, dirty map[ref]bool) (*view, error) {
	if rel.Observed.Good == 0 {
		return nil, nil
	}
	old, want := d.view, rulesOf(rel.Spec.Options)
	now := m.cfg.Now()
	fresh := all || old == nil || old.id != rel.Observed.ID || old.revision != rel.Observed.Good ||
		!reflect.DeepEqual(old.rules, want) || now.Sub(old.at) >= LookAgain
	if !fresh && len(dirty) == 0 {
		return old, nil
	}
	if err := m.cfg.Helm.Complete(ctx, rel.Observed); err != nil {
		return nil, err
	}
	wanted, err := drift.Objects(rel.Observed.Manifest)
	if err != nil {
		return nil, reconcile.TerminalError("UnreadableManifest", err)
	}
	v := &view{id: rel.Observed.ID, revision: rel.Observed.Good, rules: want, objects: map[ref]*seen{}}
	var look []*unstructured.Unstructured
	for _, o := range wanted {
		at, err := locate(ctx, m.cfg.Live, o, rel.Observed.ID.Namespace)
		if err != nil {
			return nil, err
		}
		if !fresh && !dirty[at] && old.objects[at] != nil {
			v.objects[at] = old.objects[at]
			continue
		}
		look = append(look, o)
	}
	if v.at, v.whole = now, fresh; fresh {
		// Watches are open before the first look, so that no change is missed.
		v.unwatched = !m.watchKinds(ctx, rel.Name, wanted)
	} else {
		v.at, v.unwatched = old.at, old.unwatched
	}
	j := judgement{
		expected: drift.Expected{SetHash: m.setHash(rel.Name), Patches: want.patches}, ignored: want.ignored,
		hide: redactorOf(*rel.Observed, wanted), kinds: m.cfg.Live, now: m.cfg.Now, before: differencesBefore(rel, d),
	}
	reader, err := m.reader(ctx, rel)
	if err != nil {
		return nil, err
	}
	found, err := j.readAndJudge(ctx, reader, look)
	if err != nil {
		return nil, err
	}
	for i, o := range look {
		v.objects[ref{kind: o.GroupVersionKind(), key: kube.KeyOf(o)}] = found[i]
	}
	if !fresh {
		v.crds = old.crds
		return v, nil
	}
	v.crds, err = crdsOf(ctx, reader, rel.Observed.CRDs, v.objects)
	return v, err
}

// locate sets the namespace of an object of a manifest, and returns its reference. An
// object of an unknown kind stays as it is: it cannot exist.
func locate(ctx context.Context, live Live, o *unstructured.Unstructured, namespace string) (ref, error) {
	namespaced, err := live.ScopeOf(ctx, o.GroupVersionKind())
	if err != nil && !reconcile.IsRequeue(err) {
		return ref{}, err
	}
	switch {
	case err == nil && !namespaced:
		o.SetNamespace("")
	case err == nil && o.GetNamespace() == "":
		o.SetNamespace(namespace)
	}
	return ref{kind: o.GroupVersionKind(), key: kube.KeyOf(o)}, nil
}

// watchKinds opens the watches for a deployment's objects; false: a kind is not served
// yet.
func (m *Monitor) watchKinds(ctx context.Context, name string, objs []*unstructured.Unstructured) bool {
	set := map[schema.GroupVersionKind]bool{}
	var kinds []schema.GroupVersionKind
	served := true
	for _, o := range objs {
		k := o.GroupVersionKind()
		if !set[k] {
			set[k] = true
			kinds = append(kinds, k)
			if _, err := m.cfg.Live.ScopeOf(ctx, k); err != nil {
				served = false
			}
		}
	}
	m.watches.Set(name, kinds)
	return served
}

// judgement is how live objects are judged.
type judgement struct {
	expected drift.Expected
	ignored  []map[string]string
	hide     redact.Redactor
	kinds    Live // of the cluster
	now      func() time.Time
	before   []fleet.ModifiedStatus // what was found the last time
}

// differencesBefore returns the differences that the last check of this process found,
// else those that the status reports.
func differencesBefore(rel Release, d *deployment) []fleet.ModifiedStatus {
	if d.view != nil {
		return modified(d.view.list())
	}
	return rel.Reported
}

// redactorOf returns a redactor that removes the Helm values of a release from texts,
// except the names of its objects.
func redactorOf(o release.Observed, objs []*unstructured.Unstructured) redact.Redactor {
	keep := []string{o.ID.Name, o.ID.Namespace}
	for _, obj := range objs {
		keep = append(keep, obj.GetKind(), obj.GetName(), obj.GetNamespace())
	}
	return redact.New(keep, o.Values)
}

// readAndJudge reads the live objects of a manifest and compares them.
func (j judgement) readAndJudge(ctx context.Context, live Reader, objs []*unstructured.Unstructured) ([]*seen, error) {
	j.expected.Hide = j.hide.Text
	out := make([]*seen, len(objs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, o := range objs {
		group.Go(func() error {
			looked := j.now()
			found, err := live.Get(ctx, o.GroupVersionKind(), kube.KeyOf(o))
			if err != nil && !kube.IsGone(err) && !reconcile.IsRequeue(err) {
				return fmt.Errorf("look at the release: %w", err)
			}
			out[i] = j.judgeObject(ctx, o, found)
			out[i].looked = looked
			return nil
		})
	}
	return out, group.Wait()
}

// judgeObject compares one live object, nil if it is missing, with the desired one.
func (j judgement) judgeObject(ctx context.Context, wanted, live *unstructured.Unstructured) *seen {
	out := &seen{keys: drift.KeysOf(wanted), object: report.Object{
		Kind: wanted.GetKind(), APIVersion: wanted.GetAPIVersion(), Namespace: wanted.GetNamespace(), Name: wanted.GetName(),
	}}
	j.expected.Schema = func() map[string]any { return schemaOf(ctx, j.kinds, wanted.GroupVersionKind()) }
	if m, modified := j.expected.Compare(wanted, live); modified {
		drift.KeepTimes(&m, j.before)
		out.object.Modified = &m
	}
	if live == nil {
		return out
	}
	out.object.CreatedAt = metav1.NewTime(live.GetCreationTimestamp().UTC())
	out.mark = drift.MarkOf(live, out.keys)
	out.owner, out.marked = helm.OwnerOf(live), live.GetAnnotations()[fleet.AnnotationObjectSetID] != ""
	pruned := health.WithoutConditions(live, j.ignored)
	shown := kube.Summarize(pruned)
	n, ready := health.Assess(pruned, fleet.Summary{
		State: shown.State, Error: shown.Error, Transitioning: shown.Transitioning, Message: shown.Message,
	})
	if ready {
		return out
	}
	for i, text := range n.Summary.Message {
		n.Summary.Message[i] = j.hide.Text(text)
	}
	out.object.NonReady = &n
	return out
}

// schemaOf returns the schema of a custom resource; nil if it has none or cannot be
// read.
func schemaOf(ctx context.Context, live Live, kind schema.GroupVersionKind) map[string]any {
	kinds, ok := live.(interface {
		CRDOf(ctx context.Context, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error)
	})
	if !ok {
		return nil
	}
	crd, err := kinds.CRDOf(ctx, kind)
	if err != nil {
		return nil
	}
	return drift.SchemaOf(crd.Object, kind.Version)
}
