package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
)

// named is how many names stand in one line.
const named = 5

// An EventLine is one step of a wait: a word for what happened, and the rest.
type EventLine struct {
	Word string // seen, warn, wait, write, remove, gone, ready, fail or defer
	Text string
}

// EventLines returns the lines about what happened to a goal between two verdicts. The zero
// Verdict stands for the time before the first look. about is what is known of the commit
// besides its number: title and author, or nothing.
func EventLines(goal Goal, before, after Verdict, about string, now time.Time) []EventLine {
	t := eventWriter{before: index(before), after: after, now: now}
	if after.Seen && !before.Seen && after.Commit != "" && (goal.Kind == "GitRepo" || goal.Commit != "") {
		t.addEvent("seen", changedBundlesText(goal, after, about))
	}
	if after.Warnings != "" && after.Warnings != before.Warnings {
		t.addEvent("warn", after.Warnings)
	}
	if after.Trouble != "" && after.Trouble != before.Trouble {
		t.addEvent("wait", after.Trouble)
	}
	for _, fault := range after.Faults {
		if !slices.Contains(before.Faults, fault) {
			t.addEvent("fail", fault)
		}
	}
	t.written()
	t.removed(goal, before)
	t.ready()
	t.addFailed()
	t.addDeferred()
	return t.lines
}

type pairKey struct{ bundle, cluster Key }

func index(v Verdict) map[pairKey]Pair {
	out := make(map[pairKey]Pair, len(v.Pairs))
	for _, p := range v.Pairs {
		out[pairKey{p.Bundle, p.Cluster}] = p
	}
	return out
}

type eventWriter struct {
	before map[pairKey]Pair
	after  Verdict
	now    time.Time
	lines  []EventLine
}

func (e *eventWriter) addEvent(word, text string) { e.lines = append(e.lines, EventLine{word, text}) }

func (e *eventWriter) previousPair(p Pair) Pair { return e.before[pairKey{p.Bundle, p.Cluster}] }

// changedBundlesText says which bundles a commit changed.
func changedBundlesText(goal Goal, v Verdict, about string) string {
	commit := ShortCommit(v.Commit)
	if about != "" {
		commit += " " + about
	}
	if goal.Commit == "" {
		return fmt.Sprintf("%s: %s", commit, bundles(v.Bundles))
	}
	text := fmt.Sprintf("%s: %d of %s changed", commit, len(v.Changed), bundles(v.Bundles))
	if len(v.Changed) > 0 {
		text += " (" + shortNames(goal, v.Changed) + ")"
	}
	if len(v.Removed) > 0 {
		text += fmt.Sprintf(", %d removed (%s)", len(v.Removed), shortNames(goal, v.Removed))
	}
	return text
}

// shortNames are names of bundles without the name of their repository.
func shortNames(goal Goal, names []string) string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = strings.TrimPrefix(name, goal.Key.Name+"-")
	}
	return List(short, named)
}

// written adds for each bundle a line with the clusters to which it was written, unless
// they are Ready already.
func (e *eventWriter) written() {
	var bundles []Key
	to := map[Key][]string{}
	for _, p := range e.after.Pairs {
		if !p.Written || e.previousPair(p).Written || p.Progress == Reached || p.State == fleet.Ready {
			continue
		}
		if to[p.Bundle] == nil {
			bundles = append(bundles, p.Bundle)
		}
		to[p.Bundle] = append(to[p.Bundle], p.Cluster.Name)
	}
	for _, b := range bundles {
		e.addEvent("write", fmt.Sprintf("%s to %s", b.Name, List(to[b], named)))
	}
}

// removed says which bundles are being removed and from where, and which are gone.
// The manager may hold a removal after it has marked the bundles: they are not gone.
func (e *eventWriter) removed(goal Goal, before Verdict) {
	if goal.Kind != "GitRepo" || !e.after.Seen {
		return
	}
	was, is := map[Key]Removal{}, map[Key]bool{}
	for _, r := range before.Removals {
		was[r.Bundle] = r
	}
	for _, r := range e.after.Removals {
		is[r.Bundle] = true
		old, known := was[r.Bundle]
		text := r.Bundle.Name
		if len(r.Clusters) > 0 {
			text += " from " + List(r.Clusters, named)
		}
		if !known && r.Progress == Waiting {
			e.addEvent("remove", text)
		}
		if len(r.Away) > 0 && r.Progress == Deferred && old.Progress != Deferred {
			e.addEvent("defer", fmt.Sprintf("%s: Offline; %s is removed there when it is back", List(r.Away, named), r.Bundle.Name))
		}
	}
	for _, r := range before.Removals {
		if !is[r.Bundle] && !slices.Contains(e.after.Held, r.Bundle) {
			e.addEvent("gone", r.Bundle.Name)
		}
	}
}

