// Package rancher_test tests what Rancher's people, settings and features mean to
// Fleet, on API servers in memory: rights in workspaces, the addresses that agents
// get, and how they are deployed. Rancher's kinds and Rancher's part are those of
// integrationtests/harness/rancher; the manager has the rights of its chart.
package rancher_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// TestMain lets the tests run at once: they wait for most of their time.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(harness.Parallel(m))
}

// limit is how long something may take to happen.
const limit = harness.Timeout

// manager is the User-Agent of the loops under test.
const manager = "fleet-workspace/test"

// world is a cluster with Rancher's kinds.
type world struct {
	testing.TB
	hub     *harness.Hub
	rancher *rancher.Rancher
	people  dynamic.Interface // the test
	account *rest.Config      // the manager's
	life    *life
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{TB: t, hub: harness.NewHub(t, harness.Memory(t, "rancher")), life: &life{TB: t, manager: func() {}}}
	t.Cleanup(w.life.end)
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault, fleet.NamespaceLocal} {
		w.hub.Namespace(t, name)
	}
	w.hub.Rights(t, map[string]any{"bootstrap": map[string]any{"enabled": false}, "workspace": map[string]any{"mode": "auto"}})
	w.rancher = rancher.New(t, w.hub)
	w.people = dynamic.NewForConfigOrDie(w.hub.Cluster.REST())
	w.account = w.hub.Account(t, fleet.NamespaceSystem, "fleet-controller")
	return w
}

// life holds the functions that stop the running programs.
type life struct {
	testing.TB // the whole test, not a part of it
	manager    func()

	mu  sync.Mutex
	all []func()
}

// end ends everything, what began last first.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range slices.Backward(l.all) {
		f()
	}
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

// start runs the manager, as the chart's account, until stop or the end of the test.
func (w *world) start(mode plan.Mode) {
	w.Helper()
	client, err := kube.Connect(kube.Config{REST: rest.CopyConfig(w.account), UserAgent: manager, FieldManager: "fleet-workspace"})
	w.must(err)
	log := w.log()
	h := workspace.New(workspace.Config{Mode: mode, Look: 50 * time.Millisecond, Fail: func(loop string, key kube.Key, err error) {
		log.Warnf("%s %s: %v", loop, key, err)
	}}, client, log)
	w.life.manager = w.run(func(ctx context.Context) error { return kube.Run(ctx, nil, h.Runnables()...) })
}

// stop ends the manager.
func (w *world) stop() { w.life.manager() }

// run runs something until the end of the test, and returns what ends it before.
func (w *world) run(f func(context.Context) error) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.life.Errorf("it ended with %v", err)
		}
	})
	w.life.mu.Lock()
	defer w.life.mu.Unlock()
	w.life.all = append(w.life.all, end)
	return end
}

func (w *world) log() *logrus.Entry {
	return logrus.NewEntry(harness.Logger())
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for something to become true.
func (w *world) until(what string, f func() bool) {
	w.Helper()
	harness.Wait(w, limit, what, f)
}

// sees waits until look says want, a line for each thing.
func (w *world) sees(what string, want []string, look func() []string) {
	w.Helper()
	var got []string
	slices.Sort(want)
	defer func() {
		if w.Failed() {
			w.Logf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}()
	w.until(what, func() bool {
		got = look()
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// writes are the requests by which the manager has changed something since a moment.
func (w *world) writes(since time.Time) []harness.Request {
	w.Helper()
	list, err := w.hub.Requests(since)
	w.must(err)
	return slices.DeleteFunc(list, func(r harness.Request) bool {
		return !strings.HasPrefix(r.Agent, "fleet-workspace") || !r.Writes() || r.Code >= 300
	})
}

// turns waits until the manager has done what there was to do: it answers a new
// workspace, with the rights of all global roles.
func (w *world) turns(name string) {
	w.Helper()
	w.rancher.Put(w, rancher.Workspaces, "", name, `{"metadata":{"annotations":{"field.cattle.io/creatorId":"turn"}}}`)
	w.until("the manager answers", func() bool { return w.may("turn", "get", "fleetworkspaces", "", name) })
}

// may asks Kubernetes whether a person may do something with a kind of Fleet's, or
// with a workspace.
func (w *world) may(user, verb, resource, namespace, name string, groups ...string) bool {
	w.Helper()
	group := fleet.Group
	switch resource {
	case "fleetworkspaces":
		group = "management.cattle.io"
	case "rolebindings":
		group = "rbac.authorization.k8s.io"
	}
	return w.hub.Allows(w, authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: group, Resource: resource, Name: name,
	}})
}

// workspace makes a workspace as user creator, and waits for its namespace.
func (w *world) workspace(name, creator string) {
	w.Helper()
	text := `{}`
	if creator != "" {
		text = `{"metadata":{"annotations":{"field.cattle.io/creatorId":"` + creator + `"}}}`
	}
	w.rancher.Put(w, rancher.Workspaces, "", name, text)
	w.until("the namespace of "+name, func() bool { return w.there(rancher.Namespaces, "", name) })
}

// there reports whether an object is, and is not on its way out.
func (w *world) there(what resource, namespace, name string) bool {
	w.Helper()
	o := w.rancher.Get(w, what, namespace, name)
	return o != nil && o.GetDeletionTimestamp() == nil
}

// event reports whether there is one about an object.
func (w *world) event(kind, name, reason string) bool {
	w.Helper()
	list, err := w.hub.Client.EventsV1().Events("").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	return slices.ContainsFunc(list.Items, func(e eventOf) bool {
		return e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason
	})
}

// text is something as JSON.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// secret makes a Secret beside a cluster.
func (w *world) secret(namespace, name string, data map[string][]byte) {
	w.Helper()
	harness.Make(w, w.hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data})
}
