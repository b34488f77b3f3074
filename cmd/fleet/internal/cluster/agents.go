package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
)

// AgentRollout is what fleet cluster agents prints.
type AgentRollout struct {
	printer.Document
	// Phase is Current, Rolling, Halted or Returned.
	Phase string `json:"phase"`
	// Message says the same in one line.
	Message string `json:"message"`
	// Image is the one that agents should have.
	Image string `json:"image"`
	// From is the one that most of those had which were updated.
	From string `json:"from,omitempty"`
	// Agents is how many there are, and Current how many have what they should.
	Agents  int `json:"agents"`
	Current int `json:"current"`
	// Waiting is how many are waited for now.
	Waiting int `json:"waiting"`
	// Offline and Held get theirs later: when they are back, or when changes are
	// let through there.
	Offline int `json:"offline"`
	Held    int `json:"held"`
	// Failed are those that are not well since they were updated, at most 10.
	Failed []FailedAgent `json:"failed,omitempty"`
	// FailedCount is how many these are.
	FailedCount int `json:"failedCount"`
	// CalledBack says who has called an image back.
	CalledBack *CalledBack `json:"calledBack,omitempty"`
}

// FailedAgent is one that is not well since it was updated.
type FailedAgent struct {
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// Reason in words.
	Reason string `json:"reason"`
}

// CalledBack is an order to return from one image to another.
type CalledBack struct {
	// Image that agents return from.
	Image string `json:"image"`
	// To is the image of those that have had none before.
	To string `json:"to"`
	// By is the user.
	By string `json:"by,omitempty"`
	// Reason is what the user gave.
	Reason string `json:"reason,omitempty"`
	// At is when.
	At time.Time `json:"at"`
}

// AgentsOptions are the flags and the arguments of fleet cluster agents.
type AgentsOptions struct {
	Output   printer.Output
	ExitCode bool
	To       string
	Reason   string
}

// AboutAgents runs a command about the agents of the whole fleet.
func AboutAgents(ctx context.Context, g *client.Globals, std printer.Stdio, o AgentsOptions, run func(context.Context, AgentsOptions, *client.Session) error) error {
	if err := o.Output.CheckBefore(AgentRollout{}, cli.DocumentFormats...); err != nil {
		return err
	}
	s, err := g.Connect(ctx, std, true)
	if err != nil {
		return err
	}
	return run(ctx, o, s)
}

// agentsNow reads what the manager reports of the agents, and its orders.
func agentsNow(ctx context.Context, s *client.Session) (agentrollout.State, agentrollout.Order, error) {
	if _, err := s.API.Get(ctx, client.ConfigMaps, s.System, agentrollout.ConfigMapName); apierrors.IsForbidden(err) {
		return agentrollout.State{}, agentrollout.Order{}, fmt.Errorf("this user may not read what the manager says of agents: %w", err)
	}
	m, err := client.GetAs[corev1.ConfigMap](ctx, s, client.ConfigMaps, s.System, agentrollout.ConfigMapName)
	if err != nil {
		return agentrollout.State{}, agentrollout.Order{}, err
	}
	if m == nil {
		if err := s.ManagerAbsent(ctx); err != nil {
			return agentrollout.State{}, agentrollout.Order{}, err
		}
	}
	if m == nil || m.Data[agentrollout.KeyState] == "" {
		return agentrollout.State{}, agentrollout.Order{}, fmt.Errorf(
			"the manager in %s says nothing of agents: it does not update them (chart value manageAgent), or runs elsewhere (--system-namespace)", s.System)
	}
	state, err := agentrollout.ParseState(m.Data[agentrollout.KeyState])
	return state, agentrollout.ParseOrder(m.Data[agentrollout.KeyOrder]), err
}

// Agents prints how far the manager is with updating agents.
func Agents(ctx context.Context, o AgentsOptions, s *client.Session) error {
	state, order, err := agentsNow(ctx, s)
	if err != nil {
		return err
	}
	if o.Output.IsMachineReadable() {
		err = o.Output.Print(s.Std, rolloutOf(state, order), false)
	} else {
		err = printAgents(s.Std.Out, state)
	}
	if err == nil && o.ExitCode && (state.Phase != agentrollout.Current || state.UpToDate < state.Agents) {
		return cli.EndingWith(cli.ErrNotReady)
	}
	return err
}

