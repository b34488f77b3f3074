package agent

import (
	"context"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agent/credential"
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	"github.com/fleetworkspace/fleet/pkg/agent/managerclient"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// Times of an agent that connects by a schedule.
const (
	// pollLook is how often it looks whether everything is at rest.
	pollLook = 200 * time.Millisecond
	// clockLook is how often it looks at the clock, which may be put right.
	clockLook = 30 * time.Second
)

// poll works with one credential at the times of the schedule, until ctx ends or
// changed is closed: another mode is in effect then. It finishes a visit first. Between
// two visits nothing is sent. An agent that has just registered, or was always
// connected, does not wait for the first time of the schedule: its manager is
// reachable, and a person may be waiting.
func (c *connection) poll(ctx context.Context, cred register.Credential, rotator *credential.Rotator, changed <-chan struct{}) error {
	next, now := c.mode.times(cred.Cluster.String()), time.Now()
	at := heartbeat.FirstVisit(c.contact.announced(), next(now), now)
	if _, known := c.contact.manager(); !known || c.fresh {
		at, c.fresh = now, false
	}
	for {
		c.expect(cred, at)
		if !untilClock(ctx, changed, at) {
			return nil
		}
		if err := c.sessions.visit(ctx, cred, rotator, min(heartbeat.VisitLimit, next(at).Sub(at)*9/10)); err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-changed:
			return nil
		default:
		}
		at = next(time.Now())
	}
}

// expect says when the agent connects next.
func (c *connection) expect(cred register.Credential, at time.Time) {
	c.log.WithFields(logrus.Fields{"manager": cred.URL(), "reason": c.mode.String()}).Info("connects next at " + at.UTC().Format(time.RFC3339))
	if err := c.contact.awaits(at); err != nil {
		c.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
}

// untilClock waits until the clock on the wall shows a time; false: ctx has ended,
// or changed was closed.
func untilClock(ctx context.Context, changed <-chan struct{}, at time.Time) bool {
	for {
		left := time.Until(at.Round(0))
		if left <= 0 {
			return true
		}
		t := time.NewTimer(min(left, clockLook))
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-changed:
			t.Stop()
			return false
		case <-t.C:
		}
	}
}

// visit connects, reads the deployments, stays until the work is done and reported, and
// disconnects. It takes at most limit until the manager answers, and as long again for
// the work.
func (ss *sessions) visit(ctx context.Context, cred register.Credential, rotator *credential.Rotator, limit time.Duration) error {
	s := ss.open(cred, rotator)
	s.relist, s.soon = func() {}, func() {}
	up, err := s.dial()
	if err != nil {
		return err
	}
	defer up.Close()
	if !s.knock(ctx, up, limit) || !s.isAlone() {
		return nil
	}
	s.attached.Store(true)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	work := deployments(cred, up)
	work.CheckIn = nil // the answer is there, and the list comes after it
	ss.deploy.Attach(work)
	listed := make(chan error, 1)
	listing, stop := context.WithCancel(ctx)
	go func() { listed <- up.List(listing) }()
	if s.stay(ctx, up, work) {
		s.checkIn(ctx, up) // reports orphans, and carries the journal
	}
	stop()
	return <-listed
}

// isAlone reports whether the agent may act for its Cluster.
func (s *session) isAlone() bool {
	select {
	case <-s.alone.done:
		return true
	default:
		return false
	}
}

// knock checks in until the manager answers; false: it did not in time.
func (s *session) knock(ctx context.Context, up *managerclient.Client, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var delays kube.Backoff
	for !s.checkIn(ctx, up) {
		if delays.Wait(ctx) != nil {
			return false
		}
	}
	return true
}

// checkIn checks in once, and reports whether the manager answered.
func (s *session) checkIn(ctx context.Context, up *managerclient.Client) bool {
	ans, err := up.CheckIn(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.failed(err)
		}
		return false
	}
	s.answered(ans)
	return true
}

// stay waits until all work is done and reported, or has failed; false: the time is
// over. If the connection is lost meanwhile, it is tried again.
func (s *session) stay(ctx context.Context, up *managerclient.Client, work *deploy.Session) bool {
	t := time.NewTicker(pollLook)
	defer t.Stop()
	var delays kube.Backoff
	var left []string
	for woken := false; ; {
		switch {
		case up.Down() != nil:
			if delays.Wait(ctx) == nil && s.checkIn(ctx, up) {
				woken = false
			}
		case !up.Deployments.HasSynced():
		case !woken:
			s.deploy.WakeAll()
			woken = true
		default:
			if left = s.deploy.Restless(work); len(left) == 0 {
				return true
			}
		}
		select {
		case <-ctx.Done():
			s.log.WithFields(logrus.Fields{"deployment": strings.Join(left, ","), "reason": "Schedule"}).Warn("disconnects before everything is done and reported")
			return false
		case <-t.C:
		}
	}
}
