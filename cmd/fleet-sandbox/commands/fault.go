package commands

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

// newCut makes the verb cut.
func newCut(std stdio, at locate) *cobra.Command {
	return faultCommand(std, at, "cut", "cut NAME", "Take a cluster off the net: its agent cannot reach the manager")
}

// newHeal makes the verb heal.
func newHeal(std stdio, at locate) *cobra.Command {
	return faultCommand(std, at, "heal", "heal NAME", "Undo cut")
}

// newStop makes the verb stop.
func newStop(std stdio, at locate) *cobra.Command {
	return faultCommand(std, at, "stop", "stop NAME|manager", "Stop a cluster's agent, or the manager (NAME/manager: the one on a cluster)")
}

// newStart makes the verb start.
func newStart(std stdio, at locate) *cobra.Command {
	return faultCommand(std, at, "start", "start NAME|manager", "Start a cluster's agent, or the manager (NAME/manager), again")
}

// newKill makes the verb kill.
func newKill(std stdio, at locate) *cobra.Command {
	return faultCommand(std, at, "kill", "kill manager", "Kill the manager (NAME/manager) with SIGKILL; as in a pod, it is started again")
}

func faultCommand(std stdio, at locate, verb, use, about string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: about,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			return runFault(cmd.Context(), p, request{Verb: verb, Name: args[0]}, std.out)
		},
	}
}

// runFault asks the running launcher for a fault and prints what it says.
func runFault(ctx context.Context, p place, q request, out io.Writer) error {
	r, err := p.read()
	if err != nil {
		return err
	}
	a, err := r.ask(ctx, q)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, a.Text)
	return nil
}

// killedFor is how long a killed manager stays away.
const killedFor = time.Second

// fault does what a request asks, in the launcher, and returns what to say.
func fault(f *fleet.Fleet, q request, now time.Time) (string, error) {
	at := now.Local().Format("15:04:05")
	if host, ok := managerOf(q.Name); ok {
		t := tierOn(f, host)
		if t == nil {
			return "", unknown(f, q)
		}
		return managerFault(t, q.Verb, at)
	}
	m, ok := f.Member(q.Name)
	if !ok || q.Verb == "kill" {
		return "", unknown(f, q)
	}
	switch q.Verb {
	case "cut":
		if err := f.Cut(m); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s is off the net since %s; its own cluster and agent go on", m.Name, at), nil
	case "heal":
		if err := f.Heal(m); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s is back on the net at %s", m.Name, at), nil
	case "stop":
		if !f.StopAgent(m) {
			return fmt.Sprintf("the agent of %s does not run", m.Name), nil
		}
		return fmt.Sprintf("the agent of %s is stopped since %s; what it deployed goes on", m.Name, at), nil
	case "start":
		if err := f.StartAgent(m); err != nil {
			return "", err
		}
		return fmt.Sprintf("the agent of %s runs since %s (pid %d)", m.Name, at, m.AgentPID()), nil
	}
	return "", fmt.Errorf("unknown request %q", q.Verb)
}

// tierOn is the manager on a cluster; nil where there is none.
func tierOn(f *fleet.Fleet, host string) *fleet.Tier {
	for _, t := range f.Tiers() {
		if t.Name() == host {
			return t
		}
	}
	return nil
}

func managerFault(t *fleet.Tier, verb, at string) (string, error) {
	who := "the manager"
	if t.Name() != "local" {
		who += " on " + t.Name()
	}
	switch verb {
	case "kill":
		if !t.Kill() {
			return who + " does not run", nil
		}
		time.AfterFunc(killedFor, func() { _ = t.Start() }) // fails only if all is being stopped
		return fmt.Sprintf("%s was killed at %s; as in a pod, it is started again in %s", who, at, killedFor), nil
	case "stop":
		if !t.Stop() {
			return who + " does not run", nil
		}
		return fmt.Sprintf("%s is stopped since %s; clusters and agents go on", who, at), nil
	case "start":
		if err := t.Start(); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s runs since %s (pids %v)", who, at, t.PIDs()), nil
	}
	return "", fmt.Errorf("%s manager: want kill, stop or start", verb)
}

// unknown says which names there are.
func unknown(f *fleet.Fleet, q request) error {
	names := []string{}
	for _, m := range f.Members() {
		switch q.Verb {
		case "cut", "heal":
			if m.Link != nil {
				names = append(names, m.Name)
			}
		case "stop", "start":
			names = append(names, m.Name)
		}
	}
	if q.Verb != "cut" && q.Verb != "heal" {
		names = append(names, fleet.Manager)
		for _, t := range f.Tiers()[1:] {
			names = append(names, t.Name()+"/"+fleet.Manager)
		}
	}
	return fmt.Errorf("%s %q: there is %s", q.Verb, q.Name, list(names))
}

// list writes names as "a, b and c".
func list(names []string) string {
	if len(names) == 0 {
		return "nothing of that kind"
	}
	text := ""
	for i, name := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			text += " and "
		default:
			text += ", "
		}
		text += name
	}
	return text
}

// noteFault remembers since when something is cut or stopped.
func (s *session) noteFault(q request, now time.Time) {
	s.learn(func(k *facts) {
		if k.broken == nil {
			k.broken = map[string]time.Time{}
		}
		switch q.Verb {
		case "cut", "stop":
			key := q.Verb + " " + q.Name
			if _, there := k.broken[key]; !there {
				k.broken[key] = now
			}
		case "heal":
			delete(k.broken, "cut "+q.Name)
		case "start":
			delete(k.broken, "stop "+q.Name)
		}
	})
}

// faults lists what is cut or stopped, sorted: "cut c2 since 14:02:11".
func (s *session) faults() []string {
	var lines []string
	for what, since := range s.facts().broken {
		lines = append(lines, fmt.Sprintf("%s since %s", what, since.Local().Format("15:04:05")))
	}
	slices.Sort(lines)
	return lines
}
