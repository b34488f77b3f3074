// Package workspace tests Rancher's clusters and workspaces on an API server in memory.
// harness/rancher plays Rancher, where there is one, and its webhook; the manager works by
// the account and with the rights of the chart. The tests read from what the API server was
// asked who has written what.
package workspace

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// manager is who the manager is to the API server, and agent its User-Agent.
const (
	manager = "system:serviceaccount:cattle-fleet-system:fleet-controller"
	agent   = "fleet-workspace"
)

// limit is how long something may take to happen.
const limit = harness.Timeout

// Resources, by their names in audit logs.
const (
	fleetClusters = "clusters.fleet.cattle.io"
	mgmtClusters  = "clusters.management.cattle.io"
	provClusters  = "clusters.provisioning.cattle.io"
	workspaces    = "fleetworkspaces.management.cattle.io"
	namespaces    = "namespaces."
)

// world is a cluster with Fleet's kinds and the manager that ties it to Rancher.
type world struct {
	testing.TB
	hub     *harness.Hub
	rancher *rancher.Rancher // nil before there are Rancher's kinds
	ahead   *atomic.Int64    // of the manager's clock, nanoseconds
	part    *atomic.Value    // what the manager says last of its part
	now     *running
	started time.Time // when Rancher was started last
}

// running is the manager that runs, whichever part of a test has started it.
type running struct {
	test testing.TB // the whole one
	stop func()
}

func newWorld(t *testing.T) *world { return newWorldFor(t, plan.Auto) }

