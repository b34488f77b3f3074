package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
	planreading "github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// clock is a clock that only tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// A step is what has become of a fleet at one moment: objects that are new or
// changed, and keys of those that are gone.
type step struct {
	after   time.Duration // since the beginning
	objects []*unstructured.Unstructured
	gone    []string
}

// A scenario is what a file of objects says.
type scenario struct {
	start time.Time
	steps []step
}

// scenarios are those that were read, by their absolute paths: many tests begin with the
// same, and to read YAML takes many times as long as to copy objects.
var scenarios sync.Map

// readScenario reads a file of objects, divided into steps by documents such as
// {step: 3s}. {gone: Bundle fleet-default/x} removes an object. The caller may change
// the objects.
func readScenario(t *testing.T, path string) (time.Time, []step) {
	t.Helper()
	path, err := filepath.Abs(path) // a test may change the directory
	if err != nil {
		t.Fatal(err)
	}
	read, ok := scenarios.Load(path)
	if !ok {
		start, steps := parseScenario(t, path)
		read, _ = scenarios.LoadOrStore(path, scenario{start, steps})
	}
	s := read.(scenario)
	steps := slices.Clone(s.steps)
	for i := range steps {
		steps[i].objects = slices.Clone(steps[i].objects)
		for j, o := range steps[i].objects {
			steps[i].objects[j] = o.DeepCopy()
		}
	}
	return s.start, steps
}

func parseScenario(t *testing.T, path string) (time.Time, []step) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var start time.Time
	steps := []step{{}}
	for decode := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var doc map[string]any
		if err := decode.Decode(&doc); errors.Is(err, io.EOF) {
			return start, steps
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		last := &steps[len(steps)-1]
		switch {
		case doc == nil:
		case doc["now"] != nil:
			if start, err = time.Parse(time.RFC3339, doc["now"].(string)); err != nil {
				t.Fatal(err)
			}
		case doc["like"] != nil:
			_, base := readScenario(t, filepath.Join(filepath.Dir(path), doc["like"].(string)))
			last.objects = append(last.objects, base[0].objects...)
		case doc["step"] != nil:
			d, err := time.ParseDuration(doc["step"].(string))
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step{after: d})
		case doc["gone"] != nil:
			last.gone = append(last.gone, doc["gone"].(string))
		default:
			last.objects = append(last.objects, &unstructured.Unstructured{Object: normal(t, doc)})
		}
	}
}

// normal is a document as JSON decoding of the Kubernetes client makes it.
func normal(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

// objectKey distinguishes Fleet's Clusters from Rancher's two kinds of that
// name.
func objectKey(u *unstructured.Unstructured) string {
	kind := u.GetKind()
	if group := u.GroupVersionKind().Group; ofRancher(group) {
		kind += "." + group
	}
	return kind + " " + client.KeyText(u)
}

func ofRancher(group string) bool {
	return group == management.Group || group == provisioning.Group
}

// is reports whether an object is of a resource.
func is(o *unstructured.Unstructured, r schema.GroupVersionResource) bool {
	group := o.GroupVersionKind().Group
	return resourceOf(o.GetKind()) == r.Resource && (group == r.Group || !ofRancher(group) && !ofRancher(r.Group))
}

// serves is an error if the API server does not know a resource: Rancher's where it has
// none of them, Fleet's where the cluster is bare or lacks one.
func (f *fake) serves(r schema.GroupVersionResource, name string) error {
	if f.bare && r.Group == fleet.Group {
		return apierrors.NewGenericServerResponse(404, "get", r.GroupResource(), name, "404 page not found", 0, true)
	}
	if r.Group == fleet.Group && r.Resource == f.lacks {
		return apierrors.NewGenericServerResponse(404, "get", r.GroupResource(), name, "404 page not found", 0, true)
	}
	if !ofRancher(r.Group) {
		return nil
	}
	for _, o := range f.held {
		if o.GroupVersionKind().Group == r.Group {
			return nil
		}
	}
	return apierrors.NewNotFound(r.GroupResource(), "")
}

// fake is an API server that holds a scenario. It shows the first step; a watch
// plays the others, and then ends the test's context.
type fake struct {
	t      *testing.T
	clock  *clock
	start  time.Time
	steps  []step
	mu     sync.Mutex // guards held
	held   map[string]*unstructured.Unstructured
	bare   bool            // the kinds of Fleet are not served
	lacks  string          // a resource of Fleet that is not served
	others []string        // contexts of the kubeconfig
	refuse map[string]bool // "<resource> <namespace>": may not be listed
	end    func()
	writes []string
	asked  []string // "list bundles", "get clusters": one for each request
	url    string   // empty: https://127.0.0.1:31001
	failed *diagnose.ConnectionStep
	left   map[string]*fleet.Reading // what the last reading of each GitRepo left
}

func newFake(t *testing.T, path string) *fake {
	start, steps := readScenario(t, path)
	f := &fake{t: t, clock: &clock{at: start}, start: start, steps: steps, held: map[string]*unstructured.Unstructured{}, refuse: map[string]bool{}}
	giveIDs(t, steps[0].objects)
	f.take(step{objects: append(kindsOf(), managerLease())})
	f.take(steps[0])
	return f
}

// managerLease is of a manager that has never led: it is there in every fixture that
// does not say more of its manager.
func managerLease() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": client.Leases.GroupVersion().String(), "kind": "Lease"}}
	u.SetNamespace(fleet.NamespaceSystem)
	u.SetName(client.ControllerLease)
	return u
}

