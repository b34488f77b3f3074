// Package join reports how clusters come in by a registration token, and what
// becomes of an agent that is given another one: with real agents and the real
// agent management, which has the rights of the chart, on API servers in memory.
package join

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many tests run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// checkIn is how often agents check in here; three of them are an overlap.
const checkIn = time.Second

// A world is a management cluster with the chart's kinds and rights, and agent
// management at work in it.
type world struct {
	testing.TB
	hub            *harness.Hub
	managerProcess *harness.ManagerProcess
}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub := harness.ConnectHub(t, harness.Memory(t, "management"))
	harness.InstallCRDs(t, hub.Admin)
	w := &world{TB: t, hub: hub, managerProcess: &harness.ManagerProcess{Hub: hub, Settings: registration.Settings{
		APIServerURL: hub.Cluster.URL(), APIServerCA: hub.Cluster.CA(), AgentTLSMode: registration.TLSStrict,
		AgentCheckinInterval: checkIn, Reclaim: registration.ReclaimAllow, TokensChecked: true,
	}}}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		hub.Namespace(t, name)
	}
	hub.Rights(t, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	w.managerProcess.Run(t)
	t.Cleanup(func() { w.managerProcess.Halt(t) })
	return w
}

// again starts agent management again, with other settings or another clock.
func (w *world) again(change func(*harness.ManagerProcess)) {
	w.Helper()
	w.managerProcess.Halt(w)
	change(w.managerProcess)
	w.managerProcess.Run(w)
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
	w.within(harness.Timeout, what, f)
}

func (w *world) within(limit time.Duration, what string, f func() bool) {
	w.Helper()
	harness.Wait(w, limit, what, f)
}

// get reads an object of the management cluster; false: there is none.
func get[P kube.Object](w *world, namespace, name string) (P, bool) {
	w.Helper()
	out, err := kube.StoreOf[P](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil && !kube.IsGone(err) {
		w.Fatal(err)
	}
	return out, err == nil
}

func list[P kube.Object](w *world, namespace, selector string) []P {
	w.Helper()
	out, err := kube.StoreOf[P](w.hub.Admin).List(w.Context(), namespace, selector)
	w.must(err)
	return out
}

func create[P kube.Object](w *world, obj P) P {
	w.Helper()
	out, err := kube.StoreOf[P](w.hub.Admin).Create(w.Context(), obj)
	w.must(err)
	return out
}

func remove[P kube.Object](w *world, obj P) {
	w.Helper()
	w.must(kube.StoreOf[P](w.hub.Admin).Delete(w.Context(), kube.KeyOf(obj), kube.Precondition{}))
}

// change changes an object as administrator, again after each conflict.
func change[P kube.Object](w *world, obj P, f func(P)) {
	w.Helper()
	harness.Revise(w, w.hub.Admin, kube.KeyOf(obj), f)
}

// token makes a registration token, for ever where ttl is 0, and returns what an
// agent is given of it.
func (w *world) token(workspace, name string, ttl time.Duration) registration.Bootstrapping {
	w.Helper()
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name}}
	if ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	create(w, t)
	return w.values(workspace, name)
}

// values returns the values of a token for an agent, once the token is ready.
func (w *world) values(workspace, name string) registration.Bootstrapping {
	w.Helper()
	var b registration.Bootstrapping
	w.until("the values of token "+name, func() bool {
		t, ok := get[*fleet.ClusterRegistrationToken](w, workspace, name)
		if !ok || t.Status.SecretName == "" {
			return false
		}
		s, ok := get[*corev1.Secret](w, workspace, t.Status.SecretName)
		if !ok {
			return false
		}
		var err error
		b, err = registration.ReadTokenSecret(s)
		w.must(err)
		return true
	})
	return b
}

// requests are the registrations of a workspace.
func (w *world) requests(workspace string) []*fleet.ClusterRegistration {
	w.Helper()
	return list[*fleet.ClusterRegistration](w, workspace, "")
}

// reported waits for an event about an object of the management cluster, and returns
// its text.
func (w *world) reported(namespace, about, reason string) string {
	w.Helper()
	return reportedIn(w, w.hub, namespace, about, reason)
}

func reportedIn(w *world, h *harness.Hub, namespace, about, reason string) string {
	w.Helper()
	text := ""
	w.until("event "+reason+" about "+about, func() bool {
		events, err := h.Client.EventsV1().Events(namespace).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == reason && strings.HasPrefix(e.Regarding.Name, about) {
				text = e.Note
				return true
			}
		}
		return false
	})
	return text
}
