package differential_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

const (
	// timeout is how long the manager may take to come to rest. It is seldom
	// more than two seconds.
	timeout = 90 * time.Second
	// stillness is for how long the manager must write nothing at a quiet point:
	// what it has worked out late would be written by then.
	stillness = 150 * time.Millisecond
	// longStillness is longer than any status is held back.
	longStillness = 1500 * time.Millisecond
)

// quiet waits until the manager has come to rest, and returns what is wrong
// then; nothing at a quiet point. The manager is at rest when its queues are
// empty, no request is on its way, it has seen the newest version of
// everything, the agents have nothing to add, both sides agree, and nothing is
// written for a while.
func (w *world) quiet(still time.Duration) []string {
	w.t.Helper()
	var wrong []string
	var seen tally
	for deadline := time.Now().Add(timeout); ; time.Sleep(look) {
		if time.Now().After(deadline) {
			return append(wrong, "last writes of the engine:\n"+w.line.lastWrites(12))
		}
		if why := w.busy(); why != "" {
			wrong = []string{why}
			continue
		}
		now := w.line.tally()
		if now == seen && len(wrong) > 0 && time.Since(w.judged) < 10*look {
			continue // nothing has happened since
		}
		seen, w.judged = now, time.Now()
		if wrong = w.judge(); len(wrong) > 0 {
			continue
		}
		if w.line.tally().writes != seen.writes || !w.still(still, seen.writes) {
			wrong = []string{"the engine goes on writing"}
			continue
		}
		return append(w.line.accusations(), w.budget.judge(newRecount(w.snapshot()))...)
	}
}

// still reports whether the manager writes nothing for a while.
func (w *world) still(d time.Duration, writes int) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(look) {
		if w.line.tally().writes != writes {
			return false
		}
	}
	return true
}

// busy says what keeps the manager, or an agent, at work.
func (w *world) busy() string {
	for _, l := range append(w.engine.Loops(), w.agents.loop) {
		if l.Len() > 0 {
			return fmt.Sprintf("%d keys wait in loop %s", l.Len(), l.Name())
		}
	}
	if n := w.line.tally().open; n > 0 {
		return fmt.Sprintf("%d requests are on their way", n)
	}
	return ""
}

// judge compares the two sides.
func (w *world) judge() []string {
	s := w.snapshot()
	if wrong := w.unseen(s); len(wrong) > 0 {
		return wrong
	}
	for _, bd := range s.deployments {
		if _, more := answer(bd, w.agents.of(kube.KeyOf(bd)), s.at); more && bd.DeletionTimestamp == nil {
			return []string{fmt.Sprintf("the agent has not answered for %s yet", kube.KeyOf(bd))}
		}
	}
	r := newRecount(s)
	if wrong := append(r.objects(w), r.statuses()...); len(wrong) > 0 {
		return append(wrong, r.notes...)
	}
	return nil
}

// unseen says of what the manager has not seen the newest version.
func (w *world) unseen(s *snapshot) []string {
	var wrong []string
	compare := func(kind string, have, want map[kube.Key]string) {
		for key, version := range want {
			if have[key] != version {
				wrong = append(wrong, fmt.Sprintf("the engine knows version %q of %s %s, which is at %s", have[key], kind, key, version))
			}
			delete(have, key)
		}
		for key := range have {
			if key.Namespace == w.workspace || strings.HasPrefix(key.Namespace, "cluster-") {
				wrong = append(wrong, fmt.Sprintf("the engine knows %s %s, which is gone", kind, key))
			}
		}
	}
	t := w.engine.Table()
	known := map[kube.Key]string{}
	for _, key := range t.Bundles("") {
		if b, ok := t.Bundle(key); ok {
			known[key] = b.ResourceVersion
		}
	}
	compare("bundle", known, versions(s.bundles))
	compare("deployment", versions(t.All()), versions(s.deployments))
	compare("cluster", versions(w.engine.Clusters()), versions(s.clusters))
	compare("group", versions(w.engine.Groups()), versions(s.groups))
	compare("gitrepo", versions(w.engine.Repos()), versions(s.repos))
	return wrong
}

func versions[P kube.Object](list []P) map[kube.Key]string {
	out := map[kube.Key]string{}
	for _, o := range list {
		out[kube.KeyOf(o)] = o.GetResourceVersion()
	}
	return out
}
