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

// connectBySchedule connects at the times of the schedule until ctx ends, or until
// changed is closed because another mode is in effect; it finishes a connection first.
// Between two connections it sends nothing. An agent that has just registered, or was
// always connected, connects at once: its manager is reachable, and a user may be
// waiting.
func (c *connection) connectBySchedule(ctx context.Context, cred register.Credential, rotator *credential.Rotator, changed <-chan struct{}) error {
	next, now := c.mode.checkInTimes(cred.Cluster.String()), time.Now()
	at := heartbeat.FirstVisit(c.contact.nextConnection(), next(now), now)
	if _, known := c.contact.lastManager(); !known || c.fresh {
		at, c.fresh = now, false
	}
	for {
		c.reportNextConnection(cred, at)
		if !waitUntil(ctx, changed, at) {
			return nil
		}
		if err := c.sessions.connectOnce(ctx, cred, rotator, min(heartbeat.VisitLimit, next(at).Sub(at)*9/10)); err != nil || ctx.Err() != nil {
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

// reportNextConnection records and logs when the agent connects next.
func (c *connection) reportNextConnection(cred register.Credential, at time.Time) {
	c.log.WithFields(logrus.Fields{"manager": cred.URL(), "reason": c.mode.String()}).Info("connects next at " + at.UTC().Format(time.RFC3339))
	logNotStored(c.log, c.contact.setNextConnection(at))
}

// waitUntil waits until the wall clock shows a time; false: ctx has ended, or changed
// was closed.
func waitUntil(ctx context.Context, changed <-chan struct{}, at time.Time) bool {
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

// connectOnce connects, reads the deployments, waits until all work is done and
// reported, and disconnects. It waits at most limit for the manager's answer, and at
// most limit for the work.
func (ss *sessions) connectOnce(ctx context.Context, cred register.Credential, rotator *credential.Rotator, limit time.Duration) error {
	s := ss.open(cred, rotator)
	s.relist, s.soon = func() {}, func() {}
	up, err := s.dial()
	if err != nil {
		return err
	}
	defer up.Close()
	if !s.awaitManager(ctx, up, limit) || !s.isAlone() {
		return nil
	}
	s.attached.Store(true)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	work := deployments(cred, up)
	work.CheckIn = nil // the manager has answered, and the list comes after its answer
	ss.deploy.Attach(work)
	listed := make(chan error, 1)
	listing, stop := context.WithCancel(ctx)
	go func() { listed <- up.List(listing) }()
	if s.awaitWorkDone(ctx, up, work) {
		s.checkIn(ctx, up) // the check-in reports orphans and the journal
	}
	stop()
	return <-listed
}

// isAlone reports whether the agent may act for its Cluster: no other agent does.
func (s *session) isAlone() bool {
	select {
	case <-s.identityChecked.done:
		return true
	default:
		return false
	}
}

// awaitManager checks in until the manager answers; false: it did not answer within
// limit.
func (s *session) awaitManager(ctx context.Context, up *managerclient.Client, limit time.Duration) bool {
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
			s.onFailure(err)
		}
		return false
	}
	s.onAnswer(ans)
	return true
}

// awaitWorkDone waits until all work is done and reported, or has failed; false: the
// time limit has passed. It reconnects if the connection is lost.
func (s *session) awaitWorkDone(ctx context.Context, up *managerclient.Client, work *deploy.Session) bool {
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
			s.deploy.EnqueueAll()
			woken = true
		default:
			if left = s.deploy.Unfinished(work); len(left) == 0 {
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
