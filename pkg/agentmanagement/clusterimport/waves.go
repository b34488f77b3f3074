package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// wavesPause collects changes, so that one look handles many.
const wavesPause = 300 * time.Millisecond

// wavesKey is the only key of the loop that decides which clusters are next.
var wavesKey = kube.Key{Name: "turns"}

// waves decides which clusters get the manager's address next, when it has
// changed for many of them.
type waves struct {
	cfg     Config
	log     *logrus.Entry
	caches  *cache.Shared
	events  *kube.Recorder
	imports imports
	loop    *kube.Controller
	pace    clusterimport.Pace

	mu     sync.Mutex
	given  map[kube.Key]string // the Clusters that are next, with the digest of the terms
	halted map[string]string   // why, by terms
}

// imports is the part of the loop for single Clusters that the waves use.
type imports interface {
	// installsAgentOf reports whether the manager installs the agent of a Cluster.
	installsAgentOf(c *fleet.Cluster) bool
	// facts gathers what is known of a Cluster.
	facts(ctx context.Context, c *fleet.Cluster) (clusterimport.Facts, error)
	// hasFailed reports whether the last import of a Cluster failed.
	hasFailed(key kube.Key) bool
	// enqueue enqueues a Cluster.
	enqueue(key kube.Key)
}

func newWaves(cfg Config, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry, l imports) *waves {
	t := &waves{
		cfg: cfg, log: log, caches: caches, events: events, imports: l, pace: clusterimport.DefaultPace,
		given: map[kube.Key]string{}, halted: map[string]string{},
	}
	t.loop = kube.NewController("import-turns", 1, t.Reconcile)
	return t
}

// enqueue makes the loop decide again soon.
func (w *waves) enqueue() { w.loop.AddAfter(wavesKey, wavesPause) }

// isNext reports whether a Cluster may get the address and certificates in terms now.
func (w *waves) isNext(key kube.Key, terms clusterimport.Terms) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.given[key] == terms.Digest()
}

// Reconcile decides which clusters get the manager's address next.
//
//  1. gather: all Clusters whose agents are installed, from the cache
//  2. decide: clusterimport.Plan (pure)
//  3. apply:  enqueue those that are next
//
// A Cluster whose Secret cannot be read stays next; the others go on.
func (w *waves) Reconcile(ctx context.Context, _ kube.Key) (kube.Result, error) {
	var all []clusterimport.Candidate
	keys := map[string]kube.Key{}
	targets := map[string]string{}
	clusters := map[string]*fleet.Cluster{}
	unread := map[kube.Key]error{}
	for _, c := range w.caches.Clusters.List("") {
		if !w.cfg.Scope.Holds(c.Namespace) || !w.imports.installsAgentOf(c) {
			continue
		}
		facts, err := w.imports.facts(ctx, c)
		if err != nil {
			unread[kube.KeyOf(c)] = fmt.Errorf("cluster %q: %w", kube.KeyOf(c), err)
		}
		if candidate, ok := w.candidate(facts); ok {
			all = append(all, candidate)
			keys[candidate.Name], targets[candidate.Name], clusters[candidate.Name] = kube.KeyOf(c), candidate.Target, c
		}
	}
	schedule := clusterimport.Plan(all, w.cfg.Now(), w.pace)
	given := map[kube.Key]string{}
	for name, turn := range schedule.Turns {
		if turn.Go {
			given[keys[name]] = targets[name]
		}
	}
	for _, key := range w.setNext(given, unread) {
		w.imports.enqueue(key)
	}
	w.report(schedule, targets, clusters)
	return kube.Result{After: schedule.After}, errors.Join(slices.Collect(maps.Values(unread))...)
}

// setNext replaces the Clusters that are next, except those whose Secret cannot be read
// (unread), and returns the new ones.
func (w *waves) setNext(given map[kube.Key]string, unread map[kube.Key]error) (fresh []kube.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range unread {
		if turn, has := w.given[key]; has {
			given[key] = turn
		}
	}
	for key, target := range given {
		if w.given[key] != target {
			fresh = append(fresh, key)
		}
	}
	w.given = given
	return fresh
}

// candidate returns the state of a Cluster; false if it has no agent yet, or waits for
// a user.
func (w *waves) candidate(f clusterimport.Facts) (clusterimport.Candidate, bool) {
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
		Online: online(c), Paused: c.Spec.Paused, Failed: w.imports.hasFailed(key),
		Reported: r.Since, Arrived: f.Arrived, WasOnline: r.WasOnline,
	}
	if need == clusterimport.InTurn {
		terms := f.Offer.Terms()
		out.Target, out.Due = terms.Digest(), true
		out.Reported = time.Time{} // the failure was about other terms
		out.Running = w.isNext(key, terms)
	}
	return out, true
}

// report reports once that no cluster gets certain terms for now.
func (w *waves) report(s clusterimport.Schedule, targets map[string]string, clusters map[string]*fleet.Cluster) {
	for target, reason := range s.Halted {
		if w.halted[target] == reason {
			continue
		}
		w.log.WithField("reason", reason).Warn("clusters are not told where the manager is")
		for name, turn := range s.Turns {
			if targets[name] == target && !turn.Go {
				w.events.Event(clusters[name], kube.Warning, "ImportHalted", reason)
				break // one event is enough for all clusters
			}
		}
	}
	w.halted = s.Halted
}
