package agentmanagement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/imports"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// turnsPause lets many news be looked at once.
const turnsPause = 300 * time.Millisecond

// turnsKey is the only key of the loop that gives turns.
var turnsKey = kube.Key{Name: "turns"}

// importTurns decides which clusters are told next where the manager is, when
// that has changed for many of them.
type importTurns struct {
	*importLoop
	loop *kube.Loop
	pace imports.Pace

	mu     sync.Mutex
	given  map[kube.Key]string // turns, with the digest of the terms
	halted map[string]string   // why, by terms
}

func newImportTurns(l *importLoop) *importTurns {
	t := &importTurns{importLoop: l, pace: imports.DefaultPace, given: map[kube.Key]string{}, halted: map[string]string{}}
	t.loop = kube.NewLoop("import-turns", 1, t.Reconcile)
	return t
}

// wake makes the turns be given anew, soon.
func (t *importTurns) wake() { t.loop.AddAfter(turnsKey, turnsPause) }

// has tells whether it is a Cluster's turn to be told some terms.
func (t *importTurns) has(key kube.Key, terms imports.Terms) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.given[key] == terms.Digest()
}

// Reconcile gives turns.
//
//  1. gather: all Clusters whose agents are installed, from the cache
//  2. decide: imports.Plan (pure)
//  3. apply:  wake those up whose turn it is
//
// A Cluster whose Secret cannot be read keeps its turn; the others go on.
func (t *importTurns) Reconcile(ctx context.Context, _ kube.Key) (kube.Next, error) {
	var all []imports.Candidate
	keys := map[string]kube.Key{}
	targets := map[string]string{}
	clusters := map[string]*fleet.Cluster{}
	unread := map[kube.Key]error{}
	for _, c := range t.view.clusters.List("") {
		if !t.cfg.Scope.Holds(c.Namespace) || !t.concerns(c) {
			continue
		}
		facts, err := t.facts(ctx, c)
		if err != nil {
			unread[kube.KeyOf(c)] = fmt.Errorf("cluster %q: %w", kube.KeyOf(c), err)
		}
		if candidate, ok := t.candidate(facts); ok {
			all = append(all, candidate)
			keys[candidate.Name], targets[candidate.Name], clusters[candidate.Name] = kube.KeyOf(c), candidate.Target, c
		}
	}
	schedule := imports.Plan(all, t.now(), t.pace)
	given := map[kube.Key]string{}
	for name, turn := range schedule.Turns {
		if turn.Go {
			given[keys[name]] = targets[name]
		}
	}
	for _, key := range t.give(given, unread) {
		t.near.Add(key)
	}
	t.tell(schedule, targets, clusters)
	return kube.Next{After: schedule.After}, errors.Join(slices.Collect(maps.Values(unread))...)
}

// give replaces the turns that Clusters have, but for those that are unread, and returns the
// Clusters whose turn is new.
func (t *importTurns) give(given map[kube.Key]string, unread map[kube.Key]error) (fresh []kube.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range unread {
		if turn, has := t.given[key]; has {
			given[key] = turn
		}
	}
	for key, target := range given {
		if t.given[key] != target {
			fresh = append(fresh, key)
		}
	}
	t.given = given
	return fresh
}

// candidate is how it stands with a Cluster; false for one that has no agent yet,
// or that a person waits for.
func (t *importTurns) candidate(f imports.Facts) (imports.Candidate, bool) {
	c, r := f.Cluster, f.Record
	if r == nil {
		return imports.Candidate{}, false
	}
	need, _ := imports.Due(f)
	if need == imports.Now {
		return imports.Candidate{}, false
	}
	key := kube.KeyOf(c)
	out := imports.Candidate{
		Name: key.String(), Target: r.Digest(), Canary: c.Labels[imports.LabelCanary] == registration.True,
		Online: online(c), Paused: c.Spec.Paused, Failed: t.hasFailed(key),
		Told: r.Since, Arrived: f.Arrived, WasOnline: r.WasOnline,
	}
	if need == imports.InTurn {
		terms := f.Offer.Terms()
		out.Target, out.Due = terms.Digest(), true
		out.Told = time.Time{} // that was about other terms
		out.Running = t.has(key, terms)
	}
	return out, true
}

// tell says once that nobody is told some terms for now.
func (t *importTurns) tell(s imports.Schedule, targets map[string]string, clusters map[string]*fleet.Cluster) {
	for target, reason := range s.Halted {
		if t.halted[target] == reason {
			continue
		}
		t.log.WithField("reason", reason).Warn("clusters are not told where the manager is")
		for name, turn := range s.Turns {
			if targets[name] == target && !turn.Go {
				t.events.Event(clusters[name], kube.Warning, "ImportHalted", reason)
				break // one of them speaks for all
			}
		}
	}
	t.halted = s.Halted
}