func rolloutOf(s agentrollout.State, order agentrollout.Order) AgentRollout {
	out := AgentRollout{
		Document: printer.NewDocument("AgentRollout"), Phase: string(s.Phase), Message: s.Message, Image: s.Image, From: s.From,
		Agents: s.Agents, Current: s.UpToDate, Waiting: s.Wave, Offline: s.Offline, Held: s.Held, FailedCount: s.FailedCount,
	}
	for _, f := range s.Failed {
		out.Failed = append(out.Failed, FailedAgent(f))
	}
	if s.Phase == agentrollout.Returned {
		out.CalledBack = &CalledBack{Image: order.Image, To: order.To, By: order.By, Reason: order.Reason, At: order.At}
	}
	return out
}

func printAgents(out io.Writer, s agentrollout.State) error {
	printer.Fprintf(out, "%s: %s\n", s.Phase, s.Message)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tFROM\tAGENTS\tCURRENT\tWAITING\tOFFLINE\tHELD\tFAILED")
	printer.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Image, printer.OrDash(s.From), s.Agents, s.UpToDate, s.Wave, s.Offline, s.Held, s.FailedCount)
	if err := w.Flush(); err != nil || len(s.Failed) == 0 {
		return err
	}
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FAILED\tREASON")
	for _, f := range s.Failed {
		printer.Fprintf(w, "%s\t%s\n", f.Cluster, f.Reason)
	}
	if more := s.FailedCount - len(s.Failed); more > 0 {
		printer.Fprintf(w, "and %d more\t\n", more)
	}
	if err := w.Flush(); err != nil || s.Phase != agentrollout.Halted {
		return err
	}
	_, err := fmt.Fprintln(out, "\nto return to the version before:  fleet cluster agents rollback")
	return err
}

// RollbackAgents calls the version back that agents are updated to.
func RollbackAgents(ctx context.Context, o AgentsOptions, s *client.Session) error {
	state, order, err := agentsNow(ctx, s)
	if err != nil {
		return err
	}
	if state.Phase == agentrollout.Returned {
		return fmt.Errorf("%w: %s was called back already; fleet cluster agents shows how far it is", cli.ErrRefused, order.Image)
	}
	to := o.To
	if to == "" {
		to = state.From
	}
	if to == "" {
		return fmt.Errorf("%w: no agent was updated to %s from another version; name the image to return to: --to IMAGE", cli.ErrRefused, state.Image)
	}
	if to == state.Image {
		return fmt.Errorf("--to %s: that is the image that agents should have now", to)
	}
	s.Std.Note("%s, all workspaces", s.Server)
	order = agentrollout.Order{Image: state.Image, To: to, By: s.UserName(ctx), Reason: o.Reason, At: s.Now().UTC().Truncate(time.Second)}
	if err := reportAgents(ctx, s, order.String()); err != nil {
		return err
	}
	if o.Output.IsMachineReadable() {
		state.Phase = agentrollout.Returned
		return o.Output.Print(s.Std, rolloutOf(state, order), false)
	}
	printer.Fprintf(s.Std.Out, "called back: %s; agents that have it return to %s\nto see how far they are:  fleet cluster agents\n", order.Image, to)
	return nil
}

// ResumeAgents takes back what RollbackAgents has said.
func ResumeAgents(ctx context.Context, o AgentsOptions, s *client.Session) error {
	state, order, err := agentsNow(ctx, s)
	if err != nil {
		return err
	}
	text := "nothing was called back\n"
	if order != (agentrollout.Order{}) {
		s.Std.Note("%s, all workspaces", s.Server)
		if err := reportAgents(ctx, s, nil); err != nil {
			return err
		}
		text = fmt.Sprintf("agents are updated to %s again\n", order.Image)
		state.Phase = agentrollout.Rolling
	}
	if o.Output.IsMachineReadable() {
		return o.Output.Print(s.Std, rolloutOf(state, agentrollout.Order{}), false)
	}
	_, err = io.WriteString(s.Std.Out, text)
	return err
}

// reportAgents writes an order, or nil for none.
func reportAgents(ctx context.Context, s *client.Session, order any) error {
	body, err := json.Marshal(map[string]any{"data": map[string]any{agentrollout.KeyOrder: order}})
	if err != nil {
		return err
	}
	_, err = s.API.Patch(ctx, client.ConfigMaps, s.System, agentrollout.ConfigMapName, body)
	if err != nil {
		return client.DescribeServerError(s.Server, fmt.Errorf("write the order: %w", err))
	}
	return nil
}
