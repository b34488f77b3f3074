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

// presence watches whether Rancher is alive, and gives the loops their part.
type presence struct {
	log        *logrus.Entry
	mode       plan.Mode
	now        func() time.Time
	interval   time.Duration // at which it looks
	part       *part
	view       *caches
	wake       func() // lets every loop look at everything
	wakeRights func() // lets those look that give rights

	kick    chan struct{} // something is to be seen of Rancher
	mu      sync.Mutex
	renewed metav1.MicroTime // as the lease says
	seen    time.Time        // when that was seen first, by our clock
}

func newPresence(ports ports, interval time.Duration, wakeRights func()) *presence {
	p := &presence{
		log: ports.log, mode: ports.mode, now: ports.now, interval: interval, part: ports.part, view: ports.view,
		wake: ports.wake, wakeRights: wakeRights, kick: make(chan struct{}, 1),
	}
	p.view.leases.OnChange(func(_, l *coordinationv1.Lease) {
		p.see(l)
		p.again()
	})
	p.view.features.OnChange(func(_, _ *management.Feature) { p.again() })
	return p
}

// again lets it look at once.
func (p *presence) again() { signal(p.kick) }

// see notes a renewal. The lease's own time is from another clock, so see uses the time
// at which it changes. The first look is a renewal.
func (p *presence) see(l *coordinationv1.Lease) {
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

// Run looks at every event, and at intervals, because time passes, until ctx ends.
func (p *presence) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		p.look()
		select {
		case <-ctx.Done():
			return nil
		case <-p.kick:
		case <-ticker.C:
		}
	}
}

// look decides, and wakes the loops if their part has changed.
func (p *presence) look() {
	seen := p.sightings()
	part, why := plan.Plays(p.mode, seen)
	gives := plan.GivesRights(seen)
	if p.part.setGives(gives) && p.part.get() == part {
		p.wakeRights()
	}
	if !p.part.set(part) {
		return
	}
	p.log.WithField("reason", why).Infof("workspaces: %s", part)
	p.wake()
}

func (p *presence) sightings() plan.Sightings {
	s := plan.Sightings{Kinds: true, Renewed: -1}
	if f, ok := p.view.features.Get(kube.Key{Name: featureFleet}); ok {
		s.Off = !f.On()
	}
	if f, ok := p.view.features.Get(kube.Key{Name: plan.FeatureClusters}); ok {
		s.Single = !f.On()
	}
	l, ok := p.view.leases.Get(rancherLease)
	if !ok {
		return s // one without a holder was given back: Rancher may be restarting
	}
	if d := l.Spec.LeaseDurationSeconds; d != nil {
		s.Held = time.Duration(*d) * time.Second
	}
	p.see(l) // the cache may be ahead of its events
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Renewed = p.now().Sub(p.seen)
	return s
}