// without removes the manager, or its kinds and all that is of them, or HelmOps alone.
func (f *fake) without(what string) {
	if what == "helmops" {
		f.lacks = what
		return
	}
	f.bare = what == "kinds"
	maps.DeleteFunc(f.held, func(_ string, o *unstructured.Unstructured) bool {
		kind := o.GetKind()
		return kind == "ConfigMap" || kind == "Lease" || f.bare && (o.GroupVersionKind().Group == fleet.Group || kind == "CustomResourceDefinition")
	})
}

func (f *fake) take(s step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range s.objects {
		f.held[objectKey(o)] = o
	}
	for _, key := range s.gone {
		delete(f.held, key)
	}
	f.finish()
}

// finish lets the manager say, of each repository that was read, that the bundles of
// this step are those of its reading, unless the fixture sets its own.
func (f *fake) finish() {
	var bundles []*fleet.Bundle
	for _, o := range f.held {
		if o.GetKind() != "Bundle" {
			continue
		}
		if b, err := client.Convert[fleet.Bundle](o); err == nil {
			bundles = append(bundles, b)
		}
	}
	for _, o := range f.held {
		if o.GetKind() != "GitRepo" {
			continue
		}
		r, err := client.Convert[fleet.GitRepo](o)
		if err != nil || r.Status.Commit == "" || o.GetAnnotations()["test"] == "silent" {
			continue
		}
		var own []*fleet.Bundle
		for _, b := range bundles {
			if b.Namespace == r.Namespace && b.Labels[fleet.LabelRepoName] == r.Name {
				own = append(own, b)
			}
		}
		var gone []string
		for _, b := range own {
			if planreading.IsLeaving(r, b) {
				gone = append(gone, b.Name)
			}
		}
		left := planreading.Next(f.left[objectKey(o)], fleet.Reading{
			Commit: r.Status.Commit, Generation: r.Status.ObservedGeneration, Complete: true,
		}, planreading.Commits(r, own), gone)
		if f.left == nil {
			f.left = map[string]*fleet.Reading{}
		}
		f.left[objectKey(o)] = left
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(left)
		if err != nil {
			f.t.Fatal(err)
		}
		o.Object["status"].(map[string]any)["reading"] = raw
	}
}

// resourceOf is how the API calls a kind.
func resourceOf(kind string) string {
	if plural, _, ok := fleet.Resource(kind); ok {
		return plural
	}
	return strings.ToLower(kind) + "s"
}

