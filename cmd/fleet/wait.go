package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var waitFormats = []string{printer.FormatJSON, printer.FormatYAML}

const waitText = `Waits until a repo, bundle or cluster is Ready, and tells on stderr what happens meanwhile.

With --commit it waits until that commit was read, the bundles that it changed are Ready with it and those that it
removed are gone; @ is HEAD of the working copy here. It ends at once, with the cause, when something cannot become
Ready, or the repository cannot be read, without a change (exit 3), unless --keep-waiting. Clusters that are Offline are
not waited for (exit 6; --reachable makes that 0, --include-offline waits for them too).`

// settleTime is how long something must stay Ready where no commit distinguishes old
// reports from new ones.
const settleTime = time.Second

// unsettled says of what became Ready that the time was over before it had stayed so.
const unsettled = "Ready, and not for a second yet"

// statusTime is how long a wait that is over stays until fleet status says the same.
const statusTime = 3 * time.Second

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
	output      printer.Output
}

func newWaitCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := waitOptions{settle: settleTime}
	cmd := &cobra.Command{
		Use: "wait KIND/NAME", Short: "Wait until something is Ready", Long: waitText,
		Example:           "  git push && fleet wait repo/examples --commit @ --timeout 2m",
		ValidArgsFunction: g.completeObjects(std, waitGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args...); err != nil {
				return err
			}
			if o.commit == "" && cmd.Flags().Changed("commit") {
				return errors.New("--commit is empty: want @, or at least 4 digits of a commit")
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			w, err := g.watch(ctx, s, o.selection())
			if err != nil {
				return err
			}
			return runWait(ctx, o, s, w)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, waitFormats...)
	fs.StringVar(&o.commit, "commit", "", "wait for this `commit`, whole or its first digits; @ is HEAD here")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "wait so long at most; 0 is without end")
	fs.BoolVar(&o.reachable, "reachable", false, "Offline clusters do not matter")
	fs.BoolVar(&o.all, "include-offline", false, "wait for Offline clusters too")
	hiddenFlag(fs, "include-offline", "all", "")
	fs.BoolVar(&o.keepWaiting, "keep-waiting", false, "go on when something cannot become Ready without a change")
	return cmd
}

// waitGrammar is what fleet wait works with.
var waitGrammar = grammarOf("repos", "bundles", "clusters")

func (o *waitOptions) parse(args ...string) error {
	ref, err := waitGrammar.one(args)
	if err != nil {
		return err
	}
	o.kind, o.name = ref.kind, ref.name
	if err := o.output.CheckBefore(WaitResult{}, waitFormats...); err != nil {
		return err
	}
	switch {
	case o.all && o.reachable:
		return errors.New("--include-offline and --reachable exclude each other")
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

// selection is what is looked at.
func (o waitOptions) selection() selection {
	switch o.kind.plural {
	case "repos":
		of := fleet.LabelRepoName + "=" + o.name
		return selection{bundles: of, deployments: of}
	case "bundles":
		return selection{deployments: fleet.LabelBundleName + "=" + o.name}
	}
	return selection{deployments: fleet.LabelCluster + "=" + o.name}
}

// waiting is a wait under way.
type waiting struct {
	o        waitOptions
	s        *session
	began    time.Time
	goals    []view.Goal
	verdicts []view.Verdict
	shards   map[string]view.Manager // of what is waited for
}

// runWait waits and prints what came of it.
func runWait(ctx context.Context, o waitOptions, s *session, w world) error {
	goals, err := o.goals(ctx, s, w.Fleet())
	if err != nil {
		return err
	}
	m, err := s.managerOf(ctx, "")
	if err != nil {
		return err
	}
	s.heard(m)
	t := &waiting{o: o, s: s, began: s.now(), goals: goals, verdicts: make([]view.Verdict, len(goals)), shards: map[string]view.Manager{"": m}}
	t.announce(w.Fleet())
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
		end = view.Waiting
		t.line("stop", "not in time: "+cmp.Or(t.missing(), unsettled)+t.braked(ctx))
	case err != nil:
		return err
	case end == view.Failed:
		t.line("stop", t.stuck())
	}
	return t.report(end)
}

// goals are the objects that are meant: of each workspace the one of that
// name.
func (o waitOptions) goals(ctx context.Context, s *session, f view.Fleet) ([]view.Goal, error) {
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
		return nil, s.unknown(ctx, o.kind, o.name, all)
	}
	if len(hits) > 1 {
		s.std.Note("waits for %s %s in %s; -n names one workspace", o.kind.singular, o.name, strings.Join(workspacesIn(hits), ", "))
	}
	var goals []view.Goal
	for _, key := range hits {
		goals = append(goals, view.Goal{Kind: o.kind.Kind, Key: key, Commit: o.commit, All: o.all, KeepWaiting: o.keepWaiting})
	}
	return goals, nil
}

