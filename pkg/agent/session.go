package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/credential"
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	"github.com/fleetworkspace/fleet/pkg/agent/managerclient"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// serve keeps the connection to the manager until ctx ends: it registers where
// that is needed, and then works with the credential it got. Nothing that is wrong
// with a credential or a manager ends the agent.
func (a *agent) serve(ctx context.Context) error {
	var broken kube.Backoff
	for ctx.Err() == nil {
		cred, err := register.Read(ctx, a.down, a.cfg.Namespace)
		if err == nil {
			err = a.work(ctx, cred)
			if err == nil || errors.Is(err, errRestored) || errors.Is(err, errJoined) {
				if errors.Is(err, errJoined) {
					a.fresh = true
					a.identity.hasJoined()
				}
				broken.Reset()
				continue
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, register.ErrBroken), cred.URL() != "":
			a.lost(cred, unusable(a.cfg.Namespace), err)
		case !errors.Is(err, register.ErrNotRegistered):
			a.log.WithField("error", err.Error()).Warn("waiting for the agent's own cluster")
		}
		// A token that comes is used at once; else the Secret may have been put right.
		if a.observeCredential(ctx, register.Credential{}, min(broken.Next(), idleJoin)) {
			a.fresh = true
			a.identity.hasJoined()
		} else if errors.Is(err, register.ErrNotRegistered) {
			a.homeless()
		}
	}
	return nil
}

// work works with one credential, in the way that is configured, until ctx ends or
// there is another one.
func (a *agent) work(ctx context.Context, cred register.Credential) error {
	ctx, cancel := context.WithCancelCause(ctx)
	heeded := make(chan struct{})
	go func() {
		defer close(heeded)
		if a.observeCredential(ctx, cred, 0) {
			cancel(errJoined)
		}
	}()
	err := a.connect(ctx, cred)
	cancel(nil)
	<-heeded
	if errors.Is(context.Cause(ctx), errJoined) {
		return errJoined
	}
	return err
}

