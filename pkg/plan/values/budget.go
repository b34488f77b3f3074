package values

import (
	"errors"
	"fmt"
	"sync"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// budgetSteps is the limit for all clusters of a Bundle together: 30 times
	// that of one rendering, which is 30 seconds, and
	budgetSteps = 30 * maxSteps
	// budgetShare for each rendering besides: 10 milliseconds.
	budgetShare = maxSteps / 100
	// maxLarge is how many renderings may be large at once.
	maxLarge = 2
)

// ErrBudget is an ErrLimit of all clusters of a Bundle together.
var ErrBudget = fmt.Errorf("the templates of this version of the bundle have taken 30 seconds, and 10 milliseconds more for each cluster, "+
	"which is all that they may take: %w", ErrLimit)

// A Budget is what the templates of one version of a Bundle may take for all
// clusters together. It may be used by several goroutines.
type Budget struct {
	mu               sync.Mutex
	renderings, used int
}

// checkLeft fails if the budget is used up.
func (b *Budget) checkLeft() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > budgetSteps+b.renderings*budgetShare {
		return ErrBudget
	}
	b.renderings++
	return nil
}

// charge notes what a rendering has taken.
func (b *Budget) charge(steps int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += steps
}

// large is held by renderings that are not small: each takes a place.
var large = make(chan struct{}, maxLarge)

// renderWithin returns helm filled in for a cluster. It is tried with little
// first. If that is not enough it waits for those that are not small either,
// and begins again: a template that takes much does not keep others waiting,
// and the memory for all is limited.
func renderWithin(budget *Budget, helm *fleet.HelmOptions, c ClusterFacts, labels map[string]string) (*fleet.HelmOptions, error) {
	if err := budget.checkLeft(); err != nil {
		return nil, err
	}
	out, steps, err := tryRender(small, helm, c, labels)
	if errors.Is(err, ErrLimit) && !errors.Is(err, ErrTime) {
		large <- struct{}{}
		defer func() { <-large }()
		var more int
		out, more, err = tryRender(full, helm, c, labels)
		steps += more
	}
	if errors.Is(err, ErrTime) {
		steps += maxSteps
	}
	budget.charge(steps)
	return out, err
}

func tryRender(l limits, helm *fleet.HelmOptions, c ClusterFacts, labels map[string]string) (*fleet.HelmOptions, int, error) {
	m, out := newMeter(l), helm.DeepCopy()
	err := m.render(out, c, labels)
	return out, m.usedSteps, err
}
