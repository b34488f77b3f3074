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
	OrphansKept      = "keep"    // they stay until a person removes them
	OrphansCollected = "collect" // they are uninstalled after a while
)

// annotationCollect on the ConfigMap fleet-agent-contact says that the agent may remove
// every release that the manager of this mark lacks, whichever manager it came from.
const annotationCollect = "fleet.cattle.io/collect-orphans"

// collectEvery is how often due orphans are looked for, at most.
const collectEvery = time.Minute

// orphans reports orphans: in every check-in, and in the log and as an event when they
// have changed. It starts the collection of those that are due.
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

// report returns what a check-in reports; false while it is not known.
func (o *orphans) report() (fleet.AgentOrphans, bool) {
	names, known := o.deployed.List()
	if !known {
		return fleet.AgentOrphans{}, false
	}
	if fresh := o.take(names, time.Now()); len(fresh) > 0 {
		text := orphanText(fresh)
		o.log.WithField("reason", reasonOrphaned).Warn(text)
		o.events.record(kube.Warning, reasonOrphaned, text)
	}
	return fleet.AgentOrphans{Count: len(names), Names: names[:min(len(names), fleet.StatusListLimit)]}, true
}

// take stores the present orphans, and returns those that are new.
func (o *orphans) take(names []string, now time.Time) (fresh []string) {
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

// gap begins to count again for how long orphans have been missing: the manager was
// away.
func (o *orphans) gap() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.anew()
}

func (o *orphans) anew() {
	for name := range o.since {
		o.since[name] = time.Now()
	}
}

// under stores which manager answers. For another manager the orphans are noted from
// the start.
func (o *orphans) under(m registration.Mark) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of.ID != m.ID || o.of.Epoch != m.Epoch {
		o.anew()
	}
	o.of = m
}

// Run collects orphans that are due, until ctx ends.
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

// collect has those orphans removed that may go.
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
	word, restored, err := o.contact.word(ctx)
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

// confirmation returns what a person writes to say that orphans under this manager, and
// since its restore, may be removed: "<id>/<epoch>", and when it was restored.
func confirmation(m registration.Mark, restored string) string {
	word := fmt.Sprintf("%s/%d", m.ID, m.Epoch)
	if restored != "" {
		word += "/" + restored
	}
	return word
}

// orphanText says which deployments are orphans, ten of them at most by name.
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

// validOrphans reports what is wrong with the settings about orphans.
func validOrphans(policy string, grace time.Duration) error {
	switch {
	case !slices.Contains(policies(), policy):
		return fmt.Errorf("orphan-policy: %q is none of %s", policy, strings.Join(policies(), ", "))
	case policy == OrphansCollected && grace <= 0:
		return fmt.Errorf("orphan-grace-period: %s is not more than 0", grace)
	}
	return nil
}
