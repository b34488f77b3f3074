// Package checkin reports how agents keep in touch with their manager: how often, at
// which times, and what is said of one that does not come. Manager and agents are
// real; only the sizes of their clocks' steps are those of a test.
package checkin

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many tests run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

const (
	workspace = fleet.NamespaceDefault
	tokenName = "everybody"
)

// A world is an API server with a manager, and a registration token.
type world struct {
	testing.TB
	hub  *harness.Hub
	halt func()
}

// newWorld starts a world in which agents check in as often as interval says.
func newWorld(t *testing.T, interval string) *world {
	t.Helper()
	w := &world{TB: t, hub: harness.NewHub(t, harness.Memory(t, "hub"))}
	for _, name := range []string{fleet.NamespaceSystem, workspace} {
		w.hub.Namespace(t, name)
	}
	w.manage(interval)
	t.Cleanup(func() { w.halt() })
	_, err := kube.StoreOf[*fleet.ClusterRegistrationToken](w.hub.Admin).Create(t.Context(),
		&fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: tokenName}})
	w.must(err)
	return w
}

// manage runs the manager with this setting, as cmd/fleet-controller does. Its agents
// have the version that it wants: their bundles wait for no wave.
func (w *world) manage(interval string) {
	w.Helper()
	settings, warnings, err := registration.ParseSettings(fmt.Sprintf(
		`{"apiServerURL":%q,"apiServerCA":%q,"agentTLSMode":"strict","agentCheckinInterval":%q,"agentImage":"fleet-agent:v0.1.0-test","bootstrap":{"namespace":"-"}}`,
		w.hub.Cluster.URL(), base64.StdEncoding.EncodeToString(w.hub.Cluster.CA()), interval))
	w.must(err)
	if len(warnings) > 0 {
		w.Fatal(warnings)
	}
	ctx, stop := context.WithCancel(context.Background())
	managerProcess := w.client(fleet.FieldManagerAgentManagement)
	install, err := installation.Ensure(ctx, managerProcess, fleet.NamespaceSystem)
	w.must(err)
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.LeaderElect, cfg.ManagerID = false, install.ID
	if settings.AgentCheckinInterval > 0 {
		cfg.CheckinInterval = settings.AgentCheckinInterval
	}
	log := logger()
	manager := agentmanagement.New(agentmanagement.Config{Addresses: address.WithLoopback(), Namespace: fleet.NamespaceSystem, Settings: settings, Installation: install}, managerProcess, log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return kube.Run(ctx, controllers.Report(log), manager.Runnables()...) })
	group.Go(func() error { return controllers.Run(ctx, cfg, w.client(fleet.FieldManagerController), log) })
	w.halt = func() {
		stop()
		if err := group.Wait(); err != nil {
			w.Errorf("the manager ended: %v", err)
		}
	}
}

func logger() *logrus.Entry {
	return logrus.NewEntry(harness.Logger())
}

