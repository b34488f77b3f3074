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
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// turnsPause collects changes, so that one look handles many.
const turnsPause = 300 * time.Millisecond

// turnsKey is the only key of the loop that decides which clusters are next.
var turnsKey = kube.Key{Name: "turns"}

// importWaves decides which clusters get the manager's address next, when it has
// changed for many of them.
type importWaves struct {
	*importLoop
	loop *kube.Controller
	pace clusterimport.Pace

	mu     sync.Mutex
	given  map[kube.Key]string // turns, with the digest of the terms
	halted map[string]string   // why, by terms
}

func newImportTurns(l *importLoop) *importWaves {
	t := &importWaves{importLoop: l, pace: clusterimport.DefaultPace, given: map[kube.Key]string{}, halted: map[string]string{}}
	t.loop = kube.NewController("import-turns", 1, t.Reconcile)
	return t
}

// wake makes the loop decide again, soon.
func (t *importWaves) wake() { t.loop.AddAfter(turnsKey, turnsPause) }

// has reports whether it is a Cluster's turn to get some terms.
func (t *importWaves) has(key kube.Key, terms clusterimport.Terms) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.given[key] == terms.Digest()
}

// Reconcile decides which clusters get the manager's address next.
//
//  1. gather: all Clusters whose agents are installed, from the cache
//  2. decide: clusterimport.Plan (pure)
//  3. apply:  enqueue those whose turn it is
//
// A Cluster whose Secret cannot be read keeps its turn; the others go on.
func (t *importWaves) Reconcile(ctx context.Context, _ kube.Key) (kube.Result, error) {
	var all []clusterimport.Candidate
	keys := map[string]kube.Key{}
	targets := map[string]string{}
	clusters := map[string]*fleet.Cluster{}
	unread := map[kube.Key]error{}
	for _, c := range t.view.Clusters.List("") {
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
	schedule := clusterimport.Plan(all, t.now(), t.pace)
	given := map[kube.Key]string{}
	for name, turn := range schedule.Turns {
		if turn.Go {
			given[keys[name]] = targets[name]
		}
	}
	for _, key := range t.give(given, unread) {
		t.reachable.Add(key)
	}
	t.report(schedule, targets, clusters)
	return kube.Result{After: schedule.After}, errors.Join(slices.Collect(maps.Values(unread))...)
}

// give replaces the turns of Clusters, except for unread ones, and returns the Clusters
// with a new turn.
func (t *importWaves) give(given map[kube.Key]string, unread map[kube.Key]error) (fresh []kube.Key) {
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
func (t *importWaves) candidate(f clusterimport.Facts) (clusterimport.Candidate, bool) {
	c, r := f.Cluster, f.Record
	if r == nil {
		return clusterimport.Candidate{}, false
	}
	need, _ := clusterimport.Due(f)
	if need == clusterimport.Now {
		return clusterimport.Candidate{}, false
	}
	key := kube.KeyOf(c)
	out := clusterimport.Candidate{
		Name: key.String(), Target: r.Digest(), Canary: c.Labels[clusterimport.LabelCanary] == registration.True,
		Online: online(c), Paused: c.Spec.Paused, Failed: t.hasFailed(key),
		Reported: r.Since, Arrived: f.Arrived, WasOnline: r.WasOnline,
	}
	if need == clusterimport.InTurn {
		terms := f.Offer.Terms()
		out.Target, out.Due = terms.Digest(), true
		out.Reported = time.Time{} // that was about other terms
		out.Running = t.has(key, terms)
	}
	return out, true
}

// report reports once that no cluster gets certain terms for now.
func (t *importWaves) report(s clusterimport.Schedule, targets map[string]string, clusters map[string]*fleet.Cluster) {
	for target, reason := range s.Halted {
		if t.halted[target] == reason {
			continue
		}
		t.log.WithField("reason", reason).Warn("clusters are not told where the manager is")
		for name, turn := range s.Turns {
			if targets[name] == target && !turn.Go {
				t.events.Event(clusters[name], kube.Warning, "ImportHalted", reason)
				break // one event is enough for all of them
			}
		}
	}
	t.halted = s.Halted
}
