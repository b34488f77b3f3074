package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// errJoin ends a session because a new registration token is there and the
// present credential is refused.
var errJoin = errors.New("a new registration token is there")

// serve keeps the connection to the manager until ctx ends: it registers where
// that is needed, and then works with the credential it got.
func (a *agent) serve(ctx context.Context) error {
	cfg := register.Config{Down: a.down.Loop("register"), Namespace: a.cfg.Namespace, UserAgent: a.cfg.userAgent(), Log: a.log}
	for {
		cred, err := register.Ensure(ctx, cfg)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		err = a.session(ctx, cred)
		if !errors.Is(err, errJoin) {
			return err
		}
		err = patiently(ctx, a.log, "a new registration", func() error {
			_, err := register.Register(ctx, cfg)
			if errors.Is(err, register.ErrNotRegistered) {
				return nil // the token is gone again; the old credential is tried
			}
			return err
		})
		if err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// session works with one credential.
func (a *agent) session(ctx context.Context, cred register.Credential) error {
	up, err := kube.Connect(kube.Config{REST: cred.REST, UserAgent: a.cfg.userAgent(), FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	join, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{agent: a, cred: cred, known: newOnce(), rejoin: func() { cancel(errJoin) }}
	loop := up.Loop("deploy")
	work := &deploy.Session{
		Namespace:   cred.DeploymentNamespace,
		Deployments: kube.NewCache[*fleet.BundleDeployment](loop, kube.Watch{Namespace: cred.DeploymentNamespace}, deploy.Diet),
		Statuses:    kube.StoreOf[*fleet.BundleDeployment](loop),
		Contents:    kube.StoreOf[*fleet.Content](loop),
		Secrets:     kube.StoreOf[*corev1.Secret](loop),
		CheckIn:     func() { s.soon() },
	}
	work.Deployments.OnError(func(err error) { a.log.WithField("error", err.Error()).Debug("list of deployments") })
	check := checkin.New(checkin.Config{
		Statuses: kube.StoreOf[*fleet.Cluster](up.Loop("checkin")), Cluster: cred.Cluster,
		Interval: a.cfg.CheckinInterval, Namespace: a.cfg.Namespace, Version: a.cfg.Version,
		Kubernetes: a.version, Instance: a.instance,
		Orphans: a.deploy.Orphans, OnAnswer: s.answered, OnFailure: s.failed,
	})
	s.soon = check.Soon
	if m, ok := a.contact.manager(); ok {
		a.deploy.SetManager(m)
		s.known.set()
	}
	group.Go(func() error { return check.Run(join) })
	group.Go(func() error {
		// Records carry the manager's id, so it has to be known first.
		select {
		case <-join.Done():
			return nil
		case <-s.known.done:
		}
		a.deploy.Attach(work)
		return work.Deployments.Run(join)
	})
	group.Go(func() error { return s.settle(join, work) })
	if err := group.Wait(); err != nil {
		return err
	}
	if errors.Is(context.Cause(join), errJoin) {
		return errJoin
	}
	return nil
}

// session is one connection to the manager.
type session struct {
	*agent
	cred   register.Credential
	known  *once  // the manager's id
	rejoin func() // ends the session
	soon   func() // checks in at once

	greeted   bool
	duplicate string
}

// settle looks at everything once the first list of deployments is there: also
// at what was accepted and is not in it.
func (s *session) settle(ctx context.Context, work *deploy.Session) error {
	if err := untilSynced(ctx, work.Deployments); err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	s.deploy.WakeAll()
	s.soon() // tells of orphans
	return nil
}

// answered is told of a check-in that succeeded.
func (s *session) answered(ans checkin.Answer) {
	s.deploy.SetManager(ans.Mark)
	s.known.set()
	s.deploy.Suspend(ans.Younger)
	s.rival(ans)
	if !s.greeted {
		s.greeted = true
		s.forgetToken()
	}
	back, err := s.contact.reached(s.cred.URL(), ans.Mark)
	if err != nil {
		s.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
	if back {
		s.log.WithField("manager", s.cred.URL()).Info("manager reached")
		s.deploy.WakeAll() // tells what happened meanwhile
	}
}

// forgetToken removes a registration token that lies about although the
// credential works.
func (s *session) forgetToken() {
	ctx := context.Background()
	if !register.Pending(ctx, s.down, s.cfg.Namespace) {
		return
	}
	if err := register.Forget(ctx, s.down, s.cfg.Namespace); err != nil {
		s.log.WithField("error", err.Error()).Warn("registration token not forgotten")
	}
}

// rival says once that another agent has the same identity, and once that it
// has gone.
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
	entry.WithField("reason", fleet.ConditionDuplicateAgent).Warn(text)
	s.recorder.Event(s.contact.object(), kube.Warning, fleet.ConditionDuplicateAgent, text+"; give one of them a clientID")
}

// failed is told of a check-in that failed. Refused credentials are a manager
// that is away, unless a new token is there to register with.
func (s *session) failed(err error) {
	refused := kube.IsUnauthorized(err) || kube.IsForbidden(err)
	if refused && register.Pending(context.Background(), s.down, s.cfg.Namespace) {
		s.log.Info("credential refused, and a new registration token is there")
		s.rejoin()
		return
	}
	news, keepErr := s.contact.lost(s.cred.URL(), err, refused)
	if keepErr != nil {
		s.log.WithField("error", keepErr.Error()).Warn("state of the connection not kept")
	}
	if !news {
		return
	}
	reason, text := "ManagerAway", "the manager at "+s.cred.URL()+" is away: "+err.Error()
	if refused {
		reason, text = "CredentialRefused", "the manager at "+s.cred.URL()+" refuses the credential; "+joinHint(s.cfg.Namespace)
	}
	s.log.WithFields(logrus.Fields{"manager": s.cred.URL(), "reason": reason, "error": err.Error()}).Warn("manager away")
	s.recorder.Event(s.contact.object(), kube.Warning, reason, text+". Everything that runs is kept.")
}

// joinHint is what a person does about a credential that is refused.
func joinHint(namespace string) string {
	return "to join again: helm upgrade fleet-agent -n " + namespace + " with the values of a new registration token"
}