func (f *fake) selects(q client.Query, o *unstructured.Unstructured) bool {
	l, s := labels.Everything(), fields.Everything()
	var errLabels, errFields error
	if q.Labels != "" {
		l, errLabels = labels.Parse(q.Labels)
	}
	if q.Fields != "" {
		s, errFields = fields.ParseSelector(q.Fields)
	}
	if err := errors.Join(errLabels, errFields); err != nil {
		f.t.Fatal(err)
	}
	if !is(o, q.Resource) || q.Namespace != "" && q.Namespace != o.GetNamespace() {
		return false
	}
	set := fields.Set{"metadata.name": o.GetName()}
	set["type"], _, _ = unstructured.NestedString(o.Object, "type")
	for _, k := range []string{"apiVersion", "kind", "name"} {
		set["involvedObject."+k], _, _ = unstructured.NestedString(o.Object, "involvedObject", k)
	}
	return l.Matches(labels.Set(o.GetLabels())) && s.Matches(set)
}

func (f *fake) allowed(q client.Query) error {
	if f.refuse[q.Resource.Resource+" "+q.Namespace] {
		return apierrors.NewForbidden(q.Resource.GroupResource(), "", fmt.Errorf("User %q cannot list resource %q", "ana", q.Resource.Resource))
	}
	return nil
}

func (f *fake) List(_ context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "list "+q.Resource.Resource)
	if err := errors.Join(f.allowed(q), f.serves(q.Resource, "")); err != nil {
		return nil, err
	}
	var keys []string
	for key, o := range f.held {
		if f.selects(q, o) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	from, _ := strconv.Atoi(p.From)
	to := len(keys)
	if p.Limit > 0 {
		to = min(to, from+int(p.Limit))
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}}
	for _, key := range keys[from:to] {
		list.Items = append(list.Items, *f.held[key].DeepCopy())
	}
	if rest := int64(len(keys) - to); rest > 0 {
		list.SetContinue(strconv.Itoa(to))
		if q.Labels == "" && q.Fields == "" {
			list.SetRemainingItemCount(&rest)
		}
	}
	return list, nil
}

// Watch plays the steps after the first, until the watch is stopped. Before each event
// the object is sent as it was: that changes nothing, and once it is taken, all events
// before it have been processed, so that the clock may go on.
func (f *fake) Watch(_ context.Context, q client.Query, _ string) (watch.Interface, error) {
	w := newStepWatch()
	go func() {
		defer close(w.events)
		if f.playSteps(q, w) {
			f.end()
			<-w.stopped
		}
	}()
	return w, nil
}

// playSteps sends the steps after the first to a watch, and at last a Bookmark, which
// is taken only after all events before it. It reports whether all of them were taken.
func (f *fake) playSteps(q client.Query, w *stepWatch) bool {
	for i, s := range f.steps[1:] {
		for _, o := range s.objects {
			if !f.selects(q, o) {
				continue
			}
			if old := f.at(objectKey(o)); old != nil && !w.settle(old) {
				return false
			}
			f.clock.set(f.start.Add(s.after))
			o.SetResourceVersion(strconv.Itoa(i + 1))
			f.take(step{objects: []*unstructured.Unstructured{o}})
			if !w.send(watch.Modified, o) {
				return false
			}
		}
		for _, key := range s.gone {
			if o := f.at(key); o != nil && f.selects(q, o) && !w.send(watch.Deleted, o) {
				return false
			}
		}
	}
	list, err := f.List(context.Background(), q, client.Page{Limit: 1})
	return err != nil || len(list.Items) == 0 || w.settle(&list.Items[0])
}

// A stepWatch is a watch of which the sender knows that an event was taken. Only the
// sender closes the channel of events, so that Stop is safe at any time.
type stepWatch struct {
	events  chan watch.Event
	stopped chan struct{}
	stop    func()
}

func newStepWatch() *stepWatch {
	w := &stepWatch{events: make(chan watch.Event), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopped) })
	return w
}

func (w *stepWatch) Stop() { w.stop() }

func (w *stepWatch) ResultChan() <-chan watch.Event { return w.events }

// send reports whether the event was taken before the watch was stopped.
func (w *stepWatch) send(kind watch.EventType, o *unstructured.Unstructured) bool {
	select {
	case <-w.stopped:
		return false
	case w.events <- watch.Event{Type: kind, Object: o.DeepCopy()}:
		return true
	}
}

// settle sends an object that has not changed, and a Bookmark: when that is taken, the
// events before it have been processed.
func (w *stepWatch) settle(o *unstructured.Unstructured) bool {
	return w.send(watch.Modified, o) && w.send(watch.Bookmark, o)
}

