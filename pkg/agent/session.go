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

// sessions make connections to the manager, one at a time, each with one credential.
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
	return &session{sessions: ss, cred: cred, rotator: rotator, managerKnown: newSignal(), identityChecked: newSignal()}
}

// managerLost records that the agent cannot work with the manager, and logs it if that
// is a change.
func (ss *sessions) managerLost(cred register.Credential, t trouble, cause error) {
	ss.orphans.pauseTimer()
	changes, err := ss.contact.setLost(cred.URL(), t, cause)
	logNotStored(ss.log, err)
	if !changes {
		return
	}
	ss.log.WithFields(logrus.Fields{"manager": cred.URL(), "reason": t.reason, "error": cause.Error()}).Warn("manager away")
	text := "the manager at " + cred.URL() + " " + t.what + " (" + cause.Error() + "); " + t.hint
	ss.events.record(kube.Warning, t.reason, text+". Everything that runs is kept.")
}

// deployments returns the part of a connection that the deploy controller uses.
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
	s.useLastManager()
	work, ready := deployments(cred, up), make(chan struct{})
	group.Go(func() error { return up.Run(join, ready) })
	group.Go(func() error {
		// Records carry the manager's id, so it has to be known first.
		select {
		case <-join.Done():
			return nil
		case <-s.managerKnown.done:
		}
		// Nothing is deployed for a Cluster that may be another cluster's.
		select {
		case <-join.Done():
			return nil
		case <-s.identityChecked.done:
		}
		s.attached.Store(true)
		ss.deploy.Attach(work)
		close(ready)
		return s.enqueueAllSynced(join, up)
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
	return s.dialer.dial(s.cred, checkin.Config{Credential: s.rotator.Uses, OnAnswer: s.onAnswer, OnFailure: s.onFailure})
}

// useLastManager sets the manager that answered last, until a manager answers.
func (s *session) useLastManager() {
	if m, ok := s.contact.lastManager(); ok {
		s.deploy.SetManager(m)
		s.managerKnown.set()
	}
}

// session is one connection to the manager.
type session struct {
	*sessions
	cred            register.Credential
	rotator         *credential.Rotator // of that
	managerKnown    *signal             // the manager's id
	identityChecked *signal             // the agent may act for the Cluster
	relist          func()              // ends the session, so that a new one begins
	soon            func()              // checks in at once

	version uint64 // of the Cluster, as answered last

	duplicate string
	attached  atomic.Bool // the deploy loop works with the session
}

// enqueueAllSynced enqueues all deployments when the first list of the session has
// arrived: also those that the agent has accepted and that the list lacks.
func (s *session) enqueueAllSynced(ctx context.Context, up *managerclient.Client) error {
	if err := up.Synced(ctx); err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	s.deploy.EnqueueAll()
	s.soon() // reports orphans
	return nil
}

// onAnswer handles a successful check-in.
func (s *session) onAnswer(ans checkin.Answer) {
	s.cfg.Metrics.recordCheckIn("ok")
	s.events.journal.store()
	if s.isManagerRestored(ans.Version) {
		return
	}
	mark := s.contact.markOf(s.cred.URL(), ans.Mark)
	s.restores.reportCopy(mark)
	s.deploy.Answered(mark)
	s.orphans.setManager(mark)
	s.managerKnown.set()
	if s.mode.setInterval(ans.Interval) {
		s.log.WithField("manager", s.cred.URL()).Info("checks in every " + heartbeat.FormatInterval(ans.Interval))
	}
	act := s.mayAct(ans)
	s.deploy.Suspend(ans.Younger || !act && s.attached.Load())
	s.reportRival(ans)
	away := s.contact.isAway()
	back, err := s.contact.setReached(s.cred.URL(), mark)
	logNotStored(s.log, err)
	if away {
		s.events.record(kube.Normal, "ManagerReached", "the manager at "+s.cred.URL()+" answers again")
	}
	if back {
		s.log.WithField("manager", s.cred.URL()).Info("manager reached")
		s.deploy.EnqueueAll() // these report what happened while the manager was away
	}
	s.observeOffer(ans)
}

// reportRival reports once that another agent uses the same identity, and once that it
// is gone.
func (s *session) reportRival(ans checkin.Answer) {
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

// onFailure handles a failed check-in: the manager counts as away. If the credential is
// refused, the registrar looks for a token to register with.
func (s *session) onFailure(err error) {
	t := troubleOf(err, s.cfg.Namespace)
	s.onFailedCheckIn(err)
	s.cfg.Metrics.recordCheckIn(map[bool]string{true: "refused", false: "error"}[t.refused()])
	defer s.events.journal.store()
	if t.reason == reasonCredential {
		recovered, cause := s.recoverCredential()
		if recovered {
			return
		}
		t, err = s.expiredTrouble(t, err, cause)
	}
	s.managerLost(s.cred, t, err)
}
