package rancher

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// A Rancher is one installation of it. Make it with New; its exported fields count
// at the next Start.
type Rancher struct {
	Hub     *harness.Hub
	Local   bool           // it keeps a record of the cluster that it runs in
	Without []string       // ids of rules that do not work: another version, or a fork
	Catalog []*chart.Chart // what ManagedCharts find

	config  *rest.Config         // Rancher's account
	objects dynamic.Interface    // the same
	client  kubernetes.Interface // the same
	people  dynamic.Interface    // the test, as Rancher's users
	proxy   *proxy
	webhook *webhook

	mu     sync.Mutex
	starts int
	stop   func() // nil while it is stopped
}

// New installs Rancher without starting it: the kinds, its webhook, which answers from
// now on, its account with all rights, and the proxy, which answers while it runs.
func New(t testing.TB, hub *harness.Hub) *Rancher {
	t.Helper()
	return NewAt(t, hub, "127.0.0.1")
}

// NewAt is New for a Rancher whose proxy and webhook listen on an address that others than
// this machine reach.
func NewAt(t testing.TB, hub *harness.Hub, address string) *Rancher {
	t.Helper()
	Install(t, hub)
	return newAt(t, hub, address)
}

// NewWithoutFleet is New for a Rancher that was first started with its feature fleet, and
// so multi-cluster management, off: it lacks the kinds of that feature. A Start with the
// feature installs them.
func NewWithoutFleet(t testing.TB, hub *harness.Hub) *Rancher {
	t.Helper()
	installBut(t, hub, ofFleet...)
	r := newAt(t, hub, "127.0.0.1")
	for _, name := range []string{featureFleet, featureMCM} {
		r.Put(t, Features, "", name, `{"spec":{"value":false},"status":{"default":true}}`)
	}
	return r
}

func newAt(t testing.TB, hub *harness.Hub, address string) *Rancher {
	t.Helper()
	reviews := startWebhook(t, hub, address)
	config := hub.Account(t, "cattle-system", "rancher")
	config.UserAgent, config.QPS = Agent, -1
	all := []string{"*"}
	hub.Allow(t, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "cattle-system", Name: "rancher"}, "",
		rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all}, rbacv1.PolicyRule{NonResourceURLs: all, Verbs: all})
	people := hub.Cluster.REST()
	people.UserAgent, people.QPS = harness.TestAgent, -1
	r := &Rancher{
		Hub: hub, Local: true, webhook: reviews,
		config: config, objects: dynamic.NewForConfigOrDie(config), client: kubernetes.NewForConfigOrDie(config), people: dynamic.NewForConfigOrDie(people),
	}
	r.proxy = newProxy(t, r, address)
	r.Attach(t, local, hub.Cluster.REST())
	t.Cleanup(func() { r.halt() })
	return r
}

// Start lets Rancher work: it takes its lease, reads its features, which it does
// not do again before the next start, makes what it has at every start, and looks
// at everything. It returns when it has seen all there is.
func (r *Rancher) Start(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		t.Fatal("Rancher runs already")
	}
	r.starts++
	ctx, cancel := context.WithCancel(context.Background())
	s, err := newSession(ctx, t, r, fmt.Sprintf("rancher-%d", r.starts))
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		cancel()
		t.Fatalf("start Rancher: %v", err)
	}
	r.stop = func() {
		cancel()
		s.wait()
	}
}

// Stop ends Rancher as a crash does: whatever happens until the next start it does
// not see happen, and its lease stays as it is.
func (r *Rancher) Stop(t testing.TB) {
	t.Helper()
	if !r.halt() {
		t.Fatal("Rancher does not run")
	}
	r.proxy.server.CloseClientConnections()
}

// Restart is Stop and Start.
func (r *Rancher) Restart(t testing.TB) {
	t.Helper()
	r.Stop(t)
	r.Start(t)
}

// Uninstall stops Rancher and deletes its lease. Its objects stay.
func (r *Rancher) Uninstall(t testing.TB) {
	t.Helper()
	r.halt()
	if err := r.dropLease(); err != nil {
		t.Fatal(err)
	}
}

// Running reports whether it has been started.
func (r *Rancher) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop != nil
}

// halt stops it if it runs.
func (r *Rancher) halt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		return false
	}
	r.stop()
	r.stop = nil
	return true
}