func (f *fake) at(key string) *unstructured.Unstructured {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[key]
}

func (f *fake) Get(_ context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "get "+r.Resource)
	if err := f.allowed(client.Query{Resource: r, Namespace: namespace}); err != nil {
		return nil, err
	}
	if err := f.serves(r, name); err != nil && r.Group == fleet.Group {
		return nil, err
	}
	for _, o := range f.held {
		if is(o, r) && o.GetNamespace() == namespace && o.GetName() == name {
			return o.DeepCopy(), nil
		}
	}
	for _, o := range f.held {
		if r == client.Namespaces && o.GetNamespace() == name { // a namespace with objects exists
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}, nil
		}
	}
	return nil, apierrors.NewNotFound(r.GroupResource(), name)
}

func (f *fake) Create(_ context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if r.Resource == "selfsubjectaccessreviews" {
		verb, _, _ := unstructured.NestedString(o.Object, "spec", "resourceAttributes", "verb")
		what, _, _ := unstructured.NestedString(o.Object, "spec", "resourceAttributes", "name")
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"allowed": !f.refuse[verb+" "+what]}}}, nil
	}
	if r.Resource == "selfsubjectreviews" {
		return &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"userInfo": map[string]any{"username": "ana@example"}},
		}}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[objectKey(o)] != nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), o.GetName())
	}
	o = o.DeepCopy()
	o.SetCreationTimestamp(metav1.NewTime(f.clock.now()))
	f.held[objectKey(o)] = o
	f.writes = append(f.writes, "create "+objectKey(o))
	switch r.Resource {
	case "clusterregistrationtokens":
		f.manage(o)
	case "fleetworkspaces":
		f.settle(o.GetName())
	}
	return o.DeepCopy(), nil
}

func (f *fake) Patch(_ context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, o := range f.held {
		if !is(o, r) || o.GetNamespace() != namespace || o.GetName() != name {
			continue
		}
		before, err := o.MarshalJSON()
		if err != nil {
			return nil, err
		}
		after, err := jsonpatch.MergePatch(before, merge)
		if err != nil {
			return nil, err
		}
		now := &unstructured.Unstructured{}
		if err := now.UnmarshalJSON(after); err != nil {
			return nil, err
		}
		f.held[key] = now
		f.writes = append(f.writes, "patch "+key+" "+string(merge))
		f.follow(now)
		return now, nil
	}
	return nil, apierrors.NewNotFound(r.GroupResource(), name)
}

func (f *fake) Delete(_ context.Context, r schema.GroupVersionResource, namespace, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, o := range f.held {
		if is(o, r) && o.GetNamespace() == namespace && o.GetName() == name {
			delete(f.held, key)
			f.writes = append(f.writes, "delete "+key)
			return nil
		}
	}
	return apierrors.NewNotFound(r.GroupResource(), name)
}

func (f *fake) DeleteExactly(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	if have := f.at(objectKey(o)); have != nil && have.GetUID() != o.GetUID() {
		return apierrors.NewConflict(r.GroupResource(), o.GetName(), errors.New("another UID"))
	}
	return f.Delete(ctx, r, o.GetNamespace(), o.GetName())
}

// played is a world that goes from step to step, until the scenario is over.
type played struct {
	f    *fake
	s    *client.Session
	of   client.Selection
	next int
	over func() error
}

func (p *played) Fleet() view.Fleet {
	ctx := context.Background()
	fl, err := p.s.ReadFleet(ctx)
	if err == nil {
		fl.Deployments, err = client.ListAs[fleet.BundleDeployment](ctx, p.s, cli.MustKind("deployments"), "")
	}
	if !p.of.HelmOps && !p.of.HelmOpsIfServed {
		fl.HelmOps = nil
	}
	if err != nil {
		p.f.t.Fatal(err)
	}
	fl.Ordered = false
	return fl
}

func (p *played) Ordered(context.Context) (view.Fleet, error) {
	fl := p.Fleet()
	fl.Ordered = true
	return fl, nil
}

func (p *played) Next(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.next++
	if p.next >= len(p.f.steps) {
		return p.over()
	}
	s := p.f.steps[p.next]
	p.f.clock.set(p.f.start.Add(s.after))
	p.f.take(s)
	return nil
}
