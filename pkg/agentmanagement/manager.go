// Package agentmanagement is how clusters join the fleet and keep their place
// in it: registration tokens, requests and the credentials granted for them,
// the namespace of each Cluster, and the agent of the manager's own cluster.
//
// It runs under the lease fleet-agentmanagement-lock. Its decisions are in
// pkg/plan/registration; its loops look, act and report. A loop that has
// nothing to change writes nothing.
package agentmanagement

import (
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/agents"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cleanup"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cluster"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/identity"
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

// clock is the clock of the configuration.
func (c Config) clock() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}

// system is the manager in the words of the planner.
func (c Config) system() registration.System {
	return registration.System{Namespace: c.Namespace, ManagerID: c.Installation.ID}
}

// A Manager is the loops of agent management. Make it with New and run its
// Parts.
type Manager struct {
	cfg    Config
	system registration.System
	log    *logrus.Entry
	now    func() time.Time
	view   *cache.Shared
	events *kube.Recorder

	tokens    *token.Loop
	requests  *requests.Loop
	clusters  *cluster.Loop
	heartbeat *heartbeat.Loop
	identity  *identity.Loop
	agents    *agents.Loop
	imports   *importLoop
	moves     *move.Loop
	labels    *workspacelabel.Loop
	rancher   rancher.Reader
	local     *localLoop // nil where the manager's cluster does not join

	terminating *terminating.Workspaces
}

// New builds the manager; it sends no request before its Parts run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Manager {
	h := &Manager{
		cfg: cfg, system: cfg.system(), log: log, now: cfg.clock(),
		view: cache.New(c.Loop(process), cfg.system()), events: kube.NewRecorder(c, process),
	}
	h.terminating = terminating.New(c.Loop("clusters"), h.now)
	h.tokens = token.New(token.Config{
		System: h.system, Settings: cfg.Settings, TTLRequired: cfg.TokenTTLRequired, Scope: cfg.Scope, Now: h.now,
	}, c.Loop("tokens"), h.view, h.events, log)
	h.requests = requests.New(requests.Config{
		System: h.system, Settings: cfg.Settings, Scope: cfg.Scope, Terminating: h.terminating, Now: h.now,
	}, c.Loop("registrations"), h.view, h.events, log)
	h.rancher = rancher.NewReader(c.Loop("moves"))
	h.moves = move.New(move.Config{
		Scope: cfg.Scope, Rancher: h.rancher, Wake: func(key kube.Key) { h.clusters.Wake(key) }, Now: h.now,
	}, c.Loop("moves"), h.view, h.events, log)
	h.heartbeat = heartbeat.New(cfg.Settings.AgentCheckinInterval, h.view, log, func(key kube.Key) { h.clusters.Wake(key) })
	h.clusters = cluster.New(cluster.Config{
		System: h.system, Installation: cfg.Installation, Lease: LeaseName, Scope: cfg.Scope,
		Terminating: h.terminating, Moves: h.moves, Mark: h.heartbeat.Mark, Now: h.now,
	}, c.Loop("clusters"), h.view, h.events, log)
	h.identity = identity.New(identity.Config{Scope: cfg.Scope, Now: h.now}, c.Loop("identities"), h.view, h.events, log)
	h.agents = agents.New(agents.Config{
		System: h.system, Installation: cfg.Installation, Settings: cfg.Settings, Scope: cfg.Scope, Now: h.now,
	}, c.Loop("agents"), h.view, h.events, log)
	h.imports = newImportLoop(h, c.Loop("imports"))
	h.labels = workspacelabel.New(cfg.Scope, c.Loop("workspaces"), h.view)
	if ns := cfg.Settings.Bootstrap.Namespace; ns != "" && cfg.Scope.Holds(ns) {
		h.local = newLocalLoop(h, c.Loop("local"))
	}
	return h
}

// Runnables returns the caches and loops of the manager, for kube.Run.
func (h *Manager) Runnables() []kube.Runner {
	parts := append(h.view.Runnables(), h.events)
	parts = append(parts, h.clusters.Runnables()...)
	parts = append(parts, h.moves.Runnables()...)
	parts = append(parts, h.tokens.Runnables()...)
	parts = append(parts, h.requests.Runnables()...)
	parts = append(parts, h.heartbeat.Runnables()...)
	parts = append(parts, h.identity.Runnables()...)
	parts = append(parts, h.agents.Runnables()...)
	parts = append(parts, h.imports.parts()...)
	parts = append(parts, h.labels.Runnables()...)
	if h.local != nil {
		parts = append(parts, h.local.parts()...)
	}
	return parts
}

// NewCleanup makes what runs in the role cleanup; it sends no request before its
// Runnables run.
func NewCleanup(cfg Config, c *kube.Client, log *logrus.Entry) *cleanup.Loop {
	return cleanup.New(cleanup.Config{Scope: cfg.Scope, ManagerID: cfg.Installation.ID, Now: cfg.clock()}, c, log)
}
