package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatJSON, printer.FormatYAML}

// SettleTime is how long something must stay Ready where no commit distinguishes old
// reports from new ones.
const SettleTime = time.Second

// Unsettled says of what became Ready that the time was over before it had stayed so.
const Unsettled = "Ready, and not for a second yet"

// statusTime is how long a wait that is over stays until fleet status says the same.
const statusTime = 3 * time.Second

// maxPairs is how many lines the table of a wait has.
const maxPairs = 20

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Kind        cli.Kind
	Name        string
	Commit      string
	About       string // what is known of the commit besides its number
	Timeout     time.Duration
	Settle      time.Duration
	Reachable   bool
	All         bool
	KeepWaiting bool
	Output      printer.Output
}

// Grammar is what fleet wait works with.
var Grammar = cli.GrammarOf("repos", "helmops", "bundles", "clusters")

// Parse reads the arguments, and refuses flags that do not go together.
func (o *Options) Parse(args ...string) error {
	ref, err := Grammar.ParseOne(args)
	if err != nil {
		return err
	}
	o.Kind, o.Name = ref.Kind, ref.Name
	if err := o.Output.CheckBefore(WaitResult{}, Formats...); err != nil {
		return err
	}
	switch {
	case o.All && o.Reachable:
		return errors.New("--include-offline and --reachable exclude each other")
	case o.Timeout < 0:
		return errors.New("--timeout must not be below 0")
	case o.Commit == "":
		return nil
	case o.Kind.Plural == "clusters" || o.Kind.Plural == "helmops":
		return errors.New("--commit goes with repo/NAME and bundle/NAME")
	case o.Commit == "@":
		head, err := git.Head(".")
		if err != nil {
			return fmt.Errorf("--commit @: %w", err)
		}
		o.Commit, o.About = string(head.Commit), fmt.Sprintf("%q by %s", head.Title, head.Author)
		return nil
	case len(o.Commit) < 4 || len(o.Commit) > 64 || strings.Trim(o.Commit, "0123456789abcdefABCDEF") != "":
		return fmt.Errorf("--commit %q: want @, or at least 4 digits of a commit", o.Commit)
	}
	return nil
}

// Selection is what is looked at.
func (o Options) Selection() client.Selection {
	switch o.Kind.Plural {
	case "repos":
		of := fleet.LabelRepoName + "=" + o.Name
		return client.Selection{Bundles: of, Deployments: of}
	case "helmops":
		return client.Selection{HelmOps: true, Bundles: fleet.LabelHelmOpName + "=" + o.Name, Deployments: fleet.LabelBundleName + "=" + o.Name}
	case "bundles":
		return client.Selection{Deployments: fleet.LabelBundleName + "=" + o.Name}
	}
	return client.Selection{Deployments: fleet.LabelCluster + "=" + o.Name}
}

// waiting is a wait under way.
type waiting struct {
	o        Options
	s        *client.Session
	began    time.Time
	goals    []view.Goal
	verdicts []view.Verdict
	shards   map[string]view.Manager // of what is waited for
}

// Run waits and prints what came of it.
func Run(ctx context.Context, o Options, s *client.Session, w client.FleetWatch) error {
	goals, err := o.goals(ctx, s, w.Fleet())
	if err != nil {
		return err
	}
	m, err := s.ManagerOf(ctx, "")
	if err != nil {
		return err
	}
	s.NoteSilentManager(m)
	t := &waiting{o: o, s: s, began: s.Now(), goals: goals, verdicts: make([]view.Verdict, len(goals)), shards: map[string]view.Manager{"": m}}
	t.announce(w.Fleet())
	limited := ctx
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	end, err := t.awaitGoals(limited, w)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		end = view.Waiting
		t.line("stop", "not in time: "+cmp.Or(t.missingText(), Unsettled)+t.globalPauseText(ctx))
	case err != nil:
		return err
	case end == view.Failed:
		t.line("stop", t.stuckText())
	}
	return t.report(end)
}

// goals are the objects that are meant: of each workspace the one of that
// name.
func (o Options) goals(ctx context.Context, s *client.Session, f view.Fleet) ([]view.Goal, error) {
	var hits, all []view.Key
	switch o.Kind.Plural {
	case "repos":
		hits, all = client.KeysNamed(f.Repositories, o.Name)
	case "helmops":
		hits, all = client.KeysNamed(f.HelmOps, o.Name)
	case "bundles":
		hits, all = client.KeysNamed(f.Bundles, o.Name)
	case "clusters":
		hits, all = client.KeysNamed(f.Clusters, o.Name)
	}
	if len(hits) == 0 {
		return nil, s.Unknown(ctx, o.Kind, o.Name, all)
	}
	if len(hits) > 1 {
		s.Std.Note("waits for %s %s in %s; -n names one workspace", o.Kind.Singular, o.Name, strings.Join(client.WorkspacesIn(hits), ", "))
	}
	var goals []view.Goal
	for _, key := range hits {
		goals = append(goals, view.Goal{Kind: o.Kind.Kind, Key: key, Commit: o.Commit, All: o.All, KeepWaiting: o.KeepWaiting})
	}
	return goals, nil
}

