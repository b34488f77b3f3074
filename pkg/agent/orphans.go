package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// reasonOrphaned is the reason of the event about releases that the manager no longer
// has and did not order to remove.
const reasonOrphaned = "Orphaned"

// Policies for orphans.
const (
	OrphansKept      = "keep"    // they stay until a user removes them
	OrphansCollected = "collect" // they are uninstalled after a while
)

// annotationCollect on the ConfigMap fleet-agent-contact says that the agent may remove
// every release that the manager of this mark lacks, whichever manager it came from.
const annotationCollect = "fleet.cattle.io/collect-orphans"

// collectEvery is how often due orphans are looked for, at most.
const collectEvery = time.Minute

// orphans reports orphans: in every check-in, and in the log and as an event when they
// change. It uninstalls those whose grace period is over.
type orphans struct {
	*base
	deployed *deploy.Orphans
	grace    time.Duration // 0: orphans are kept

	mu    sync.Mutex
	since map[string]time.Time // by name; times of this process
	of    registration.Mark    // the manager that lacks them
}

func newOrphans(b *base, deployed *deploy.Orphans) *orphans {
	o := &orphans{base: b, deployed: deployed}
	if b.cfg.OrphanPolicy == OrphansCollected {
		o.grace = b.cfg.OrphanGracePeriod
	}
	return o
}

// report returns the orphans for a check-in; false until they are known.
func (o *orphans) report() (fleet.AgentOrphans, bool) {
	names, known := o.deployed.List()
	if !known {
		return fleet.AgentOrphans{}, false
	}
	if fresh := o.setOrphans(names, time.Now()); len(fresh) > 0 {
		text := orphanText(fresh)
		o.log.WithField("reason", reasonOrphaned).Warn(text)
		o.events.record(kube.Warning, reasonOrphaned, text)
	}
	return fleet.AgentOrphans{Count: len(names), Names: names[:min(len(names), fleet.StatusListLimit)]}, true
}

// setOrphans stores the present orphans, and returns the new ones.
func (o *orphans) setOrphans(names []string, now time.Time) (fresh []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := map[string]time.Time{}
	for _, name := range names {
		at, reported := o.since[name]
		if !reported {
			at, fresh = now, append(fresh, name)
		}
		since[name] = at
	}
	o.since = since
	return fresh
}

// pauseTimer restarts the grace period of all orphans: the manager was away.
func (o *orphans) pauseTimer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resetTimers()
}

// resetTimers restarts the grace period of all orphans. The caller holds the lock.
func (o *orphans) resetTimers() {
	for name := range o.since {
		o.since[name] = time.Now()
	}
}

// setManager stores which manager answers. Another manager restarts the grace period of
// all orphans.
func (o *orphans) setManager(m registration.Mark) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of.ID != m.ID || o.of.Epoch != m.Epoch {
		o.resetTimers()
	}
	o.of = m
}

// Run uninstalls orphans whose grace period is over, until ctx ends.
func (o *orphans) Run(ctx context.Context) error {
	if o.grace == 0 {
		<-ctx.Done()
		return nil
	}
	t := time.NewTicker(max(min(o.grace/4, collectEvery), 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := o.collect(ctx); err != nil && ctx.Err() == nil {
			o.log.WithField("error", err.Error()).Warn("orphans not collected")
		}
	}
}

// collect uninstalls the orphans that may be uninstalled now.
func (o *orphans) collect(ctx context.Context) error {
	o.mu.Lock()
	facts, of := map[string]withdrawal.Orphan{}, o.of
	for name, at := range o.since {
		f := withdrawal.Orphan{Grace: o.grace, Missing: time.Since(at), Orders: of.Protocol > 0}
		if f.Missing >= f.Grace {
			facts[name] = f
		}
	}
	o.mu.Unlock()
	if len(facts) == 0 || !o.contact.isReached() {
		return nil
	}
	word, restored, err := o.contact.orphanApproval(ctx)
	if err != nil {
		return err
	}
	for name, f := range facts {
		f.Own, f.Restored, f.Confirmed = o.deployed.MadeBy(name), restored != "", word == confirmation(of, restored)
		if yes, why := withdrawal.Collect(f); yes {
			if err := o.deployed.Collect(ctx, name, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// confirmation returns the text that a user writes to approve the removal of orphans
// under this manager and since its restore: "<id>/<epoch>", and when it was restored.
func confirmation(m registration.Mark, restored string) string {
	word := fmt.Sprintf("%s/%d", m.ID, m.Epoch)
	if restored != "" {
		word += "/" + restored
	}
	return word
}

// orphanText names at most ten orphans.
func orphanText(names []string) string {
	some, more := names, ""
	if len(some) > fleet.StatusListLimit {
		some, more = names[:fleet.StatusListLimit], fmt.Sprintf(" and %d more", len(names)-fleet.StatusListLimit)
	}
	return "the manager has no deployment any more of " + strings.Join(some, ", ") + more +
		", without having ordered to remove it: everything stays as it is"
}

// policies lists the policies for orphans.
func policies() []string { return []string{OrphansKept, OrphansCollected} }

// validOrphans returns the error in the settings of orphans.
func validOrphans(policy string, grace time.Duration) error {
	switch {
	case !slices.Contains(policies(), policy):
		return fmt.Errorf("orphan-policy: %q is none of %s", policy, strings.Join(policies(), ", "))
	case policy == OrphansCollected && grace <= 0:
		return fmt.Errorf("orphan-grace-period: %s is not more than 0", grace)
	}
	return nil
}
