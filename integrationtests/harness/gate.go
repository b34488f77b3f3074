package harness

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// GateAgent is the User-Agent of a Gate.
const GateAgent = "fleet-controller/test"

// A Gate is agent management at work on a Hub, as cmd/fleet-controller runs it: by
// the account of the chart, with the rights that Rights gives it. All parts of a
// test share one. Its fields count when it is run next, but for Ahead.
type Gate struct {
	Hub      *Hub
	Settings registration.Settings
	Required bool         // tokens must end
	Ahead    atomic.Int64 // of its clock, nanoseconds
	// Beside runs until ctx ends what belongs to the same manager. Nil: nothing.
	Beside func(ctx context.Context, c *kube.Client, managerID string, log *logrus.Entry) error

	stop context.CancelFunc
	done chan struct{}
	err  error // to be read when done is closed
}

// Run starts it.
func (g *Gate) Run(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	client, err := kube.Connect(kube.Config{
		REST: g.Hub.Account(t, fleet.NamespaceSystem, "fleet-controller"), UserAgent: GateAgent, FieldManager: fleet.FieldManagerAgentManagement,
	})
	if err != nil {
		t.Fatal(err)
	}
	install, err := installation.Ensure(ctx, client, fleet.NamespaceSystem)
	if err != nil {
		t.Fatal(err)
	}
	log := Logger()
	house := agentmanagement.New(agentmanagement.Config{
		Namespace: fleet.NamespaceSystem, Settings: g.Settings, Installation: install, TokenTTLRequired: g.Required,
		Now: func() time.Time { return time.Now().Add(time.Duration(g.Ahead.Load())) },
	}, client, logrus.NewEntry(log))
	report := func(loop string, key kube.Key, err error) { log.Errorf("loop %s, %s: %v", loop, key, err) }
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return kube.Run(ctx, report, house.Parts()...) })
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

// Halt stops it, and waits for its end. A Gate that ended by itself fails the test.
func (g *Gate) Halt(t testing.TB) {
	t.Helper()
	g.stop()
	<-g.done
	if g.err != nil {
		t.Errorf("the manager ended: %v", g.err)
	}
}
