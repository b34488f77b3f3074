package wait

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// missingText is what is still waited for, and whether the commit was read at all.
func (wt *waiting) missingText() string {
	var parts []string
	for _, v := range wt.verdicts {
		if text := v.MissingText(); text != "" {
			if wt.o.Commit != "" && !v.Seen && !strings.HasPrefix(v.Commit, strings.ToLower(wt.o.Commit)) {
				text = "commit " + view.ShortCommit(wt.o.Commit) + " was not read, " + text
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// globalPauseText says that the brake is on, if it is.
func (wt *waiting) globalPauseText(ctx context.Context) string {
	b, err := wt.s.GlobalPause(ctx)
	if err != nil || !b.On {
		return ""
	}
	return "; rollouts are " + b.Text(wt.s.Now())
}

func (wt *waiting) stuckText() string {
	var names []string
	for i, v := range wt.verdicts {
		switch {
		case v.End != view.Failed:
		case v.StuckText() != "":
			names = append(names, v.StuckText())
		default:
			names = append(names, wt.o.Kind.Singular+" "+wt.goals[i].Key.Name)
		}
	}
	text := strings.Join(names, ", ") + " cannot become Ready without a change"
	if wt.o.Timeout > 0 {
		text += fmt.Sprintf("; %ds of the timeout not waited for", int((wt.o.Timeout - wt.elapsed()).Seconds()))
	}
	return text
}

// report prints the answer.
func (wt *waiting) report(end view.Progress) error {
	var err error
	switch {
	case end == view.Failed || end == view.Waiting:
		err = cli.EndingWith(cli.ErrNotReady)
	case end == view.Deferred && !wt.o.Reachable:
		err = cli.EndingWith(cli.ErrPartly)
	}
	if wt.o.Output.IsMachineReadable() {
		if printErr := wt.o.Output.Print(wt.s.Std, wt.document(end), false); printErr != nil {
			return printErr
		}
		return err
	}
	if errors.Is(err, cli.ErrNotReady) {
		wt.table()
	}
	for i, v := range wt.verdicts {
		text := view.Answer(wt.goals[i], v)
		switch {
		case v.End == "":
			text = "not Ready: nothing was read in time"
		case v.End == view.Reached && end == view.Waiting && len(wt.verdicts) == 1:
			text = "not in time: " + text + ", and not for a second yet"
		}
		if len(wt.goals) > 1 {
			text = wt.goals[i].Key.Namespace + ": " + text
		}
		switch {
		case v.End == view.Failed, v.End == view.Waiting && end != view.Failed:
			text += ". Why:  " + wt.explainCommand(wt.goals[i], v)
		case v.End == view.Waiting:
			text += "; not waited for any longer"
		}
		printer.Fprintf(wt.s.Std.Out, "%s\n", text)
	}
	return err
}

// table prints the deployments that were waited for; of many only those that
// did not become Ready.
func (wt *waiting) table() {
	var pairs []view.Pair
	for _, v := range wt.verdicts {
		pairs = append(pairs, v.Pairs...)
	}
	more := 0
	if len(pairs) > maxPairs {
		pairs = slices.DeleteFunc(pairs, func(p view.Pair) bool { return p.Progress == view.Reached })
		more = max(0, len(pairs)-maxPairs)
		pairs = pairs[:len(pairs)-more]
	}
	if len(pairs) == 0 {
		return
	}
	wt.s.Std.Note("")
	tab := printer.Table{Out: wt.s.Std.Out, Width: wt.s.Std.Width(), Columns: []printer.Column{
		{Title: "BUNDLE"}, {Title: "CLUSTER"}, {Title: "COMMIT", Drop: 1}, {Title: "STATE", State: true}, {Title: "MESSAGE", Text: true},
	}}
	var rows [][]string
	for _, p := range pairs {
		rows = append(rows, []string{p.Bundle.Name, p.Cluster.Name, printer.OrDash(view.ShortCommit(p.Commit)), string(p.State), p.Message})
	}
	tab.Print(rows, false)
	if more > 0 {
		printer.Fprintf(wt.s.Std.Out, "and %d more\n", more)
	}
	fmt.Fprintln(wt.s.Std.Out)
}

// explainCommand returns the command that shows more about what is not Ready: first about what has
// failed, and not about what waits.
func (wt *waiting) explainCommand(goal view.Goal, v view.Verdict) string {
	if v.Stopped() {
		return "fleet check"
	}
	p, found := v.WorstPair()
	if found && (p.Progress == view.Failed || len(v.Faults) == 0) {
		text := fmt.Sprintf("fleet explain %s %s", p.Bundle.Name, p.Cluster.Name)
		if wt.s.Scope != "" || len(wt.goals) > 1 {
			text += " -n " + p.Bundle.Namespace
		}
		return text
	}
	bundle := v.Faulty
	if len(v.Faults) == 0 && len(v.Waits) > 0 && len(v.Changed) == 1 {
		bundle = v.Changed[0]
	}
	if bundle != "" {
		return fmt.Sprintf("fleet explain %s -n %s", bundle, goal.Key.Namespace)
	}
	return fmt.Sprintf("fleet events %s/%s -n %s", wt.o.Kind.Singular, goal.Key.Name, goal.Key.Namespace)
}

func (wt *waiting) document(end view.Progress) WaitResult {
	doc := WaitResult{
		Document: printer.NewDocument("WaitResult"), Outcome: string(end), Seconds: wt.elapsed().Round(time.Millisecond).Seconds(), Goals: []WaitGoal{},
	}
	if end == view.Waiting {
		doc.Outcome = "timeout"
	}
	var answers []string
	for i, v := range wt.verdicts {
		goal := wt.goals[i]
		answers = append(answers, view.Answer(goal, v))
		g := WaitGoal{
			Kind: goal.Kind, Name: goal.Key.String(), Outcome: string(v.End), Commit: v.Commit, Bundles: v.Bundles,
			Changed: append([]string{}, v.Changed...), Removed: v.Removed, Problems: v.Problems(), Deployments: []WaitDeployment{},
		}
		for _, p := range v.Pairs {
			d := WaitDeployment{
				Bundle: p.Bundle.String(), Cluster: p.Cluster.String(), Outcome: string(p.Progress), State: string(p.State),
				Commit: p.Commit, Wanted: p.Wanted, Reason: p.Reason, Message: p.Message,
			}
			if !p.LastSeen.IsZero() {
				at := p.LastSeen.UTC()
				d.LastSeen = &at
			}
			g.Deployments = append(g.Deployments, d)
		}
		doc.Goals = append(doc.Goals, g)
	}
	doc.Message = strings.Join(answers, "; ")
	return doc
}