// newWorldFor is a world whose chart was installed for a mode: its account has the
// rights for that.
func newWorldFor(t *testing.T, mode plan.Mode) *world {
	t.Helper()
	hub := harness.NewHub(t, harness.Memory(t, "rancher"))
	hub.Namespace(t, fleet.NamespaceSystem)
	hub.Rights(t, map[string]any{"workspace": map[string]any{"mode": string(mode)}})
	return &world{TB: t, hub: hub, ahead: &atomic.Int64{}, part: &atomic.Value{}, now: &running{test: t}}
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

// start runs the manager until stop, or the end of the test.
func (w *world) start(mode plan.Mode) {
	w.Helper()
	client, err := kube.Connect(kube.Config{REST: w.hub.Account(w.TB, fleet.NamespaceSystem, "fleet-controller"), UserAgent: agent, FieldManager: fleet.FieldManagerWorkspace})
	w.must(err)
	log := harness.Logger()
	log.SetLevel(logrus.DebugLevel)
	log.AddHook(listener{w.part})
	w.part.Store("")
	w.run(workspace.New(workspace.Config{
		Mode: mode, Look: 50 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		Fail: func(loop string, key kube.Key, err error) {
			log.Warnf("%s %s: %v", loop, key, err)
		},
	}, client, log.WithField("process", agent)))
}

// listener hears what the manager says of its part.
type listener struct{ part *atomic.Value }

func (l listener) Levels() []logrus.Level { return []logrus.Level{logrus.InfoLevel} }

func (l listener) Fire(e *logrus.Entry) error {
	if part, ok := strings.CutPrefix(e.Message, "workspaces: "); ok {
		l.part.Store(part)
	}
	return nil
}

// plays waits until the manager plays a part.
func (w *world) plays(part plan.Part) {
	w.Helper()
	w.sees("the part of the manager", string(part), func() string { return w.part.Load().(string) })
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) until(what string, f func() bool) {
	w.Helper()
	harness.Wait(w.TB, limit, what, f)
}

// sees waits until look says want.
func (w *world) sees(what, want string, look func() string) {
	w.Helper()
	got := ""
	defer func() {
		if got != want {
			w.Errorf("%s: got %q, want %q", what, got, want)
		}
	}()
	w.until(what, func() bool {
		got = look()
		return got == want
	})
}

// cluster reads a Fleet Cluster; nil if it is not there.
func (w *world) cluster(namespace, name string) *fleet.Cluster {
	c, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil {
		return nil
	}
	return c
}

// mapped waits until a Fleet Cluster is there.
func (w *world) mapped(namespace, name string) *fleet.Cluster {
	w.Helper()
	w.until(name+" is mapped", func() bool { return w.cluster(namespace, name) != nil })
	return w.cluster(namespace, name)
}

// label reads a label of a Fleet Cluster.
func (w *world) label(namespace, name, key string) string {
	c := w.cluster(namespace, name)
	if c == nil {
		return ""
	}
	return c.Labels[key]
}

// namespace reads a Namespace; nil if it is not there.
func (w *world) namespace(name string) *corev1.Namespace {
	ns, err := kube.StoreOf[*corev1.Namespace](w.hub.Admin).Get(w.Context(), kube.Key{Name: name})
	if err != nil {
		return nil
	}
	return ns
}

// leaves reports whether a Namespace is gone or on its way out.
func (w *world) leaves(name string) bool {
	ns := w.namespace(name)
	return ns == nil || ns.DeletionTimestamp != nil
}

// text is a field of one of Rancher's objects; "" if it is not there.
func (w *world) text(what schema.GroupVersionResource, namespace, name string, path ...string) string {
	obj := w.rancher.Get(w.TB, what, namespace, name)
	if obj == nil {
		return ""
	}
	var now any = obj.Object
	for _, p := range path {
		m, _ := now.(map[string]any)
		now = m[p]
	}
	text, _ := now.(string)
	return text
}

// log are all writes since a moment.
func (w *world) log(since time.Time) []harness.Writing {
	w.Helper()
	return harness.Writings(w.TB, w.hub.Cluster, since)
}

// writes are those of the manager.
func (w *world) writes(since time.Time) []harness.Writing {
	w.Helper()
	return slices.DeleteFunc(w.log(since), func(r harness.Writing) bool {
		return r.User != manager || r.Resource == "events"
	})
}

// fields are what a user has written of an object since a moment.
func (w *world) fields(who string, since time.Time, resource, namespace, name string) []string {
	w.Helper()
	return harness.FieldsBy(w.log(since), who, resource, namespace, name)
}

// by checks who has written a field of an object since a moment.
func (w *world) by(who string, since time.Time, field, resource, namespace, name string) {
	w.Helper()
	w.sees(fmt.Sprintf("who has written %s of %s %s/%s", field, resource, namespace, name), who, func() string {
		return strings.Join(harness.WhoWrote(w.log(since), field, resource, namespace, name), " and ")
	})
}

// untouched checks that a user has written nothing of an object since a moment.
func (w *world) untouched(who string, since time.Time, resource, namespace, name string) {
	w.Helper()
	for _, r := range w.log(since) {
		if r.User == who && r.Is(resource, namespace, name) {
			w.Errorf("it should not have been written: %s", r)
		}
	}
}

// turns waits until the process that maps has done all that was due before: it
// has mapped a new cluster.
func (w *world) turns(name string) {
	w.Helper()
	w.rancher.Triple(w.TB, "fleet-default", "turn-"+name, "c-m-"+name+"0000000"[:8-len(name)], "")
	w.mapped("fleet-default", "turn-"+name)
}

// watches waits until the manager watches a kind.
func (w *world) watches(plural string) {
	w.Helper()
	w.until("the manager watches "+plural, func() bool {
		list, err := w.hub.Requests(time.Time{})
		w.must(err)
		return slices.ContainsFunc(list, func(r harness.Request) bool { return r.User == manager && r.Verb == "watch" && r.Resource == plural })
	})
}

// refused waits for an event about a FleetWorkspace.
func (w *world) refused(name, reason string) {
	w.Helper()
	w.until(name+": "+reason, func() bool {
		list, err := kube.StoreOf[*eventsv1.Event](w.hub.Admin).List(w.Context(), "", "")
		w.must(err)
		return slices.ContainsFunc(list, func(e *eventsv1.Event) bool {
			return e.Regarding.Kind == "FleetWorkspace" && e.Regarding.Name == name && e.Reason == reason
		})
	})
}
