package deploy

import (
	"context"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// maxSteps is how many steps one run may take: more than any way from one state to
// another needs.
const maxSteps = 8

// An ending says how a run goes on after a step.
type ending int

const (
	more     ending = iota // there may be another step
	maintain               // the release stays: the run checks and reports its live objects
	over                   // there are no live objects; the run ends
)

// A stepper handles the action that was decided for a release: it takes the step, or
// ends the run.
type stepper func(ctx context.Context, s *snapshot, a release.Action) (ending, error)

// steps observes the release, decides one action and calls next with it, until next
// returns an end. Deploying, withdrawing and uninstalling a former release are three
// steppers of this loop.
func (r *releases) steps(ctx context.Context, s *snapshot, next stepper) (ending, error) {
	for range maxSteps {
		if err := r.observe(ctx, s); err != nil {
			return more, err
		}
		if err := r.waitForPredecessor(ctx, s); err != nil {
			return more, err
		}
		if end, err := next(ctx, s, release.Decide(s.observed, s.wanted)); end != more || err != nil {
			return end, err
		}
	}
	return more, fmt.Errorf("release %s does not come to rest", s.wanted.ID)
}

// runStep takes a step, and reports its result.
func (r *releases) runStep(ctx context.Context, s *snapshot, a release.Action) error {
	began := r.now()
	err := r.takeStep(ctx, s, a)
	if ctx.Err() == nil {
		r.acts.stepTaken(s, a, r.now().Sub(began), err)
	}
	return err
}