// announce says which commit is waited for, and at which one each repository is that
// is not there yet.
func (wt *waiting) announce(f view.Fleet) {
	if wt.o.Commit == "" || wt.o.Kind.Plural != "repos" {
		return
	}
	for _, repo := range f.Repositories {
		if repo.Name != wt.o.Name || strings.HasPrefix(repo.Status.Commit, strings.ToLower(wt.o.Commit)) {
			continue
		}
		at := "was not read yet"
		if repo.Status.Commit != "" {
			at = "is at " + view.ShortCommit(repo.Status.Commit)
		}
		wt.line("wait", fmt.Sprintf("for %s; repo %s/%s %s", view.ShortCommit(wt.o.Commit), repo.Namespace, repo.Name, at))
	}
}

// awaitGoals looks again and again until the wait is over.
func (wt *waiting) awaitGoals(ctx context.Context, w client.FleetWatch) (view.Progress, error) {
	for settled := false; ; {
		end, proven, err := wt.pollGoals(ctx, w)
		switch {
		case err != nil:
			return end, err
		case end == view.Waiting:
			settled = false
			if err := w.Next(ctx); err != nil {
				return end, err
			}
			continue
		case settled, end == view.Failed, wt.o.Settle == 0, wt.o.Commit != "" && proven:
			wt.awaitReflected(ctx, w)
			return end, nil
		}
		if settled, err = wt.staysUnchanged(ctx, w); err != nil {
			return end, err
		}
	}
}

// awaitReflected returns when the objects that fleet status reads say what has ended the wait, or
// when the manager has had statusTime for that. The verdicts stay as they are.
func (wt *waiting) awaitReflected(ctx context.Context, w client.FleetWatch) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	for i := 0; i < len(wt.goals); {
		if view.Reflected(wt.goals[i], wt.verdicts[i], w.Fleet()) {
			i++
		} else if w.Next(ctx) != nil {
			return
		}
	}
}

// staysUnchanged reports whether nothing happens while something has to stay as it is.
func (wt *waiting) staysUnchanged(ctx context.Context, w client.FleetWatch) (bool, error) {
	calm, cancel := context.WithTimeout(ctx, wt.o.Settle)
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

// pollGoals judges all goals, reports what has changed, and returns their common result, and
// whether the manager itself says which bundles it has written. The parts of the known
// state may be of different moments, so they end no wait: that takes a fleet that is
// read in order.
func (wt *waiting) pollGoals(ctx context.Context, w client.FleetWatch) (end view.Progress, proven bool, err error) {
	wt.managed(ctx, w.Fleet())
	now, proven := wt.evaluateGoals(w.Fleet())
	if view.Combine(now) != view.Waiting || !proven {
		f, err := wt.ordered(ctx, w)
		if err != nil {
			return view.Waiting, false, err
		}
		now, proven = wt.evaluateGoals(f)
	}
	for i, goal := range wt.goals {
		prefix := ""
		if len(wt.goals) > 1 {
			prefix = goal.Key.Namespace + ": "
		}
		printer.PrintLines(wt.s.Std.Err, prefix, view.EventLines(goal, wt.verdicts[i], now[i], wt.commitText(now[i]), wt.s.Now()), wt.elapsed())
	}
	wt.verdicts = now
	return view.Combine(now), proven, nil
}

// ordered reads the fleet in order, again and again while that fails.
func (wt *waiting) ordered(ctx context.Context, w client.FleetWatch) (view.Fleet, error) {
	for {
		f, err := w.Ordered(ctx)
		if err == nil || ctx.Err() != nil {
			return f, cmp.Or(ctx.Err(), err)
		}
		wt.s.NoteWatchError(err)
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(client.RetryDelay):
		}
	}
}

// managed looks for the default manager and those of shards: of those that it has not
// seen, and again where one was gone.
func (wt *waiting) managed(ctx context.Context, f view.Fleet) {
	for _, id := range append([]string{""}, view.ShardsOf(f)...) {
		if m, known := wt.shards[id]; known && !m.IsGone() {
			continue
		}
		m, err := wt.s.ManagerOf(ctx, id)
		if err != nil {
			wt.s.NoteWatchError(err)
			continue
		}
		wt.shards[id] = m
	}
}

func (wt *waiting) evaluateGoals(f view.Fleet) (list []view.Verdict, proven bool) {
	proven, f.Shards = true, wt.shards
	for _, goal := range wt.goals {
		v := view.Evaluate(goal, f)
		list, proven = append(list, v), proven && !v.Unproven
	}
	return list, proven
}

// commitText is what is known of the commit that a verdict has seen.
func (wt *waiting) commitText(v view.Verdict) string {
	if wt.o.About != "" && strings.HasPrefix(v.Commit, wt.o.Commit) {
		return wt.o.About
	}
	return ""
}

func (wt *waiting) elapsed() time.Duration { return wt.s.Now().Sub(wt.began) }

func (wt *waiting) line(word, text string) {
	printer.PrintLines(wt.s.Std.Err, "", []view.EventLine{{Word: word, Text: text}}, wt.elapsed())
}