// workspacesIn are the workspaces of keys.
func workspacesIn(keys []view.Key) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key.Namespace
	}
	return out
}

// announce says which commit is waited for, and at which one each repository is that
// is not there yet.
func (t *waiting) announce(f view.Fleet) {
	if t.o.commit == "" || t.o.kind.plural != "repos" {
		return
	}
	for _, repo := range f.Repositories {
		if repo.Name != t.o.name || strings.HasPrefix(repo.Status.Commit, strings.ToLower(t.o.commit)) {
			continue
		}
		at := "was not read yet"
		if repo.Status.Commit != "" {
			at = "is at " + view.Short(repo.Status.Commit)
		}
		t.line("wait", fmt.Sprintf("for %s; repo %s/%s %s", view.Short(t.o.commit), repo.Namespace, repo.Name, at))
	}
}

// until looks again and again until the wait is over.
func (t *waiting) until(ctx context.Context, w world) (view.Progress, error) {
	for settled := false; ; {
		end, proven, err := t.look(ctx, w)
		switch {
		case err != nil:
			return end, err
		case end == view.Waiting:
			settled = false
			if err := w.Next(ctx); err != nil {
				return end, err
			}
			continue
		case settled, end == view.Failed, t.o.settle == 0, t.o.commit != "" && proven:
			t.shown(ctx, w)
			return end, nil
		}
		if settled, err = t.calm(ctx, w); err != nil {
			return end, err
		}
	}
}

// shown returns when the objects that fleet status reads say what has ended the wait, or
// when the manager has had statusTime for that. The verdicts stay as they are.
func (t *waiting) shown(ctx context.Context, w world) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	for i := 0; i < len(t.goals); {
		if view.Shown(t.goals[i], t.verdicts[i], w.Fleet()) {
			i++
		} else if w.Next(ctx) != nil {
			return
		}
	}
}

// calm reports whether nothing happens while something has to stay as it is.
func (t *waiting) calm(ctx context.Context, w world) (bool, error) {
	calm, cancel := context.WithTimeout(ctx, t.o.settle)
	defer cancel()
	err := w.Next(calm)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case calm.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return true, nil
	}
	return false, err
}

// look judges all goals, reports what has changed, and returns their common result, and
// whether the manager itself says which bundles it has written. The parts of the known
// state may be of different moments, so they end no wait: that takes a fleet that is
// read in order.
func (t *waiting) look(ctx context.Context, w world) (end view.Progress, proven bool, err error) {
	t.managed(ctx, w.Fleet())
	now, proven := t.judge(w.Fleet())
	if view.Together(now) != view.Waiting || !proven {
		f, err := t.ordered(ctx, w)
		if err != nil {
			return view.Waiting, false, err
		}
		now, proven = t.judge(f)
	}
	for i, goal := range t.goals {
		prefix := ""
		if len(t.goals) > 1 {
			prefix = goal.Key.Namespace + ": "
		}
		printLines(t.s.std.Err, prefix, view.EventLines(goal, t.verdicts[i], now[i], t.about(now[i]), t.s.now()), t.elapsed())
	}
	t.verdicts = now
	return view.Together(now), proven, nil
}

// ordered reads the fleet in order, again and again while that fails.
func (t *waiting) ordered(ctx context.Context, w world) (view.Fleet, error) {
	for {
		f, err := w.Ordered(ctx)
		if err == nil || ctx.Err() != nil {
			return f, cmp.Or(ctx.Err(), err)
		}
		t.s.trouble(err)
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(retryDelay):
		}
	}
}

// managed looks for the default manager and those of shards: of those that it has not
// seen, and again where one was gone.
func (t *waiting) managed(ctx context.Context, f view.Fleet) {
	for _, id := range append([]string{""}, view.ShardsOf(f)...) {
		if m, known := t.shards[id]; known && !m.Gone() {
			continue
		}
		m, err := t.s.managerOf(ctx, id)
		if err != nil {
			t.s.trouble(err)
			continue
		}
		t.shards[id] = m
	}
}

func (t *waiting) judge(f view.Fleet) (list []view.Verdict, proven bool) {
	proven, f.Shards = true, t.shards
	for _, goal := range t.goals {
		v := view.Judge(goal, f)
		list, proven = append(list, v), proven && !v.Unproven
	}
	return list, proven
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
	printLines(t.s.std.Err, "", []view.EventLine{{Word: word, Text: text}}, t.elapsed())
}
