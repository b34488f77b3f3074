// Package moving tests how clusters change their workspace: with Rancher, played by
// package harness/rancher, with the real manager, which has the rights of the chart,
// with real agents that the manager installs through Rancher's proxy and that reach the
// manager through Rancher as well, with API servers in memory, which record who did what.
package moving

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many tests run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long something may take to happen.
const limit = harness.Timeout

// A world is a management cluster with Rancher and Fleet's manager, and another
// cluster, which stands for as many as there are tests.
type world struct {
	testing.TB
	hub            *harness.Hub
	down           *harness.Hub
	managerProcess *harness.ManagerProcess
	rancher        *rancher.Rancher
	objects        dynamic.Interface // the test, as Rancher's users
	git            *gitserver.Server
}

// chartValues are those of the chart that the manager has its rights from.
var chartValues = map[string]any{"bootstrap": map[string]any{"enabled": false}}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub, down := harness.Memory(t, "management"), harness.Memory(t, "downstream")
	w := &world{TB: t, hub: harness.ConnectHub(t, hub), down: harness.ConnectHub(t, down)}
	harness.InstallCRDs(t, w.hub.Admin)
	people := w.hub.Cluster.REST()
	people.UserAgent = harness.TestAgent
	w.objects = dynamic.NewForConfigOrDie(people)
	var err error
	w.git, err = gitserver.Start(gitserver.Config{Dir: filepath.Join(t.TempDir(), "git")})
	w.must(err)
	t.Cleanup(w.git.Close)
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		w.hub.Namespace(t, name)
	}
	w.hub.Rights(t, chartValues)
	w.rancher = rancher.New(t, w.hub)
	w.rancher.Local = false
	w.managerProcess = &harness.ManagerProcess{Hub: w.hub, Beside: controllersToo(t.TempDir())}
	w.managerProcess.Settings = registration.Settings{
		AgentImage: "fleet-agent:v1", AgentImagePullPolicy: "IfNotPresent",
		APIServerURL: w.rancher.URL(), APIServerCA: []byte(w.rancher.CA()), AgentTLSMode: registration.TLSStrict,
		AgentCheckinInterval: time.Second, Reclaim: registration.ReclaimApprove, TokensChecked: true, AgentsUnmanaged: true,
	}
	w.put(rancher.Features, "", "provisioningv2-fleet-workspace-back-population", `{"spec":{"value":true},"status":{"default":true}}`)
	w.rancher.Start(t)
	w.managerProcess.Run(t)
	t.Cleanup(func() { w.managerProcess.Halt(t) })
	return w
}

// controllersToo are the other half of the manager, and the process that reads
// repositories.
func controllersToo(dir string) func(context.Context, *kube.Client, string, *logrus.Entry) error {
	return func(ctx context.Context, c *kube.Client, managerID string, log *logrus.Entry) error {
		cfg := controllers.Default()
		cfg.Addresses = address.WithLoopback()
		cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = fleet.NamespaceSystem, "test", false, managerID
		cfg.CheckinInterval, cfg.Workers = 10*time.Second, 4
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return controllers.Run(ctx, cfg, c, log) })
		both.Go(func() error {
			return controllers.RunGitJob(ctx, cfg, controllers.GitJob{Dir: dir, UserAgent: "fleet-gitjob/test"}, c, log)
		})
		return both.Wait()
	}
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
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

// put makes an object of Rancher's from JSON, as one of its users.
func (w *world) put(r schema.GroupVersionResource, namespace, name, text string) {
	w.Helper()
	w.rancher.Put(w, r, namespace, name, text)
}

// patch changes an object of Rancher's by a JSON merge patch, as one of its users; its
// status as Rancher. sub is a subresource of an object of Fleet's.
func (w *world) patch(r schema.GroupVersionResource, namespace, name, text string, sub ...string) {
	w.Helper()
	if len(sub) == 0 {
		w.rancher.Patch(w, r, namespace, name, text)
		return
	}
	_, err := w.objects.Resource(r).Namespace(namespace).Patch(w.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, sub...)
	w.must(err)
}

// there reports whether an object of Rancher's is.
func (w *world) there(r schema.GroupVersionResource, namespace, name string) bool {
	w.Helper()
	_, err := w.objects.Resource(r).Namespace(namespace).Get(w.Context(), name, metav1.GetOptions{})
	return err == nil
}

// space makes a workspace.
func (w *world) space(name string) {
	w.Helper()
	w.put(rancher.Workspaces, "", name, `{"spec":{}}`)
	w.until("namespace "+name, func() bool { _, ok := harness.Read[*corev1.Namespace](w, w.hub, "", name); return ok })
}

// cluster reads a Fleet Cluster; nil where there is none.
func (w *world) cluster(namespace, name string) *fleet.Cluster {
	w.Helper()
	c, ok := harness.Read[*fleet.Cluster](w, w.hub, namespace, name)
	if !ok {
		return nil
	}
	return c
}

// imported waits for the condition Imported of a Cluster, and returns its message.
func (w *world) imported(namespace, name string, want corev1.ConditionStatus, reason string) string {
	w.Helper()
	var last *fleet.Condition
	defer func() {
		if w.Failed() {
			w.Logf("Imported of %s/%s: %+v", namespace, name, last)
		}
	}()
	w.until("Cluster "+namespace+"/"+name+" is Imported="+string(want)+" "+reason, func() bool {
		c := w.cluster(namespace, name)
		if c == nil {
			return false
		}
		last = condition.Find(c.Status.Conditions, fleet.ConditionImported)
		return last != nil && last.Status == want && last.Reason == reason
	})
	return last.Message
}

// online waits until the agent of a Cluster checks in there.
func (w *world) online(namespace, name string) {
	w.Helper()
	w.until("the agent checks in as "+namespace+"/"+name, func() bool {
		c := w.cluster(namespace, name)
		return c != nil && c.DeletionTimestamp == nil && condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected)
	})
}

// said waits for an event about an object of the management cluster, and returns its
// text.
func (w *world) said(namespace, about, reason, text string) {
	w.Helper()
	w.until("event "+reason+" about "+namespace+"/"+about+": "+text, func() bool {
		events, err := w.hub.Client.EventsV1().Events(namespace).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == reason && e.Regarding.Name == about && strings.Contains(e.Note, text) {
				return true
			}
		}
		return false
	})
}

// audit are the requests that an API server was sent since a moment.
func (w *world) audit(h *harness.Hub, since time.Time) []harness.Request {
	w.Helper()
	list, err := h.Requests(since)
	w.must(err)
	return list
}
