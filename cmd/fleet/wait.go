package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var waitFormats = []string{formatJSON, formatYAML}

const waitText = `Waits until a repo, bundle or cluster is Ready, and tells on stderr what happens meanwhile.

With --commit it waits until that commit was read and the bundles that it changed are Ready with it; @ is HEAD of the working copy
here. It ends at once when something cannot become Ready without a change (exit 3), unless --keep-waiting. Clusters that are Offline
are not waited for (exit 6; --reachable makes that 0, --all waits for them too).`

// settleTime is how long something must stay Ready where no commit tells old
// news from new.
const settleTime = time.Second

// maxPairs is how many lines the table of a wait has.
const maxPairs = 20

type waitOptions struct {
	kind        kind
	name        string
	commit      string
	about       string // what is known of the commit besides its number
	timeout     time.Duration
	settle      time.Duration
	reachable   bool
	all         bool
	keepWaiting bool
	output      output
}

func newWaitCommand(g *globals, std stdio) *cobra.Command {
	o := waitOptions{settle: settleTime}
	cmd := &cobra.Command{
		Use: "wait KIND/NAME", Short: "Wait until something is Ready", Long: waitText, Args: wantTarget,
		Example:           "  git push && fleet wait repo/examples --commit @ --timeout 2m",
		ValidArgsFunction: g.completeTargets(std, "repos", "bundles", "clusters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args[0]); err != nil {
				return err
			}
			s, err := g.connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			w, err := g.watch(ctx, s, o.deployments())
			if err != nil {
				return err
			}
			return runWait(ctx, o, s, w)
		},
	}
	fs := cmd.Flags()
	o.output.addFlag(fs, waitFormats...)
	fs.StringVar(&o.commit, "commit", "", "wait for this `commit`, whole or its first digits; @ is HEAD here")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "wait so long at most; 0 is without end")
	fs.BoolVar(&o.reachable, "reachable", false, "Offline clusters do not matter")
	fs.BoolVar(&o.all, "all", false, "wait for Offline clusters too")
	fs.BoolVar(&o.keepWaiting, "keep-waiting", false, "go on when something cannot become Ready without a change")
	return cmd
}

// wantTarget refuses a wait for nothing, or for several things.
func wantTarget(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want one KIND/NAME, for example repo/NAME")
	}
	return nil
}

func (o *waitOptions) parse(arg string) (err error) {
	if o.kind, o.name, err = target(arg, "repos", "bundles", "clusters"); err != nil {
		return err
	}
	if err := o.output.check(waitFormats...); err != nil {
		return err
	}
	switch {
	case o.all && o.reachable:
		return errors.New("--all and --reachable exclude each other")
	case o.timeout < 0:
		return errors.New("--timeout must not be below 0")
	case o.commit == "":
		return nil
	case o.kind.plural == "clusters":
		return errors.New("--commit goes with repo/NAME and bundle/NAME")
	case o.commit == "@":
		head, err := git.Head(".")
		if err != nil {
			return fmt.Errorf("--commit @: %w", err)
		}
		o.commit, o.about = string(head.Commit), fmt.Sprintf("%q by %s", head.Title, head.Author)
		return nil
	case len(o.commit) < 4 || len(o.commit) > 64 || strings.Trim(o.commit, "0123456789abcdefABCDEF") != "":
		return fmt.Errorf("--commit %q: want @, or at least 4 digits of a commit", o.commit)
	}
	return nil
}

// deployments is the label selector of what is waited for.
func (o waitOptions) deployments() string {
	switch o.kind.plural {
	case "repos":
		return fleet.LabelRepoName + "=" + o.name
	case "bundles":
		return fleet.LabelBundleName + "=" + o.name
	}
	return fleet.LabelCluster + "=" + o.name
}

// waiting is a wait under way.
type waiting struct {
	o        waitOptions
	s        *session
	began    time.Time
	goals    []view.Goal
	verdicts []view.Verdict
}

// runWait waits and prints what came of it.
func runWait(ctx context.Context, o waitOptions, s *session, w world) error {
	goals, err := o.goals(s, w.Fleet())
	if err != nil {
		return err
	}
	t := &waiting{o: o, s: s, began: s.now(), goals: goals, verdicts: make([]view.Verdict, len(goals))}
	limited := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	end, err := t.until(limited, w)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		t.line("stop", "not in time: "+t.missing()+t.braked(ctx))
	case err != nil:
		return err
	case end == view.Failed:
		t.line("stop", t.stuck())
	}
	return t.report(end)
}

// goals are the objects that are meant: of each workspace the one of that
// name.
func (o waitOptions) goals(s *session, f view.Fleet) ([]view.Goal, error) {
	var hits, all []view.Key
	switch o.kind.plural {
	case "repos":
		hits, all = keysNamed(f.Repositories, o.name)
	case "bundles":
		hits, all = keysNamed(f.Bundles, o.name)
	case "clusters":
		hits, all = keysNamed(f.Clusters, o.name)
	}
	if len(hits) == 0 {
		return nil, o.kind.unknown(o.name, s.scope, all)
	}
	var goals []view.Goal
	for _, key := range hits {
		goals = append(goals, view.Goal{Kind: o.kind.Kind, Key: key, Commit: o.commit, All: o.all, KeepWaiting: o.keepWaiting})
	}
	return goals, nil
}

