package rights_test

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many tests run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// A world is a management cluster with the chart's kinds and rights, and agent
// management at work in it.
type world struct {
	testing.TB
	hub            *harness.Hub
	managerProcess *harness.ManagerProcess
}

// day is a day.
const day = 24 * time.Hour

// newWorld starts a manager whose agents have tokens of a life.
func newWorld(t *testing.T, life credential.Lifetimes) *world {
	t.Helper()
	hub := harness.ConnectHub(t, harness.Cluster(t, "management"))
	harness.InstallCRDs(t, hub.Admin)
	w := &world{TB: t, hub: hub, managerProcess: &harness.ManagerProcess{Hub: hub, Settings: registration.Settings{
		APIServerURL: hub.Cluster.URL(), APIServerCA: hub.Cluster.CA(), AgentTLSMode: registration.TLSStrict,
		AgentCheckinInterval: time.Second, Reclaim: registration.ReclaimAllow, Credential: life,
	}}}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		hub.Namespace(t, name)
	}
	w.chart()
	w.managerProcess.Run(t)
	t.Cleanup(func() { w.managerProcess.Halt(t) })
	return w
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

// chart installs what the chart grants, for the life that tokens have.
func (w *world) chart() {
	w.Helper()
	values := map[string]any{"bootstrap": map[string]any{"enabled": false}}
	if life := w.managerProcess.Settings.Credential; life.TTL > 0 {
		values["credentialTTL"], values["credentialGrace"] = life.TTL.String(), life.Grace.String()
	}
	w.hub.Rights(w, values)
}

// become is the manager after an upgrade of the chart: its agents have tokens of
// another life.
func (w *world) become(life credential.Lifetimes) {
	w.Helper()
	w.managerProcess.Halt(w)
	w.managerProcess.Settings.Credential = life
	w.chart()
	w.managerProcess.Run(w)
}

// later restarts the manager with a clock that is ahead by d, and that it has
// worked by for a day.
func (w *world) later(d time.Duration) {
	w.Helper()
	w.managerProcess.Halt(w)
	w.managerProcess.Ahead.Store(int64(d))
	w.managerProcess.Worked = day
	w.managerProcess.Run(w)
	w.managerProcess.Worked = 0
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
	harness.Wait(w, harness.Timeout, what, f)
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

// change changes an object as administrator, again after each conflict.
func change[P kube.Object](w *world, key kube.Key, f func(P)) {
	w.Helper()
	harness.Revise(w, w.hub.Admin, key, f)
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

// reported waits for an event about an object, and returns its text.
func (w *world) reported(namespace, about, reason string) string {
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
