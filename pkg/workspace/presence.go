package workspace

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// leaseHolds is how long Rancher's lease holds where it does not say so.
const leaseHolds = 45 * time.Second

// presence watches whether Rancher lives, and tells the loops what their part is.
type presence struct {
	*stage
	mu      sync.Mutex
	renewed metav1.MicroTime // as the lease says
	seen    time.Time        // when that was seen first, by our clock
}

func newPresence(s *stage) *presence {
	p := &presence{stage: s}
	s.view.leases.OnChange(func(_, l *coordinationv1.Lease) { p.see(l) })
	return p
}

// see notes a renewal. The lease's own time is of another clock; what counts is
// when it changes. The first look counts as a renewal.
func (p *presence) see(l *coordinationv1.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var at metav1.MicroTime
	if l != nil && l.Spec.RenewTime != nil {
		at = *l.Spec.RenewTime
	}
	if p.seen.IsZero() || !at.Equal(&p.renewed) {
		p.renewed, p.seen = at, p.cfg.Now()
	}
}

// Run looks every now and then until ctx ends.
func (p *presence) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.cfg.Look)
	defer ticker.Stop()
	for {
		p.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look decides, and wakes the loops if their part has changed.
func (p *presence) look() {
	part, why := plan.Plays(p.cfg.Mode, p.sightings())
	if p.part.Swap(part) == part {
		return
	}
	p.log.WithField("reason", why).Infof("workspaces: %s", part)
	p.wake()
}

func (p *presence) sightings() plan.Sightings {
	s := plan.Sightings{Kinds: true, Renewed: -1, Held: leaseHolds}
	if f, ok := p.view.features.Get(kube.Key{Name: featureFleet}); ok {
		s.Off = !f.On()
	}
	l, ok := p.view.leases.Get(rancherLease)
	if !ok || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return s
	}
	if d := l.Spec.LeaseDurationSeconds; d != nil {
		s.Held = time.Duration(*d) * time.Second
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Renewed = p.cfg.Now().Sub(p.seen)
	return s
}
