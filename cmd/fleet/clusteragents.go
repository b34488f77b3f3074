package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
)

const clusterAgentsText = `Shows how far the manager is with updating the agents of its clusters.

Agents are updated in waves. A wave is over when all agents in it have checked in with the new version, and what they deploy is as ready as before; then the
next one begins, at most as large as all before it together. If more than one agent is not well after 10 minutes, no further one is updated until they are, or
until somebody calls the version back: fleet cluster agents rollback. A cluster with label fleet.cattle.io/non-managed-agent is left out.

Exit codes: 0 it could be told; with --exit-code also 3: the update is halted, or not all agents are up to date.`

const clusterAgentsRollbackText = `Calls the version of the agents back that the manager wants: all agents that have it return to the one they had, at once, and no other gets it. This counts until
the manager wants another version, or until fleet cluster agents resume.`

const clusterAgentsResumeText = `Takes back what fleet cluster agents rollback has said: agents are updated again, in waves.`

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

type clusterAgentsOptions struct {
	output   printer.Output
	exitCode bool
	to       string
	reason   string
}

func newClusterAgentsCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o clusterAgentsOptions
	cmd := &cobra.Command{
		Use: "agents", Short: "Show how far the agents are updated; rollback, resume", Long: clusterAgentsText, Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.aboutAgents(cmd.Context(), std, o, runClusterAgents)
		},
	}
	o.output.AddFlag(cmd.Flags(), brakeFormats...)
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "end with 3 if the update is halted or not all agents are up to date")
	var back, on clusterAgentsOptions
	rollback := &cobra.Command{
		Use: "rollback", Short: "Return to the version that agents had", Long: clusterAgentsRollbackText, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.aboutAgents(cmd.Context(), std, back, runAgentsRollback)
		},
	}
	back.output.AddFlag(rollback.Flags(), brakeFormats...)
	rollback.Flags().StringVar(&back.to, "to", "", "`image` for agents that had no other before; default: what most of them had")
	rollback.Flags().StringVar(&back.reason, "reason", "", "why, for everybody to read")
	resume := &cobra.Command{
		Use: "resume", Short: "Update agents again", Long: clusterAgentsResumeText, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.aboutAgents(cmd.Context(), std, on, runAgentsResume)
		},
	}
	on.output.AddFlag(resume.Flags(), brakeFormats...)
	cmd.AddCommand(rollback, resume)
	return cmd
}

// aboutAgents runs a command about the agents of the whole fleet.
func (g *globals) aboutAgents(ctx context.Context, std printer.Stdio, o clusterAgentsOptions, run func(context.Context, clusterAgentsOptions, *session) error) error {
	if err := o.output.CheckBefore(AgentRollout{}, brakeFormats...); err != nil {
		return err
	}
	s, err := g.connect(ctx, std, true)
	if err != nil {
		return err
	}
	return run(ctx, o, s)
}

// agentsNow reads what the manager reports of the agents, and its orders.
func (s *session) agentsNow(ctx context.Context) (agentrollout.State, agentrollout.Order, error) {
	if _, err := s.api.Get(ctx, configMaps, s.system, agentrollout.ConfigMapName); apierrors.IsForbidden(err) {
		return agentrollout.State{}, agentrollout.Order{}, fmt.Errorf("this user may not read what the manager says of agents: %w", err)
	}
	m, err := getAs[corev1.ConfigMap](ctx, s, configMaps, s.system, agentrollout.ConfigMapName)
	if err != nil {
		return agentrollout.State{}, agentrollout.Order{}, err
	}
	if m == nil {
		if err := s.managerAbsent(ctx); err != nil {
			return agentrollout.State{}, agentrollout.Order{}, err
		}
	}
	if m == nil || m.Data[agentrollout.KeyState] == "" {
		return agentrollout.State{}, agentrollout.Order{}, fmt.Errorf(
			"the manager in %s says nothing of agents: it does not update them (chart value manageAgent), or runs elsewhere (--system-namespace)", s.system)
	}
	state, err := agentrollout.ParseState(m.Data[agentrollout.KeyState])
	return state, agentrollout.ParseOrder(m.Data[agentrollout.KeyOrder]), err
}