// until looks again and again until the wait is over.
func (t *waiting) until(ctx context.Context, w world) (view.Progress, error) {
	for {
		end := t.look(w.Fleet())
		if end == view.Waiting {
			if err := w.Next(ctx); err != nil {
				return end, err
			}
			continue
		}
		if t.o.commit != "" || end == view.Failed || t.o.settle == 0 {
			return end, nil
		}
		calm, cancel := context.WithTimeout(ctx, t.o.settle)
		err := w.Next(calm)
		settled := calm.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case settled, errors.Is(err, context.DeadlineExceeded):
			return end, nil
		case err != nil:
			return end, err
		}
	}
}

// look judges all goals, tells what is new and returns what they come to
// together.
func (t *waiting) look(f view.Fleet) view.Progress {
	for i, goal := range t.goals {
		v := view.Judge(goal, f)
		prefix := ""
		if len(t.goals) > 1 {
			prefix = goal.Key.Namespace + ": "
		}
		printLines(t.s.std.err, prefix, view.Story(goal, t.verdicts[i], v, t.about(v), t.s.now()), t.elapsed())
		t.verdicts[i] = v
	}
	return view.Together(t.verdicts)
}

// about is what is known of the commit that a verdict has seen.
func (t *waiting) about(v view.Verdict) string {
	if t.o.about != "" && strings.HasPrefix(v.Commit, t.o.commit) {
		return t.o.about
	}
	return ""
}

func (t *waiting) elapsed() time.Duration { return t.s.now().Sub(t.began) }

func (t *waiting) line(word, text string) {
	printLines(t.s.std.err, "", []view.Line{{Word: word, Text: text}}, t.elapsed())
}

func (t *waiting) missing() string {
	var parts []string
	for _, v := range t.verdicts {
		if text := v.Missing(); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// braked says that the brake is on, if it is.
func (t *waiting) braked(ctx context.Context) string {
	b, err := t.s.brake(ctx)
	if err != nil || !b.On {
		return ""
	}
	return "; rollouts are " + b.Text(t.s.now())
}

func (t *waiting) stuck() string {
	var names []string
	for i, v := range t.verdicts {
		switch {
		case v.End != view.Failed:
		case v.Stuck() != "":
			names = append(names, v.Stuck())
		default:
			names = append(names, t.o.kind.singular+" "+t.goals[i].Key.Name)
		}
	}
	text := strings.Join(names, ", ") + " cannot become Ready without a change"
	if t.o.timeout > 0 {
		text += fmt.Sprintf("; %ds of the timeout not waited for", int((t.o.timeout - t.elapsed()).Seconds()))
	}
	return text
}

// report prints the answer.
func (t *waiting) report(end view.Progress) error {
	var err error
	switch {
	case end == view.Failed || end == view.Waiting:
		err = told{errNotReady}
	case end == view.Deferred && !t.o.reachable:
		err = told{errPartly}
	}
	if t.o.output.machine() {
		if printErr := t.o.output.print(t.s.std.out, t.document(end), false); printErr != nil {
			return printErr
		}
		return err
	}
	if errors.Is(err, errNotReady) {
		t.table()
	}
	for i, v := range t.verdicts {
		text := view.Answer(t.goals[i], v)
		if len(t.goals) > 1 {
			text = t.goals[i].Key.Namespace + ": " + text
		}
		if v.End == view.Failed || v.End == view.Waiting {
			text += ". Why:  " + t.why(t.goals[i], v)
		}
		fmt.Fprintln(t.s.std.out, text)
	}
	return err
}

// table prints the deployments that were waited for; of many only those that
// did not become Ready.
func (t *waiting) table() {
	var pairs []view.Pair
	for _, v := range t.verdicts {
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
	t.s.std.note("")
	tab := table{out: t.s.std.out, width: t.s.std.width(), columns: []column{
		{title: "BUNDLE"}, {title: "CLUSTER"}, {title: "COMMIT"}, {title: "STATE"}, {title: "MESSAGE"},
	}}
	var rows [][]string
	for _, p := range pairs {
		rows = append(rows, []string{p.Bundle.Name, p.Cluster.Name, dash(view.Short(p.Commit)), string(p.State), p.Message})
	}
	tab.print(rows, false)
	if more > 0 {
		fmt.Fprintf(t.s.std.out, "and %d more\n", more)
	}
	fmt.Fprintln(t.s.std.out)
}

// why is the command that tells more about what is not Ready.
func (t *waiting) why(goal view.Goal, v view.Verdict) string {
	for _, p := range v.Pairs {
		if p.Progress == view.Failed || p.Progress == view.Waiting {
			text := fmt.Sprintf("fleet explain %s %s", p.Bundle.Name, p.Cluster.Name)
			if t.s.scope != "" || len(t.goals) > 1 {
				text += " -n " + p.Bundle.Namespace
			}
			return text
		}
	}
	if len(v.Waits) > 0 && len(v.Changed) == 1 {
		return fmt.Sprintf("fleet explain %s -n %s", v.Changed[0], goal.Key.Namespace)
	}
	return fmt.Sprintf("fleet events %s/%s -n %s", t.o.kind.singular, goal.Key.Name, goal.Key.Namespace)
}

func (t *waiting) document(end view.Progress) WaitResult {
	doc := WaitResult{
		Document: document("WaitResult"), Outcome: string(end), Seconds: t.elapsed().Round(time.Millisecond).Seconds(), Goals: []WaitGoal{},
	}
	if end == view.Waiting {
		doc.Outcome = "timeout"
	}
	var answers []string
	for i, v := range t.verdicts {
		goal := t.goals[i]
		answers = append(answers, view.Answer(goal, v))
		g := WaitGoal{
			Kind: goal.Kind, Name: goal.Key.String(), Outcome: string(v.End), Commit: v.Commit, Bundles: v.Bundles,
			Changed: append([]string{}, v.Changed...), Problems: v.Problems(), Deployments: []WaitDeployment{},
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
