// Package join tells how clusters come in by a registration token, and what
// becomes of an agent that is given another one: with real agents and the real
// agent management, which has the rights of the chart, on real API servers.
package join

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many stories run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// checkIn is how often agents check in here; three of them are an overlap.
const checkIn = time.Second

// A world is a management cluster with the chart's kinds and rights, and agent
// management at work in it as the chart's account.
type world struct {
	testing.TB
	hub *harness.Hub
	*office
}

// An office is agent management at work. All parts of a test have the same.
type office struct {
	ahead    atomic.Int64 // of its clock
	settings registration.Settings
	required bool // tokens must end
	stop     context.CancelFunc
	done     chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	hub := harness.ConnectHub(t, harness.Cluster(t, "management"))
	harness.InstallCRDs(t, hub.Admin)
	w := &world{TB: t, hub: hub, office: &office{settings: registration.Settings{
		APIServerURL: hub.Cluster.URL(), APIServerCA: authority(t, hub), AgentTLSMode: registration.TLSStrict,
		AgentCheckinInterval: checkIn, Reclaim: registration.ReclaimAllow,
	}}}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		hub.Namespace(t, name)
	}
	w.rights()
	w.run()
	t.Cleanup(w.halt)
	return w
}

// authority is the certificate authority of a cluster, PEM.
func authority(t testing.TB, h *harness.Hub) []byte {
	t.Helper()
	r := h.Cluster.REST()
	if len(r.CAData) > 0 {
		return r.CAData
	}
	out, err := os.ReadFile(r.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rights installs the accounts and roles of the chart fleet.
func (w *world) rights() {
	w.Helper()
	root, err := source.Root()
	w.must(err)
	chart, err := loader.Load(filepath.Join(root, "charts", "fleet"))
	w.must(err)
	values, err := chartutil.ToRenderValues(chart, map[string]any{"bootstrap": map[string]any{"enabled": false}},
		chartutil.ReleaseOptions{Name: "fleet", Namespace: fleet.NamespaceSystem}, nil)
	w.must(err)
	files, err := engine.Render(chart, values)
	w.must(err)
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			w.must(err)
			w.apply(doc)
		}
	}
}

// apply applies what grants rights, and nothing else.
func (w *world) apply(doc []byte) {
	w.Helper()
	var kind metav1.TypeMeta
	w.must(sigsyaml.Unmarshal(doc, &kind))
	switch kind.Kind {
	case "ServiceAccount":
		applyAs(w, doc, &corev1.ServiceAccount{})
	case "ClusterRole":
		applyAs(w, doc, &rbacv1.ClusterRole{})
	case "ClusterRoleBinding":
		applyAs(w, doc, &rbacv1.ClusterRoleBinding{})
	case "Role":
		applyAs(w, doc, &rbacv1.Role{})
	case "RoleBinding":
		applyAs(w, doc, &rbacv1.RoleBinding{})
	}
}

func applyAs[P kube.Object](w *world, doc []byte, into P) {
	w.Helper()
	w.must(sigsyaml.Unmarshal(doc, into))
	_, err := kube.StoreOf[P](w.hub.Admin).Apply(w.Context(), into)
	w.must(err)
}

// run starts agent management as cmd/fleet-controller does.
func (w *world) run() {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	rest := w.hub.Account(w, fleet.NamespaceSystem, "fleet-controller")
	client, err := kube.Connect(kube.Config{REST: rest, UserAgent: "fleet-controller/test", FieldManager: fleet.FieldManagerAgentManagement})
	w.must(err)
	install, err := installation.Ensure(ctx, client, fleet.NamespaceSystem)
	w.must(err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() && os.Getenv("FLEET_TEST_LOGS") != "" {
		log.SetOutput(os.Stderr)
	}
	cfg := agentmanagement.Config{
		Namespace: fleet.NamespaceSystem, Settings: w.settings, Installation: install, TokenTTLRequired: w.required,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
	}
	parts := agentmanagement.New(cfg, client, logrus.NewEntry(log)).Parts()
	report := func(loop string, key kube.Key, err error) { log.Errorf("loop %s, %s: %v", loop, key, err) }
	w.stop, w.done = stop, make(chan struct{})
	go func() {
		defer close(w.done)
		if err := kube.Run(ctx, report, parts...); err != nil {
			log.Errorf("agent management ended: %v", err)
		}
	}()
}

func (w *world) halt() {
	w.stop()
	<-w.done
}

// again starts agent management again, with other settings or another clock.
func (w *world) again(change func(*world)) {
	w.Helper()
	w.halt()
	change(w)
	w.run()
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

// until waits for something to become true, 30 s at most.
func (w *world) until(what string, f func() bool) {
	w.Helper()
	w.within(30*time.Second, what, f)
}

func (w *world) within(limit time.Duration, what string, f func() bool) {
	w.Helper()
	deadline := time.NewTimer(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			w.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
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

// change changes an object as administrator, and tries again where somebody else
// was faster.
func change[P kube.Object](w *world, obj P, f func(P)) {
	w.Helper()
	store := kube.StoreOf[P](w.hub.Admin)
	for {
		old, err := store.Get(w.Context(), kube.KeyOf(obj))
		w.must(err)
		changed := old.DeepCopyObject().(P)
		f(changed)
		if _, err = store.Patch(w.Context(), old, changed); !kube.IsConflict(err) {
			w.must(err)
			return
		}
	}
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

// values is what an agent is given of a token, once that is ready.
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

// told waits for an event about an object of the management cluster, and returns
// its text.
func (w *world) told(namespace, about, reason string) string {
	w.Helper()
	return toldIn(w, w.hub, namespace, about, reason)
}

func toldIn(w *world, h *harness.Hub, namespace, about, reason string) string {
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