func runClusterAgents(ctx context.Context, o clusterAgentsOptions, s *session) error {
	state, order, err := s.agentsNow(ctx)
	if err != nil {
		return err
	}
	if o.output.Machine() {
		err = o.output.Print(s.std, rolloutOf(state, order), false)
	} else {
		err = printAgents(s.std.Out, state)
	}
	if err == nil && o.exitCode && (state.Phase != agentrollout.Current || state.UpToDate < state.Agents) {
		return endingWith(errNotReady)
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
	printer.Say(out, "%s: %s\n", s.Phase, s.Message)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tFROM\tAGENTS\tCURRENT\tWAITING\tOFFLINE\tHELD\tFAILED")
	printer.Say(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Image, dash(s.From), s.Agents, s.UpToDate, s.Wave, s.Offline, s.Held, s.FailedCount)
	if err := w.Flush(); err != nil || len(s.Failed) == 0 {
		return err
	}
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FAILED\tREASON")
	for _, f := range s.Failed {
		printer.Say(w, "%s\t%s\n", f.Cluster, f.Reason)
	}
	if more := s.FailedCount - len(s.Failed); more > 0 {
		printer.Say(w, "and %d more\t\n", more)
	}
	if err := w.Flush(); err != nil || s.Phase != agentrollout.Halted {
		return err
	}
	_, err := fmt.Fprintln(out, "\nto return to the version before:  fleet cluster agents rollback")
	return err
}

func runAgentsRollback(ctx context.Context, o clusterAgentsOptions, s *session) error {
	state, order, err := s.agentsNow(ctx)
	if err != nil {
		return err
	}
	if state.Phase == agentrollout.Returned {
		return fmt.Errorf("%w: %s was called back already; fleet cluster agents shows how far it is", errRefused, order.Image)
	}
	to := o.to
	if to == "" {
		to = state.From
	}
	if to == "" {
		return fmt.Errorf("%w: no agent was updated to %s from another version; name the image to return to: --to IMAGE", errRefused, state.Image)
	}
	if to == state.Image {
		return fmt.Errorf("--to %s: that is the image that agents should have now", to)
	}
	s.std.Note("%s, all workspaces", s.server)
	order = agentrollout.Order{Image: state.Image, To: to, By: s.whoami(ctx), Reason: o.reason, At: s.now().UTC().Truncate(time.Second)}
	if err := s.reportAgents(ctx, order.String()); err != nil {
		return err
	}
	if o.output.Machine() {
		state.Phase = agentrollout.Returned
		return o.output.Print(s.std, rolloutOf(state, order), false)
	}
	printer.Say(s.std.Out, "called back: %s; agents that have it return to %s\nto see how far they are:  fleet cluster agents\n", order.Image, to)
	return nil
}

func runAgentsResume(ctx context.Context, o clusterAgentsOptions, s *session) error {
	state, order, err := s.agentsNow(ctx)
	if err != nil {
		return err
	}
	text := "nothing was called back\n"
	if order != (agentrollout.Order{}) {
		s.std.Note("%s, all workspaces", s.server)
		if err := s.reportAgents(ctx, nil); err != nil {
			return err
		}
		text = fmt.Sprintf("agents are updated to %s again\n", order.Image)
		state.Phase = agentrollout.Rolling
	}
	if o.output.Machine() {
		return o.output.Print(s.std, rolloutOf(state, agentrollout.Order{}), false)
	}
	_, err = io.WriteString(s.std.Out, text)
	return err
}

// reportAgents writes an order, or nil for none.
func (s *session) reportAgents(ctx context.Context, order any) error {
	body, err := json.Marshal(map[string]any{"data": map[string]any{agentrollout.KeyOrder: order}})
	if err != nil {
		return err
	}
	_, err = s.api.Patch(ctx, configMaps, s.system, agentrollout.ConfigMapName, body)
	if err != nil {
		return reached(s.server, fmt.Errorf("write the order: %w", err))
	}
	return nil
}
