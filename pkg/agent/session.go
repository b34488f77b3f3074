package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

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

// sessions work with the manager, one at a time, each with one credential.
type sessions struct {
	*base
	mode     *connectionMode
	identity *identityCheck
	dialer   *dialer
	deploy   *deploy.Sessions
	orphans  *orphans
	restores *restores
	own      *ownCluster
}

// open returns a session that has no connection yet.
func (ss *sessions) open(cred register.Credential, rotator *credential.Rotator) *session {
	return &session{sessions: ss, cred: cred, rotator: rotator, known: newOnce(), alone: newOnce()}
}

// lost notes that the manager cannot be worked with, and reports it where that is a
// change.
func (ss *sessions) lost(cred register.Credential, t trouble, cause error) {
	ss.orphans.gap()
	changes, err := ss.contact.lost(cred.URL(), t, cause)
	if err != nil {
		ss.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
	if !changes {
		return
	}
	ss.log.WithFields(logrus.Fields{"manager": cred.URL(), "reason": t.reason, "error": cause.Error()}).Warn("manager away")
	text := "the manager at " + cred.URL() + " " + t.what + " (" + cause.Error() + "); " + t.hint
	ss.events.record(kube.Warning, t.reason, text+". Everything that runs is kept.")
}

// deployments is what the deploy loop gets of a connection.
func deployments(cred register.Credential, up *managerclient.Client) *deploy.Session {
	return &deploy.Session{
		Namespace:   cred.DeploymentNamespace,
		Deployments: up.Deployments, Statuses: up.Statuses, Contents: up.Contents, Secrets: up.Secrets, ConfigMaps: up.ConfigMaps,
		CheckIn: up.Soon, Away: func() bool { return up.Down() != nil },
	}
}

// run works with one credential until ctx ends or another is needed.
func (ss *sessions) run(ctx context.Context, cred register.Credential, rotator *credential.Rotator) error {
	group, ctx := errgroup.WithContext(ctx)
	join, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := ss.open(cred, rotator)
	s.relist = func() { cancel(errRestored) }
	up, err := s.dial()
	if err != nil {
		return err
	}
	defer up.Close()
	s.soon = up.Soon
	ss.own.connected(up.Soon)
	defer ss.own.connected(nil)
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
		ss.deploy.Attach(work)
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

// dial returns a connection whose check-ins the session handles.
func (s *session) dial() (*managerclient.Client, error) {
	return s.dialer.dial(s.cred, checkin.Config{Credential: s.rotator.Uses, OnAnswer: s.answered, OnFailure: s.failed})
}

// remember takes the manager to be the one that answered last, until one answers.
func (s *session) remember() {
	if m, ok := s.contact.manager(); ok {
		s.deploy.SetManager(m)
		s.known.set()
	}
}

// session is one connection to the manager.
type session struct {
	*sessions
	cred    register.Credential
	rotator *credential.Rotator // of that
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
	s.deploy.WakeAll()
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
	s.deploy.Answered(mark)
	s.orphans.under(mark)
	s.known.set()
	if s.mode.setInterval(ans.Interval) {
		s.log.WithField("manager", s.cred.URL()).Info("checks in every " + heartbeat.FormatInterval(ans.Interval))
	}
	act := s.mayAct(ans)
	s.deploy.Suspend(ans.Younger || !act && s.attached.Load())
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
		s.deploy.WakeAll() // reports what happened meanwhile
	}
	s.observeOffer(ans)
}

// rival says once that another agent has the same identity, and once that it is gone.
func (s *session) rival(ans checkin.Answer) {
	if ans.Duplicate == s.duplicate {
		return
	}
	s.duplicate = ans.Duplicate
	entry := s.log.WithFields(logrus.Fields{"cluster": s.cred.Cluster.String(), "agent": s.identity.instance})
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
