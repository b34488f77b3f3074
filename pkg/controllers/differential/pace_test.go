package differential_test

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A pace counts the orders to leave that the current manager has given, by
// Bundle.
type pace struct {
	mu     sync.Mutex
	orders map[string]int
	gone   map[kube.Key]time.Time // when deployments went
}

// longAgo is when every watch has brought what was written.
const longAgo = 3 * time.Second

// atOnce is how many deployments of a Bundle may be ordered to leave at once;
// what is left follows in minutes.
const atOnce = 10

func (p *pace) note(bundle string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders[bundle]++
}

// leave notes that a deployment is gone.
func (p *pace) leave(deployment kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[deployment] = time.Now()
}

// goneAt is when a deployment went last; zero where it did not.
func (p *pace) goneAt(deployment kube.Key) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone[deployment]
}

// used reports whether the next order of a Bundle may have to wait.
func (p *pace) used(bundle string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders[bundle] >= atOnce
}

func (p *pace) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders, p.gone = map[string]int{}, map[kube.Key]time.Time{}
}