// ready reports which clusters have everything now.
func (e *eventWriter) ready() {
	var names []string
	for _, c := range e.after.clusters() {
		fresh, all := false, true
		for _, p := range c.pairs {
			all = all && p.Progress == Reached
			fresh = fresh || e.previousPair(p).Progress != Reached
		}
		if all && fresh {
			names = append(names, c.key.Name)
		}
	}
	if len(names) > 0 {
		e.addEvent("ready", List(names, named))
	}
}

// addFailed reports what cannot become Ready, clusters with the same text together.
func (e *eventWriter) addFailed() {
	var texts []string
	on := map[string][]string{}
	for _, p := range e.after.Pairs {
		if p.Progress != Failed || e.previousPair(p).Progress == Failed && e.previousPair(p).Message == p.Message {
			continue
		}
		text := p.Message
		if len(e.after.Changed) > 1 {
			text = p.Bundle.Name + ": " + text
		}
		if on[text] == nil {
			texts = append(texts, text)
		}
		on[text] = append(on[text], p.Cluster.Name)
	}
	for _, text := range texts {
		e.addEvent("fail", fmt.Sprintf("%s: %s", List(on[text], named), text))
	}
}

// addDeferred reports which clusters are away.
func (e *eventWriter) addDeferred() {
	reported := map[Key]bool{}
	for _, p := range e.after.Pairs {
		if p.Progress != Deferred || e.previousPair(p).Progress == Deferred || reported[p.Cluster] {
			continue
		}
		reported[p.Cluster] = true
		last := "never seen"
		if !p.LastSeen.IsZero() {
			last = fmt.Sprintf("last seen %s (%s ago)", Clock(p.LastSeen, e.now), Ago(p.LastSeen, e.now))
		}
		what := "was Ready then"
		if slices.ContainsFunc(e.after.Pairs, func(o Pair) bool { return o.Cluster == p.Cluster && (o.State != fleet.Ready || !o.Written) }) {
			what = "takes the newest when it is back"
		}
		e.addEvent("defer", fmt.Sprintf("%s: Offline, %s; %s", p.Cluster.Name, last, what))
	}
}

// onCluster are the pairs of one cluster.
type onCluster struct {
	key   Key
	pairs []Pair
}

// clusters are the pairs by cluster, in order.
func (v Verdict) clusters() []onCluster {
	at := map[Key]int{}
	var out []onCluster
	for _, p := range v.Pairs {
		i, ok := at[p.Cluster]
		if !ok {
			i = len(out)
			at[p.Cluster] = i
			out = append(out, onCluster{key: p.Cluster})
		}
		out[i].pairs = append(out[i].pairs, p)
	}
	slices.SortFunc(out, func(a, b onCluster) int { return compareKeys(a.key, b.key) })
	return out
}

// StuckText names the clusters on which something cannot become Ready without a
// change; it is empty where that belongs to none.
func (v Verdict) StuckText() string {
	var names []string
	for _, c := range v.clusters() {
		if slices.ContainsFunc(c.pairs, func(p Pair) bool { return p.Progress == Failed }) {
			names = append(names, c.key.Name)
		}
	}
	return List(names, named)
}

// Problems returns texts about what keeps a goal from being Ready and belongs to no pair.
func (v Verdict) Problems() []string {
	texts := slices.Clone(v.Faults)
	if v.Trouble != "" {
		texts = append(texts, v.Trouble)
	}
	return append(texts, v.Waits...)
}

// MissingText says in one line what a wait still waits for: first the pairs for which others
// may wait. Faults come last: they may end with a command.
func (v Verdict) MissingText() string {
	texts := v.Problems()[len(v.Faults):]
	for _, p := range v.open() {
		texts = append(texts, fmt.Sprintf("%s on %s (%s)", p.Bundle.Name, p.Cluster.Name, p.State))
	}
	faults := List(v.Faults, named)
	if len(texts) > 0 && faults != "" {
		return List(texts, named) + "; " + faults
	}
	return List(texts, named) + faults
}

// Clusters counts the clusters of a verdict: all, those with everything Ready,
// and those that are away and not.
func (v Verdict) Clusters() (all, ready, deferred int) {
	for _, c := range v.clusters() {
		all++
		worst := Reached
		for _, p := range c.pairs {
			switch {
			case p.Progress == Reached:
			case p.Progress == Deferred && worst == Reached:
				worst = Deferred
			case p.Progress != Deferred:
				worst = p.Progress
			}
		}
		switch worst {
		case Reached:
			ready++
		case Deferred:
			deferred++
		}
	}
	return all, ready, deferred
}

