package size_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// sweepWorld is an API server and the engine, whose clock the test moves.
type sweepWorld struct {
	*testing.T
	client   *kube.Client
	contents *kube.Store[*fleet.Content]
	engine   *bundle.Controllers
	registry *registry

	turns atomic.Int64 // of the sweep

	mu  sync.Mutex
	now time.Time
}

func (w *sweepWorld) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// later moves the clock and makes the sweep look at what there is.
func (w *sweepWorld) later(d time.Duration, names ...string) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	for _, name := range names {
		w.sweep().Add(kube.Key{Name: name})
	}
}

func newSweepWorld(t *testing.T) *sweepWorld {
	t.Helper()
	cluster := harness.Memory(t, "sweep")
	client, err := kube.Connect(kube.Config{REST: cluster.REST(), UserAgent: "sweep", FieldManager: fleet.FieldManagerController})
	if err != nil {
		t.Fatal(err)
	}
	w := &sweepWorld{T: t, client: client, contents: kube.StoreOf[*fleet.Content](client), registry: &registry{}, now: time.Now()}
	harness.InstallCRDs(t, client)
	for _, ns := range []string{"ws", "ws2", "c1"} {
		made(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	w.engine = bundle.New(bundle.Config{Namespace: fleet.NamespaceSystem, ManagerID: "us", CheckinInterval: time.Minute,
		Registry: w.registry, Now: w.clock}, client, logrus.NewEntry(log))
	w.sweep().OnDone(func(string, time.Duration) { w.turns.Add(1) })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = kube.Run(ctx, func(loop string, key kube.Key, err error) { t.Log(loop, key, err) }, w.engine.Runnables()...)
	}()
	t.Cleanup(func() { stop(); <-done })
	return w
}

// made creates an object.
func made[P kube.Object](w *sweepWorld, o P) P {
	w.Helper()
	out, err := kube.StoreOf[P](w.client).Create(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func (w *sweepWorld) until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(harness.Timeout); !ok(); {
		if time.Now().After(deadline) {
			w.Fatalf("not in time: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // how often it looks
	}
}

// is waits until there are these contents and no others, by their last words.
func (w *sweepWorld) is(what string, want ...string) {
	w.Helper()
	var diff string
	for deadline := time.Now().Add(harness.Timeout); ; {
		list, err := w.contents.List(w.Context(), "", "")
		if err != nil {
			w.Fatal(err)
		}
		got := []string{}
		for _, c := range list {
			got = append(got, c.Annotations["name"]+strings.TrimPrefix(c.Name, indexName(c)))
		}
		slices.Sort(got)
		if diff = cmp.Diff(want, got); diff == "" {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s\n-want +got\n%s", what, diff)
		}
		time.Sleep(20 * time.Millisecond) // how often it looks
	}
}

func indexName(c *fleet.Content) string {
	if id := c.Labels[fleet.LabelContentOf]; id != "" {
		return id
	}
	return c.Name
}

// put writes a content of 1 MiB in two parts; skip leaves out some of it.
func (w *sweepWorld) put(name, manager string, skip func(c *fleet.Content) bool) (id string, names []string) {
	w.Helper()
	p, err := content.Pack(content.Manifest{Resources: []fleet.BundleResource{{Name: name, Content: noise(len(name), 1<<20)}}})
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range p.Contents() {
		names = append(names, c.Name)
		if skip != nil && skip(c) {
			continue
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Labels[fleet.LabelManagerID], c.Annotations["name"] = manager, name
		made(w, c)
	}
	return p.ID, names
}

// A content that is kept in parts is one: each Bundle that names it and each
// deployment of it holds it. It is removed 10 minutes after the last of them,
// and its parts with it.
func TestContentsAreSwept(t *testing.T) {
	w := newSweepWorld(t)
	part := func(c *fleet.Content) bool { return c.Labels[fleet.LabelContentOf] != "" }
	named, all := w.put("named", "us", nil)
	bundles := kube.StoreOf[*fleet.Bundle](w.client)
	for _, key := range []kube.Key{{Namespace: "ws", Name: "b"}, {Namespace: "ws2", Name: "sharing"}} {
		made(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{fleet.AnnotationContent: named}}})
	}
	held, more := w.put("held", "us", nil)
	all = append(all, more...)
	made(w, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "b2", Labels: map[string]string{
		fleet.LabelBundleName: "b2", fleet.LabelBundleNamespace: "ws", fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "ws"}},
		Spec: fleet.BundleDeploymentSpec{DeploymentID: held + ":x"}})
	for name, skip := range map[string]func(*fleet.Content) bool{
		"unused": nil, "foreign": nil, "orphans": func(c *fleet.Content) bool { return !part(c) }, "touched": nil,
	} {
		manager := "us"
		if name == "foreign" {
			manager = "them"
		}
		_, more := w.put(name, manager, skip)
		all = append(all, more...)
	}
	everything := []string{"foreign", "foreign-0", "foreign-1", "held", "held-0", "held-1", "named", "named-0", "named-1",
		"orphans-0", "orphans-1", "touched", "touched-0", "touched-1", "unused", "unused-0", "unused-1"}
	w.is("all is there", everything...)
	w.until("the engine has seen all", func() bool {
		return len(w.engine.Table().BundlesWithContent(named)) == 2 && w.engine.Table().InUse(held) && len(w.seen()) == len(everything)
	})
	w.settle(all)

	w.later(9*time.Minute+30*time.Second, all...)
	w.is("9.5 minutes are not 10", everything...)
	var touched []string
	for _, c := range everythingOf(w, "touched") {
		touched = append(touched, c.Name)
		if _, err := w.contents.PatchRaw(t.Context(), kube.KeyOf(c), types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+fleet.AnnotationContentRenewed+`":"now"}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(touched)
	w.later(time.Minute, all...)
	w.is("what no object needs is gone, except what a Bundle is about to need",
		"foreign", "foreign-0", "foreign-1", "held", "held-0", "held-1", "named", "named-0", "named-1", "touched", "touched-0", "touched-1")

	for _, err := range []error{
		bundles.Delete(t.Context(), kube.Key{Namespace: "ws", Name: "b"}, kube.Precondition{}),
		kube.StoreOf[*fleet.BundleDeployment](w.client).Delete(t.Context(), kube.Key{Namespace: "c1", Name: "b2"}, kube.Precondition{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.until("one of two names it, and no Bundle holds the other", func() bool {
		return len(w.engine.Table().BundlesWithContent(named)) == 1 && !w.engine.Table().InUse(held)
	})
	w.settle(all)
	w.later(11*time.Minute, all...)
	w.is("what two Bundles share stays as long as one of them", "foreign", "foreign-0", "foreign-1", "named", "named-0", "named-1")

	small := `{"metadata":{"annotations":{"` + fleet.AnnotationContent + `":null}},"spec":{"resources":[{"name":"a.yaml","content":"a: b"}]}}`
	if _, err := bundles.PatchRaw(t.Context(), kube.Key{Namespace: "ws2", Name: "sharing"}, types.MergePatchType, []byte(small)); err != nil {
		t.Fatal(err)
	}
	w.until("no object needs it", func() bool { return !w.engine.Table().InUse(named) })
	w.settle(all)
	w.later(11*time.Minute, all...)
	w.is("all is gone but what another manager made", "foreign", "foreign-0", "foreign-1")
}

// seen are the Contents that the engine knows of.
func (w *sweepWorld) seen() []*metav1.PartialObjectMetadata {
	w.Helper()
	for _, part := range w.engine.Runnables() {
		if c, ok := part.(*kube.Cache[*metav1.PartialObjectMetadata]); ok && c.Name() == "Content" {
			return c.List("")
		}
	}
	w.Fatal("there is no cache of Contents")
	return nil
}

// settle returns when the sweep has looked at everything as it is now.
func (w *sweepWorld) settle(names []string) {
	w.later(0, names...)
	w.until("the sweep has come to rest", func() bool { return w.sweep().Len() == 0 })
	before := w.turns.Load()
	w.later(0, "nobody") // after whatever is under way
	w.until("the sweep has come to rest", func() bool { return w.turns.Load() > before && w.sweep().Len() == 0 })
}

func (w *sweepWorld) sweep() *kube.Controller {
	for _, l := range w.engine.Loops() {
		if l.Name() == "content" {
			return l
		}
	}
	w.Fatal("there is no loop that sweeps")
	return nil
}

func everythingOf(w *sweepWorld, name string) []*fleet.Content {
	list, err := w.contents.List(w.Context(), "", "")
	if err != nil {
		w.Fatal(err)
	}
	return slices.DeleteFunc(list, func(c *fleet.Content) bool { return c.Annotations["name"] != name || indexName(c) != c.Name })
}
