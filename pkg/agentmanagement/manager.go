// Package agentmanagement composes the loops by which clusters join the fleet and stay
// in it: registration tokens, requests and credentials, the namespace of each Cluster,
// imports, versions of agents, and the agent of the manager's own cluster.
//
// It runs under the lease fleet-agentmanagement-lock. Its decisions are in pkg/plan:
// registration, credential, clusterimport, agentrollout, heartbeat and workspace. Its
// loops read, act and report. A loop that has nothing to change writes nothing.
package agentmanagement

import (
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/agents"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cleanup"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cluster"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/identity"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/local"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/move"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	requests "github.com/fleetworkspace/fleet/pkg/agentmanagement/registration"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/terminating"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/token"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/workspacelabel"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// LeaseName is the lease that this manager works under. Managers look at each
// other's.
const LeaseName = "fleet-agentmanagement-lock"

// process is the name of the manager in events.
const process = "agentmanagement"

// Config configures the manager.
type Config struct {
	Namespace        string // where the manager runs
	Settings         registration.Settings
	Installation     registration.Installation // from installation.Ensure
	TokenTTLRequired bool                      // tokens without an end are deleted
	Scope            scope.Scope               // its workspaces: another manager looks after others
	Addresses        address.Policy            // of imported clusters
	Now              func() time.Time          // the clock; time.Now where nil
}

// clock returns the clock of the configuration.
func (c Config) clock() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}

// system returns the manager's settings for package registration.
func (c Config) system() registration.System {
	return registration.System{Namespace: c.Namespace, ManagerID: c.Installation.ID}
}

// A Manager is the loops of agent management. Make it with New and run its Runnables.
type Manager struct{ runnables []kube.Runner }

// New builds the manager; it sends no request before its Runnables run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Manager {
	return compose(cfg, c, log, nil)
}

// compose makes the manager. via, if not nil, sends the requests to imported clusters,
// for tests.
func compose(cfg Config, c *kube.Client, log *logrus.Entry, via http.RoundTripper) *Manager {
	system, now := cfg.system(), cfg.clock()
	caches, events := cache.New(c.Loop(process), system), kube.NewRecorder(c, process)
	ending := terminating.New(c.Loop("clusters"), now)
	tokens := token.New(token.Config{
		System: system, Settings: cfg.Settings, TTLRequired: cfg.TokenTTLRequired, Scope: cfg.Scope, Now: now,
	}, c.Loop("tokens"), caches, events, log)
	registrations := requests.New(requests.Config{
		System: system, Settings: cfg.Settings, Scope: cfg.Scope, Terminating: ending, Now: now,
	}, c.Loop("registrations"), caches, events, log)
	var clusters *cluster.Loop // made below; nothing is enqueued before it runs
	wake := func(key kube.Key) { clusters.Enqueue(key) }
	owners := rancher.NewReader(c.Loop("moves"))
	moves := move.New(move.Config{Scope: cfg.Scope, Rancher: owners, Wake: wake, Now: now}, c.Loop("moves"), caches, events, log)
	intervals := heartbeat.New(cfg.Settings.AgentCheckinInterval, caches, log, wake)
	clusters = cluster.New(cluster.Config{
		System: system, Installation: cfg.Installation, Lease: LeaseName, Scope: cfg.Scope,
		Terminating: ending, Moves: moves, Mark: intervals.Mark, Now: now,
	}, c.Loop("clusters"), caches, events, log)
	claims := identity.New(identity.Config{Scope: cfg.Scope, Now: now}, c.Loop("identities"), caches, events, log)
	rollout := agents.New(agents.Config{
		System: system, Installation: cfg.Installation, Settings: cfg.Settings, Scope: cfg.Scope, Now: now,
	}, c.Loop("agents"), caches, events, log)
	imports := clusterimport.New(clusterimport.Config{
		System: system, Installation: cfg.Installation, Settings: cfg.Settings, Scope: cfg.Scope, Addresses: cfg.Addresses,
		Agents: rollout, Moves: moves, Rancher: owners, Used: registrations.Used, Via: via, Now: now,
	}, c.Loop("imports"), caches, events, log)
	labels := workspacelabel.New(cfg.Scope, c.Loop("workspaces"), caches)
	h := &Manager{runnables: slices.Concat(
		caches.Runnables(), []kube.Runner{events}, tokens.Runnables(), registrations.Runnables(), clusters.Runnables(),
		intervals.Runnables(), claims.Runnables(), moves.Runnables(), rollout.Runnables(), imports.Runnables(), labels.Runnables(),
	)}
	if ns := cfg.Settings.Bootstrap.Namespace; ns != "" && cfg.Scope.Holds(ns) { // else the manager's cluster does not join
		own := local.New(local.Config{System: system, Settings: cfg.Settings, Agents: rollout, Now: now}, c.Loop("local"), caches, log)
		h.runnables = append(h.runnables, own.Runnables()...)
	}
	return h
}

// Runnables returns the caches and loops of the manager, for kube.Run.
func (m *Manager) Runnables() []kube.Runner { return m.runnables }

// NewCleanup makes what runs in the role cleanup; it sends no request before its
// Runnables run.
func NewCleanup(cfg Config, c *kube.Client, log *logrus.Entry) *cleanup.Loop {
	return cleanup.New(cleanup.Config{Scope: cfg.Scope, System: cfg.system(), Now: cfg.clock()}, c, log)
}