// Answer returns what a wait came to, in one line.
func Answer(goal Goal, v Verdict) string {
	all, ready, deferred := v.Clusters()
	what := "Ready"
	if goal.Commit != "" && v.Seen {
		what = "at " + ShortCommit(v.Commit)
	}
	switch {
	case goal.Commit != "" && !v.Seen:
		return appendText("not at "+ShortCommit(goal.Commit)+": "+v.unreachedReason(), v.Check)
	case all == 0 && v.End == Deferred && goal.Kind == "Cluster":
		return "cluster " + goal.Key.Name + " is Offline, and nothing is deployed there"
	case all == 0 && v.End == Deferred:
		return "done where clusters can be reached: " + nothingText(goal, v) + v.leftovers()
	case all == 0 && v.End != Reached:
		return "not Ready: " + v.unreachedReason()
	case all == 0 && len(v.Removed) > 0:
		return nothingText(goal, v)
	case all == 0:
		return fmt.Sprintf("nothing to wait for: %s", nothingText(goal, v))
	case deferred > 0:
		return appendText(fmt.Sprintf("%d of %d reachable clusters %s %s, %d deferred", ready, all-deferred, areOf(all-deferred), what, deferred), v.failureCause())
	}
	text := fmt.Sprintf("%d of %d clusters %s %s", ready, all, areOf(all), what)
	if v.End == Reached && len(v.Removed) > 0 {
		text += ", " + List(v.Removed, named) + " removed"
	}
	return appendText(text+v.leftovers(), v.failureCause())
}

// unreachedReason is why a goal without pairs is not reached. Where it has failed, what only waits
// is no part of that.
func (v Verdict) unreachedReason() string {
	if v.End == Failed {
		return v.failureCause()
	}
	return v.MissingText()
}

// appendText is a text and another one behind it, if there is one.
func appendText(text, more string) string {
	if more == "" {
		return text
	}
	return text + "; " + more
}

// failureCause is why a wait has failed, in one line: the first pair that cannot become Ready
// without a change, and what belongs to no pair; without both the first pair whose last
// attempt failed. It is empty where nothing has failed.
func (v Verdict) failureCause() string {
	p, found := v.WorstPair()
	text := ""
	if found && p.Message != "" && (p.blameRank() == lasting || p.blameRank() == attempted && len(v.Faults) == 0) {
		text = fmt.Sprintf("%s on %s: %s", p.Bundle.Name, p.Cluster.Name, p.Message)
	}
	faults := List(v.Faults, named)
	if text == "" || faults == "" {
		return text + faults
	}
	return text + "; " + faults
}

// WorstPair returns the pair that explains best why a goal is not reached: one that cannot
// become Ready without a change, else one whose last attempt failed, else one whose objects
// are not as they should be. One that only waits comes last: it may wait for another.
func (v Verdict) WorstPair() (p Pair, found bool) {
	open := v.open()
	if len(open) == 0 {
		return Pair{}, false
	}
	return open[0], true
}

// open are the pairs that are waited for or have failed, those first that explain best why.
func (v Verdict) open() []Pair {
	out := slices.DeleteFunc(slices.Clone(v.Pairs), func(p Pair) bool { return p.Progress != Waiting && p.Progress != Failed })
	slices.SortStableFunc(out, func(a, b Pair) int { return a.blameRank() - b.blameRank() })
	return out
}

// How well a pair that is not Ready explains why, best first.
const (
	lasting   = iota // it cannot become Ready without a change
	attempted        // its last attempt failed, and is made again
	unsound          // its objects are not as they should be
	idle             // it waits
)

func (p Pair) blameRank() int {
	switch {
	case p.Progress == Failed:
		return lasting
	case !p.Written: // its state is that of another version
		return idle
	case p.State == fleet.ErrApplied && dependency.IsUnreadyMessage(p.Message):
		return idle
	case p.State == fleet.ErrApplied:
		return attempted
	case p.State == fleet.NotReady || p.State == fleet.Modified:
		return unsound
	}
	return idle
}

// leftovers says what is still to be removed from clusters that are away.
func (v Verdict) leftovers() string {
	var names []string
	for _, r := range v.Removals {
		if r.Progress == Deferred {
			names = append(names, r.Bundle.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", " + List(names, named) + " still on clusters that are Offline"
}

func nothingText(goal Goal, v Verdict) string {
	if goal.Commit != "" {
		if len(v.Removed) > 0 {
			return fmt.Sprintf("%s removed %s and changed none of %s", ShortCommit(v.Commit), List(v.Removed, named), bundles(v.Bundles))
		}
		return fmt.Sprintf("%s changed none of %s", ShortCommit(v.Commit), bundles(v.Bundles))
	}
	if goal.Kind == "Cluster" {
		return "nothing is deployed there"
	}
	return "nothing is deployed by it"
}

func bundles(n int) string {
	if n == 1 {
		return "1 bundle"
	}
	return fmt.Sprintf("%d bundles", n)
}

func areOf(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