// connect keeps the agent connected always, or by a schedule, until the mode changes.
func (a *agent) connect(ctx context.Context, cred register.Credential) error {
	rotator := a.rotatorOf(cred)
	cred.REST = rotator.REST()
	schedule, changed := a.settings.mode.current()
	if schedule != nil {
		return a.poll(ctx, cred, rotator, changed)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := a.contact.awaits(time.Time{}); err != nil {
		a.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
	return a.session(ctx, cred, rotator)
}

// lost notes that the manager cannot be worked with, and reports it where that is a
// change.
func (a *agent) lost(cred register.Credential, t trouble, cause error) {
	a.orphans.gap()
	changes, err := a.contact.lost(cred.URL(), t, cause)
	if err != nil {
		a.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
	if !changes {
		return
	}
	a.log.WithFields(logrus.Fields{"manager": cred.URL(), "reason": t.reason, "error": cause.Error()}).Warn("manager away")
	text := "the manager at " + cred.URL() + " " + t.what + " (" + cause.Error() + "); " + t.hint
	a.events.record(kube.Warning, t.reason, text+". Everything that runs is kept.")
}

// managerClient returns a connection with a credential, and with what the session
// reports over it.
func (a *agent) managerClient(cred register.Credential, s *session) (*managerclient.Client, error) {
	return managerclient.New(managerclient.Config{
		REST: a.cfg.Metrics.counting(cred.REST, serverManager), Namespace: cred.DeploymentNamespace,
		UserAgent: a.cfg.userAgent(), Proxy: a.cfg.Proxy, Listed: a.settings.mode.polls(),
		CheckIn: checkin.Config{
			Cluster: cred.Cluster, Next: a.times(cred),
			Namespace: a.cfg.Namespace, Version: a.cfg.Version, Kubernetes: a.version, Instance: a.instance,
			Orphans: a.orphans.report, Journal: a.events.journal.packed, Credential: s.rotator.Uses, Trouble: a.own.trouble,
			ClusterUID: a.identity.judge.Own, Claims: a.identity.claims,
			OnAnswer: s.answered, OnFailure: s.failed,
		},
	})
}

// times is when the agent checks in.
func (a *agent) times(cred register.Credential) func(time.Time) time.Time {
	identity := cred.Cluster.String()
	return func(now time.Time) time.Time { return a.settings.mode.next(identity, now) }
}

// deployments is what the deploy loop gets of a connection.
func deployments(cred register.Credential, up *managerclient.Client) *deploy.Session {
	return &deploy.Session{
		Namespace:   cred.DeploymentNamespace,
		Deployments: up.Deployments, Statuses: up.Statuses, Contents: up.Contents, Secrets: up.Secrets, ConfigMaps: up.ConfigMaps,
		CheckIn: up.Soon, Away: func() bool { return up.Down() != nil },
	}
}

// session works with one credential until ctx ends or another is needed.
func (a *agent) session(ctx context.Context, cred register.Credential, rotator *credential.Rotator) error {
	group, ctx := errgroup.WithContext(ctx)
	join, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{
		agent: a, cred: cred, rotator: rotator, known: newOnce(), alone: newOnce(),
		relist: func() { cancel(errRestored) },
	}
	up, err := a.managerClient(cred, s)
	if err != nil {
		return err
	}
	defer up.Close()
	s.soon = up.Soon
	a.own.connected(up.Soon)
	defer a.own.connected(nil)
	s.remember()
	work, ready := deployments(cred, up), make(chan struct{})
	group.Go(func() error { return up.Run(join, ready) })
	group.Go(func() error {
		// Records carry the manager's id, so it has to be known first.
		select {
		case <-join.Done():
			return nil
		case <-s.known.done:
		}
		// Nothing is deployed for a Cluster that may be another cluster's.
		select {
		case <-join.Done():
			return nil
		case <-s.alone.done:
		}
		s.attached.Store(true)
		a.deploy.Sessions().Attach(work)
		close(ready)
		return s.settle(join, up)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if errors.Is(context.Cause(join), errRestored) {
		return errRestored
	}
	return nil
}

// remember takes the manager to be the one that answered last, until one answers.
func (s *session) remember() {
	if m, ok := s.contact.manager(); ok {
		s.deploy.Sessions().SetManager(m)
		s.known.set()
	}
}

// session is one connection to the manager.
type session struct {
	*agent
	cred    register.Credential
	rotator *credential.Rotator // of that; nil: it is not rotated
	known   *once               // the manager's id
	alone   *once               // the agent may act for the Cluster
	relist  func()              // ends the session, to begin it again
	soon    func()              // checks in at once

	version uint64 // of the Cluster, as answered last

	duplicate string
	attached  atomic.Bool // the deploy loop works with the session
}

// settle looks at everything once the first list of deployments is there: also
// at what was accepted and is not in it.
func (s *session) settle(ctx context.Context, up *managerclient.Client) error {
	if err := up.Synced(ctx); err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	s.deploy.Sessions().WakeAll()
	s.soon() // reports orphans
	return nil
}

// answered handles a check-in that succeeded.
func (s *session) answered(ans checkin.Answer) {
	s.cfg.Metrics.checkedIn("ok")
	s.events.journal.keep()
	if s.restored(ans.Version) {
		return
	}
	mark := s.contact.markOf(s.cred.URL(), ans.Mark)
	s.restores.reportCopy(mark)
	s.deploy.Sessions().Answered(mark)
	s.orphans.under(mark)
	s.known.set()
	if s.settings.mode.setInterval(ans.Interval) {
		s.log.WithField("manager", s.cred.URL()).Info("checks in every " + heartbeat.FormatInterval(ans.Interval))
	}
	act := s.mayAct(ans)
	s.deploy.Sessions().Suspend(ans.Younger || !act && s.attached.Load())
	s.rival(ans)
	away := s.contact.isAway()
	back, err := s.contact.reached(s.cred.URL(), mark)
	if err != nil {
		s.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
	if away {
		s.events.record(kube.Normal, "ManagerReached", "the manager at "+s.cred.URL()+" answers again")
	}
	if back {
		s.log.WithField("manager", s.cred.URL()).Info("manager reached")
		s.deploy.Sessions().WakeAll() // reports what happened meanwhile
	}
	s.observeOffer(ans)
}

// rival says once that another agent has the same identity, and once that it is gone.
func (s *session) rival(ans checkin.Answer) {
	if ans.Duplicate == s.duplicate {
		return
	}
	s.duplicate = ans.Duplicate
	entry := s.log.WithFields(logrus.Fields{"cluster": s.cred.Cluster.String(), "agent": s.instance})
	if ans.Duplicate == "" {
		entry.Info("the other agent with this identity is gone")
		return
	}
	text := fmt.Sprintf("agent %s has the same identity as this one (a cloned cluster?)", ans.Duplicate)
	if ans.Younger {
		text += "; this one is younger and deploys nothing"
	}
	entry.WithField("reason", fleet.ConditionDuplicateIdentity).Warn(text)
	s.events.record(kube.Warning, fleet.ConditionDuplicateIdentity, text+"; give one of them a clientID")
}

// failed handles a check-in that failed. Whatever the reason, the manager is away; join
// looks for a token to register with.
func (s *session) failed(err error) {
	t := troubleOf(err, s.cfg.Namespace)
	s.unanswered(err)
	s.cfg.Metrics.checkedIn(map[bool]string{true: "refused", false: "error"}[t.refused()])
	defer s.events.journal.keep()
	if t.reason == reasonCredential {
		recovered, cause := s.recovered()
		if recovered {
			return
		}
		t, err = s.ended(t, err, cause)
	}
	s.lost(s.cred, t, err)
}
