package harness

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// ManagerUserAgent is the User-Agent of a Gate.
const ManagerUserAgent = "fleet-controller/test"

// A ManagerProcess is agent management at work on a Hub, as cmd/fleet-controller runs it: by
// the account of the chart, with the rights that Rights gives it. All parts of a
// test share one. Its fields count when it is run next, but for Ahead.
type ManagerProcess struct {
	Hub      *Hub
	Settings registration.Settings
	Required bool          // tokens must end
	Ahead    atomic.Int64  // of its clock, nanoseconds
	Worked   time.Duration // for how long it has worked by its clock when it is run
	// Wrap is put around the transport of its requests. Nil: nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Beside runs until ctx ends what belongs to the same manager. Nil: nothing.
	Beside func(ctx context.Context, c *kube.Client, managerID string, log *logrus.Entry) error

	stop context.CancelFunc
	done chan struct{}
	err  error // to be read when done is closed
}

// Run starts it.
func (g *ManagerProcess) Run(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	account := g.Hub.Account(t, fleet.NamespaceSystem, "fleet-controller")
	if g.Wrap != nil {
		account.Wrap(g.Wrap)
	}
	client, err := kube.Connect(kube.Config{REST: account, UserAgent: ManagerUserAgent, FieldManager: fleet.FieldManagerAgentManagement})
	if err != nil {
		t.Fatal(err)
	}
	install := Installed(t, client)
	log := Logger()
	var behind atomic.Int64 // of the clock, while it is made
	behind.Store(int64(g.Worked))
	manager := agentmanagement.New(agentmanagement.Config{
		Addresses: address.WithLoopback(),
		Namespace: fleet.NamespaceSystem, Settings: g.Settings, Installation: install, TokenTTLRequired: g.Required,
		Now: func() time.Time { return time.Now().Add(time.Duration(g.Ahead.Load() - behind.Load())) },
	}, client, logrus.NewEntry(log))
	behind.Store(0)
	report := func(loop string, key kube.Key, err error) { log.Errorf("loop %s, %s: %v", loop, key, err) }
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return kube.Run(ctx, report, manager.Runnables()...) })
	if g.Beside != nil {
		all.Go(func() error { return g.Beside(ctx, client, install.ID, logrus.NewEntry(log)) })
	}
	done := make(chan struct{})
	g.stop, g.done = stop, done
	go func() {
		defer close(done)
		g.err = all.Wait()
	}()
}

// Installed is InstalledIn for a manager in the namespace that is the default.
func Installed(t testing.TB, client *kube.Client) registration.Installation {
	t.Helper()
	return InstalledIn(t, client, fleet.NamespaceSystem)
}

// InstalledIn is who a manager in a namespace is, by its own account. That may have got
// its rights a moment ago: an API server has to hear of them first.
func InstalledIn(t testing.TB, client *kube.Client, namespace string) registration.Installation {
	t.Helper()
	var out registration.Installation
	Wait(t, Timeout, "the manager has the rights of its account", func() bool {
		var err error
		out, err = installation.Ensure(context.Background(), client, namespace)
		if err != nil && !kube.IsForbidden(err) && !kube.IsUnauthorized(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	return out
}

// Halt stops it, and waits for its end. A Gate that ended by itself fails the test.
func (g *ManagerProcess) Halt(t testing.TB) {
	t.Helper()
	g.stop()
	<-g.done
	if g.err != nil {
		t.Errorf("the manager ended: %v", g.err)
	}
}