func (w *world) client(manager string) *kube.Client {
	w.Helper()
	c, err := kube.Connect(kube.Config{REST: w.hub.Cluster.REST(), UserAgent: manager + "/test", FieldManager: manager})
	w.must(err)
	return c
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// A member is a cluster of the world, with a real agent.
type member struct {
	*harness.Site
	w *world
}

// member makes an agent that registers with the world's token and leaves to its
// manager how it keeps in touch, and starts nothing.
func (w *world) member(t testing.TB, name string) *member {
	t.Helper()
	m := &member{Site: harness.NewUnregisteredSite(t, w.hub, w.hub, name, "agent-"+name), w: w}
	m.Config.CheckinInterval = 0
	m.Configure(registration.AgentConfig{TLSMode: registration.TLSStrict, ClientID: name})
	secrets := kube.StoreOf[*corev1.Secret](w.hub.Admin)
	var boot registration.Bootstrapping
	m.Until("the token has its values", func() bool {
		s, err := secrets.Get(t.Context(), kube.Key{Namespace: workspace, Name: tokenName})
		if err != nil {
			return false
		}
		boot, err = registration.ReadTokenSecret(s)
		m.Must(err)
		return true
	})
	m.Give(boot)
	return m
}

// join starts the agent, and waits until it has checked in.
func (m *member) join() *member {
	m.Helper()
	m.Start()
	m.Until("the agent has registered and checked in", func() bool {
		list, err := kube.StoreOf[*fleet.Cluster](m.Hub.Admin).List(m.Context(), workspace, "")
		m.Must(err)
		for _, c := range list {
			if c.Spec.ClientID == m.Config.Namespace[len("agent-"):] && !c.Status.Agent.LastSeen.IsZero() {
				m.Workspace, m.Name, m.Deployments = c.Namespace, c.Name, c.Status.Namespace
				return true
			}
		}
		return false
	})
	return m
}

func (m *member) cluster() *fleet.Cluster {
	m.Helper()
	c, err := kube.StoreOf[*fleet.Cluster](m.Hub.Admin).Get(m.Context(), kube.Key{Namespace: m.Workspace, Name: m.Name})
	m.Must(err)
	return c
}

// ask changes how the manager wants the agent to keep in touch.
func (m *member) ask(c *fleet.ClusterCheckIn) {
	m.Helper()
	harness.Edit(m.TB, m.Hub, m.Workspace, m.Name, func(now *fleet.Cluster) { now.Spec.CheckIn = c })
}

// heartbeat is how long after its last check-in the agent has said that it comes next.
func (m *member) heartbeat() time.Duration {
	m.Helper()
	a := m.cluster().Status.Agent
	if a.NextCheckIn == nil {
		return 0
	}
	return a.NextCheckIn.Sub(a.LastSeen.Time)
}

// events are the reasons of the events about the Cluster, in any order.
func (m *member) events() map[string]string {
	m.Helper()
	list, err := m.Hub.Client.EventsV1().Events(m.Workspace).List(m.Context(), metav1.ListOptions{})
	m.Must(err)
	out := map[string]string{}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == "Cluster" && e.Regarding.Name == m.Name {
			out[e.Reason] = e.Note
		}
	}
	return out
}

// neverOffline fails if the manager sent an Offline event for the Cluster between
// two moments. Agents that check in later than announced do become Offline, and
// here they may be late.
func (m *member) neverOffline(from, to time.Time) {
	m.Helper()
	list, err := m.Hub.Client.EventsV1().Events(m.Workspace).List(m.Context(), metav1.ListOptions{})
	m.Must(err)
	for i := range list.Items {
		e := &list.Items[i]
		about := e.Regarding.Kind == "Cluster" && e.Regarding.Name == m.Name && e.Reason == fleet.ReasonOffline
		if about && e.EventTime.After(from) && e.EventTime.Time.Before(to) {
			m.Errorf("it was called Offline at %s: %s", e.EventTime.Time, e.Note)
		}
	}
}

// says waits for an event of the agent on its site, and returns its text.
func (m *member) says(reason string) string {
	m.Helper()
	text := ""
	m.Until("event "+reason, func() bool {
		list, err := m.Down.Client.EventsV1().Events(m.Namespace).List(m.Context(), metav1.ListOptions{})
		m.Must(err)
		for i := range list.Items {
			if list.Items[i].Reason == reason {
				text = list.Items[i].Note
				return true
			}
		}
		return false
	})
	return text
}

// requests counts what the agent asked its manager since a moment, by verb and
// resource.
func (m *member) requests(since time.Time) []harness.Request {
	m.Helper()
	list, err := m.Hub.Requests(since)
	m.Must(err)
	var out []harness.Request
	for _, r := range list {
		if (r.Namespace == m.Workspace && r.Name == m.Name || r.Namespace == m.Deployments) && strings.HasPrefix(r.Agent, "fleet-agent/") {
			out = append(out, r)
		}
	}
	return out
}
