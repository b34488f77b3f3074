package workspace

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// A presence watches whether Rancher is running, and sets the part of the manager.
type presence struct {
	log        *logrus.Entry
	mode       plan.Mode
	now        func() time.Time
	interval   time.Duration // between two decisions
	part       *part
	view       *caches
	wake       func() // enqueues all objects of every loop
	wakeRights func() // enqueues everything of the loops that give rights

	decideNow chan struct{} // something is to be seen of Rancher
	mu        sync.Mutex
	renewed   metav1.MicroTime // as the lease says
	seen      time.Time        // when the renewal was seen first, by the manager's clock
}

func newPresence(ports ports, interval time.Duration, wakeRights func()) *presence {
	p := &presence{
		log: ports.log, mode: ports.mode, now: ports.now, interval: interval, part: ports.part, view: ports.view,
		wake: ports.wake, wakeRights: wakeRights, decideNow: make(chan struct{}, 1),
	}
	p.view.leases.OnChange(func(_, l *coordinationv1.Lease) {
		p.observeLease(l)
		p.decideSoon()
	})
	p.view.features.OnChange(func(_, _ *management.Feature) { p.decideSoon() })
	return p
}

// decideSoon makes Run decide at once.
func (p *presence) decideSoon() { signal(p.decideNow) }

// observeLease records a renewal of Rancher's lease. It uses the time at which the
// lease changes, because the times in the lease are from another clock. The first call
// is a renewal.
func (p *presence) observeLease(l *coordinationv1.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var at metav1.MicroTime
	if l != nil && l.Spec.RenewTime != nil {
		at = *l.Spec.RenewTime
	}
	if p.seen.IsZero() || !at.Equal(&p.renewed) {
		p.renewed, p.seen = at, p.now()
	}
}

// Run decides at every event and at intervals, until ctx ends.
func (p *presence) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		p.decide()
		select {
		case <-ctx.Done():
			return nil
		case <-p.decideNow:
		case <-ticker.C:
		}
	}
}

// decide decides about the part of the manager, and enqueues everything if that has
// changed.
func (p *presence) decide() {
	seen := p.gather()
	part, why := plan.DecidePart(p.mode, seen)
	gives := plan.GivesRights(seen)
	if p.part.setRancherGivesRights(gives) && p.part.get() == part {
		p.wakeRights()
	}
	if !p.part.set(part) {
		return
	}
	p.log.WithField("reason", why).Infof("workspaces: %s", part)
	p.wake()
}

// gather returns what is known about Rancher.
func (p *presence) gather() plan.RancherSigns {
	s := plan.RancherSigns{Kinds: true, Renewed: -1}
	if f, ok := p.view.features.Get(kube.Key{Name: featureFleet}); ok {
		s.Off = !f.On()
	}
	if f, ok := p.view.features.Get(kube.Key{Name: plan.FeatureClusters}); ok {
		s.Single = !f.On()
	}
	l, ok := p.view.leases.Get(rancherLease)
	if !ok {
		return s // a lease without a holder was released: Rancher may be restarting
	}
	if d := l.Spec.LeaseDurationSeconds; d != nil {
		s.Held = time.Duration(*d) * time.Second
	}
	p.observeLease(l) // the cache may be ahead of its events
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Renewed = p.now().Sub(p.seen)
	return s
}
