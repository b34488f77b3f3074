package fleet

import (
	"context"
	"fmt"
	"path/filepath"
)

// Manager is the name under which faults address the manager's processes.
const Manager = "manager"

// StopAgent ends a cluster's agent and leaves it so. It reports whether it ran.
func (f *Fleet) StopAgent(m *Member) bool { return m.agent.end(false) }

// StartAgent starts a cluster's agent; nothing happens if it runs.
func (f *Fleet) StartAgent(m *Member) error { return m.agent.start() }

// AgentPID is the process id of a cluster's agent, or 0.
func (m *Member) AgentPID() int { return m.agent.running() }

// AgentLog is the path of the agent's log.
func (m *Member) AgentLog() string { return m.agent.spec.Log }

// AgentKubeconfig is the path of the kubeconfig that the agent runs with, for
// its own cluster.
func (f *Fleet) AgentKubeconfig(m *Member) string {
	return filepath.Join(f.dir(m), "fleet-agent.kubeconfig")
}

// KillManager ends the manager's processes with SIGKILL and leaves them so.
// It reports whether one ran.
func (f *Fleet) KillManager() bool { return f.tiers[0].Kill() }

// StopManager asks the manager's processes to end and leaves them so. It
// reports whether one ran.
func (f *Fleet) StopManager() bool { return f.tiers[0].Stop() }

// StartManager starts the manager's processes; nothing happens to those that
// run.
func (f *Fleet) StartManager() error { return f.tiers[0].Start() }

// ManagerPIDs are the process ids of the manager's processes; 0 is one that
// does not run.
func (f *Fleet) ManagerPIDs() []int { return f.tiers[0].PIDs() }

// Kill ends the processes of a manager with SIGKILL and does not restart them.
// It reports whether one ran.
func (t *Tier) Kill() bool { return t.end(true) }

// Stop asks the processes of a manager to end and does not restart them. It
// reports whether one ran.
func (t *Tier) Stop() bool { return t.end(false) }

func (t *Tier) end(kill bool) bool {
	ran := false
	for _, p := range t.manager {
		ran = p.end(kill) || ran
	}
	return ran
}

// Start starts the processes of a manager; nothing happens to those that run.
func (t *Tier) Start() error {
	for _, p := range t.manager {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

// PIDs are the process ids of a manager's processes; 0 is one that does not run.
func (t *Tier) PIDs() []int {
	var pids []int
	for _, p := range t.manager {
		pids = append(pids, p.running())
	}
	return pids
}

// Reinstall installs the charts of a manager again, after a user has uninstalled
// them, and starts its processes with the new accounts.
func (f *Fleet) Reinstall(ctx context.Context, t *Tier) error {
	t.Kill()
	t.manager = nil
	return f.installManager(ctx, t)
}

// A Part is a process or a log of the fleet, as a user names it: the cluster,
// and what of it.
type Part struct {
	Cluster string
	Name    string
	PID     int // 0: does not run
	Log     string
}

// Parts lists all processes, by cluster and in the order of their start.
func (f *Fleet) Parts() []Part {
	var parts []Part
	for _, m := range f.Members() {
		for _, p := range m.Cluster.Processes() {
			parts = append(parts, Part{Cluster: m.Name, Name: p.Part, PID: p.Process.PID(), Log: p.Process.Log()})
		}
		for _, p := range f.programsOf(m) {
			name := filepath.Base(p.spec.Log)
			parts = append(parts, Part{
				Cluster: m.Name, Name: name[:len(name)-len(".log")], PID: p.running(), Log: p.spec.Log,
			})
		}
	}
	return parts
}

func (f *Fleet) programsOf(m *Member) []*program {
	var all []*program
	if t, ok := f.TierOf(m); ok {
		all = append(all, t.manager...)
	}
	for _, p := range []*program{m.agent, m.local} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Cut takes a downstream cluster's agent off the net: it cannot reach the
// manager until Heal. Its own cluster and the agent itself go on.
func (f *Fleet) Cut(m *Member) error {
	if m.Link == nil {
		return fmt.Errorf("cut %s: the manager runs there; nothing lies between", m.Name)
	}
	m.Link.Cut()
	return nil
}

// Heal undoes Cut.
func (f *Fleet) Heal(m *Member) error {
	if m.Link == nil {
		return fmt.Errorf("heal %s: the manager runs there; nothing lies between", m.Name)
	}
	return m.Link.Heal()
}
