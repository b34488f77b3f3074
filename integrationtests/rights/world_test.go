package rights_test

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
	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many stories run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// managerAgent is the User-Agent of the manager in these stories.
const managerAgent = "fleet-controller/test"

// A world is a management cluster with the chart's kinds and rights, and agent
// management at work in it as the chart's account.
type world struct {
	testing.TB
	hub   *harness.Hub
	ahead *atomic.Int64 // of the manager's clock
	life  credential.Life
	state *running
}

// running is a manager at work.
type running struct {
	stop context.CancelFunc
	done chan struct{}
}

// day is a day.
const day = 24 * time.Hour

// newWorld starts a manager whose agents have tokens of a life.
func newWorld(t *testing.T, life credential.Life) *world {
	t.Helper()
	hub := harness.ConnectHub(t, harness.Cluster(t, "management"))
	harness.InstallCRDs(t, hub.Admin)
	w := &world{TB: t, hub: hub, ahead: &atomic.Int64{}, life: life, state: &running{}}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		hub.Namespace(t, name)
	}
	w.chart()
	w.run()
	t.Cleanup(w.halt)
	return w
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

// chart applies what the chart grants, for the life that tokens have.
func (w *world) chart() {
	w.Helper()
	root, err := source.Root()
	w.must(err)
	chart, err := loader.Load(filepath.Join(root, "charts", "fleet"))
	w.must(err)
	given := map[string]any{"bootstrap": map[string]any{"enabled": false}}
	if w.life.TTL > 0 {
		given["credentialTTL"], given["credentialGrace"] = w.life.TTL.String(), w.life.Grace.String()
	}
	server, err := w.hub.Client.Discovery().ServerVersion()
	w.must(err)
	able := chartutil.DefaultCapabilities.Copy()
	able.KubeVersion = chartutil.KubeVersion{Version: server.GitVersion, Major: server.Major, Minor: server.Minor}
	values, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "fleet", Namespace: fleet.NamespaceSystem}, able)
	w.must(err)
	files, err := engine.Render(chart, values)
	w.must(err)
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			w.apply(text)
		}
	}
}

// apply applies what grants or limits rights, and nothing else.
func (w *world) apply(text string) {
	w.Helper()
	docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		w.must(err)
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
		case "ValidatingAdmissionPolicy":
			applyAs(w, doc, &admissionv1.ValidatingAdmissionPolicy{})
		case "ValidatingAdmissionPolicyBinding":
			applyAs(w, doc, &admissionv1.ValidatingAdmissionPolicyBinding{})
		}
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
	client, err := kube.Connect(kube.Config{REST: rest, UserAgent: managerAgent, FieldManager: fleet.FieldManagerAgentManagement})
	w.must(err)
	install, err := installation.Ensure(ctx, client, fleet.NamespaceSystem)
	w.must(err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() && os.Getenv("FLEET_TEST_LOGS") != "" {
		log.SetOutput(os.Stderr)
	}
	cfg := agentmanagement.Config{
		Namespace: fleet.NamespaceSystem, Installation: install,
		Settings: registration.Settings{
			APIServerURL: w.hub.Cluster.URL(), APIServerCA: w.hub.Cluster.CA(), AgentTLSMode: registration.TLSStrict,
			AgentCheckinInterval: time.Second, Reclaim: registration.ReclaimAllow, Credential: w.life,
		},
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
	}
	parts := agentmanagement.New(cfg, client, logrus.NewEntry(log)).Parts()
	report := func(loop string, key kube.Key, err error) { log.Errorf("loop %s, %s: %v", loop, key, err) }
	done := make(chan struct{})
	w.state.stop, w.state.done = stop, done
	go func() {
		defer close(done)
		if err := kube.Run(ctx, report, parts...); err != nil {
			w.Errorf("agent management ended: %v", err)
		}
	}()
}

func (w *world) halt() {
	w.state.stop()
	<-w.state.done
}

// become is the manager after an upgrade of the chart: its agents have tokens of
// another life.
func (w *world) become(life credential.Life) {
	w.Helper()
	w.halt()
	w.life = life
	w.chart()
	w.run()
}

// later starts the manager anew with a clock that is ahead, and that it has worked
// by for a day.
func (w *world) later(d time.Duration) {
	w.Helper()
	w.halt()
	w.ahead.Store(int64(d - day))
	w.run()
	w.ahead.Store(int64(d))
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
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(50*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			w.Fatalf("not in time: %s", what)
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

// change changes an object as administrator, and tries again where somebody else
// was faster.
func change[P kube.Object](w *world, key kube.Key, f func(P)) {
	w.Helper()
	store := kube.StoreOf[P](w.hub.Admin)
	for {
		old, err := store.Get(w.Context(), key)
		w.must(err)
		changed := old.DeepCopyObject().(P)
		f(changed)
		if _, err = store.Patch(w.Context(), old, changed); !kube.IsConflict(err) {
			w.must(err)
			return
		}
	}
}

// token makes a registration token that lasts, and returns what an agent is given
// of it.
func (w *world) token(name string) registration.Bootstrapping {
	w.Helper()
	_, err := kube.StoreOf[*fleet.ClusterRegistrationToken](w.hub.Admin).Create(w.Context(), &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
	})
	w.must(err)
	var b registration.Bootstrapping
	w.until("the values of token "+name, func() bool {
		s, ok := get[*corev1.Secret](w, fleet.NamespaceDefault, name)
		if ok {
			b, err = registration.ReadTokenSecret(s)
			w.must(err)
		}
		return ok && b.Token != ""
	})
	return b
}

// as is a client of the management cluster with a bearer token.
func (w *world) as(token string) *kube.Client {
	w.Helper()
	c, err := kube.Connect(kube.Config{
		REST:      kube.Access{URL: w.hub.Cluster.URL(), CA: w.hub.Cluster.CA(), Token: token}.REST(),
		UserAgent: "somebody/test", FieldManager: fleet.FieldManagerAgent,
	})
	w.must(err)
	return c
}

// told waits for an event about an object, and returns its text.
func (w *world) told(namespace, about, reason string) string {
	w.Helper()
	text := ""
	w.until("event "+reason+" about "+about, func() bool {
		events, err := w.hub.Client.EventsV1().Events(namespace).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == reason && e.Regarding.Name == about {
				text = e.Note
			}
		}
		return text != ""
	})
	return text
}
