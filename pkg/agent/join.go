package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// errJoined ends the work with a credential because there is another one, which
// has worked.
var errJoined = errors.New("the agent has registered again")

// Reasons of events about registering.
const (
	reasonRegistered = "Registered"             // for the first time
	reasonRejoining  = "RegistersAgain"         // a token is there, and why it is used
	reasonRejoined   = "RegisteredAgain"        // the new credential has worked
	reasonNotNeeded  = "TokenNotNeeded"         // a token is there, and why it is not used
	reasonPending    = "RegistrationUnanswered" // the manager has not answered the request yet
)

// idleJoin is how often an agent without a credential checks whether it has been given
// one.
const idleJoin = 20 * time.Second

// A registrar gets credentials for the agent, with the tokens that a user puts into the
// bootstrap Secret.
type registrar struct {
	*base
	bootstrap *register.BootstrapWatcher
	dialer    *dialer
}

// A join gets a credential for one agent: it watches the bootstrap Secret for a token,
// and registers where necessary, while the work goes on.
type join struct {
	*registrar
	cred register.Credential // the present one; zero: there is none
	run  *joinRun            // nil: nothing is under way

	again  <-chan time.Time // has a value when a token that could not be removed is looked at again
	delays kube.Backoff     // of that
}

// joinRun is one series of tries with one token.
type joinRun struct {
	boot   register.Bootstrap
	cancel context.CancelFunc
	done   chan struct{} // closed at the end
	ok     bool          // to be read after that: there is another credential
}

// observe watches for registration tokens while the agent works with cred, or has no
// credential. It returns true when it has stored another credential. It returns false
// when ctx ends, or, unless idle is 0, when no registration runs for that time.
func (r *registrar) observe(ctx context.Context, cred register.Credential, idle time.Duration) bool {
	j := &join{registrar: r, cred: cred}
	defer j.stop()
	var over <-chan time.Time
	if idle > 0 {
		t := time.NewTimer(idle)
		defer t.Stop()
		over = t.C
	}
	for {
		if j.checkBootstrap(ctx) {
			j.contact.setUntried()
			return true
		}
		var done <-chan struct{}
		if j.run != nil {
			done = j.run.done
		}
		select {
		case <-ctx.Done():
			return false
		case <-r.bootstrap.Changed():
		case <-r.contact.changes:
		case <-done:
		case <-j.again:
		case <-over:
			if j.run == nil {
				return false
			}
			over = nil
		}
	}
}

// checkBootstrap reads the bootstrap Secret, and starts or stops a registration. It
// returns true when another credential was stored.
func (j *join) checkBootstrap(ctx context.Context) bool {
	b, there := j.bootstrap.Look()
	use, reason := registration.UseNot, ""
	if there {
		use, reason = registration.DecideBootstrap(b.Bootstrapping, j.cred.Origin, j.contact.state())
	}
	if j.run != nil && (j.run.hasEnded() || !there || use == registration.UseNot || !j.run.boot.Same(b)) && j.stop() {
		return true
	}
	switch {
	case !there || use == registration.UseLater:
	case use == registration.UseNot:
		j.forgetToken(ctx, b, reason)
	case j.run == nil:
		j.startRegistration(ctx, b, reason)
	}
	return false
}

// hasEnded reports whether the registration in the background has ended.
func (r *joinRun) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stop stops the registration in the background, and waits for its end. It returns true
// if the registration has stored a credential: the watch may report that the token was
// deleted before the registration gets the answer to its deletion.
func (j *join) stop() bool {
	if j.run == nil {
		return false
	}
	j.run.cancel()
	<-j.run.done
	ok := j.run.ok
	j.run = nil
	return ok
}

// forgetToken deletes a token that is of no use. If that fails, it is tried again
// later.
func (j *join) forgetToken(ctx context.Context, b register.Bootstrap, reason string) {
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	removed, err := register.Forget(ctx, j.down, j.cfg.Namespace, b)
	if err != nil {
		j.log.WithField("error", err.Error()).Warn("registration token not forgotten")
		j.again = time.After(j.delays.Next())
		return
	}
	j.again = nil
	j.delays.Reset()
	if !removed {
		return
	}
	j.log.WithField("reason", reason).Info("registration token not needed")
	j.events.record(kube.Normal, reasonNotNeeded, "the registration token for "+b.APIServerURL+" was removed: "+reason)
}

// startRegistration registers in the background, until it succeeds or stop is called.
func (j *join) startRegistration(ctx context.Context, b register.Bootstrap, reason string) {
	if j.cred.Origin != (registration.Origin{}) {
		j.log.WithFields(logrus.Fields{"manager": b.APIServerURL, "reason": reason}).Info("registers again")
		j.events.record(kube.Normal, reasonRejoining, "there is a registration token for "+b.APIServerURL+
			" ("+reason+"): this agent registers again, and keeps its credential until the new one has worked")
	}
	ctx, cancel := context.WithCancel(ctx)
	run := &joinRun{boot: b, cancel: cancel, done: make(chan struct{})}
	j.run = run
	go func() {
		defer close(run.done)
		defer cancel()
		run.ok = j.register(ctx, b, reason)
	}()
}

// register tries until it has stored a credential that works. It returns false if ctx
// ends before.
func (j *join) register(ctx context.Context, b register.Bootstrap, reason string) bool {
	cfg := j.registration()
	attempt := register.NewAttempt(cfg, b, j.reportUnanswered)
	var delays kube.Backoff
	reported := ""
	if j.bootstrap.Settle(ctx) != nil {
		return false
	}
	for {
		err := j.registerOnce(ctx, cfg, attempt, reason)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		t := troubleOfToken(err, b.Bootstrapping, j.cfg.Namespace)
		j.log.WithFields(logrus.Fields{"manager": b.APIServerURL, "reason": t.reason, "error": err.Error()}).Warn("not registered")
		if reported != t.reason {
			reported = t.reason
			j.reportRefused(b, t, err)
		}
		if delays.Wait(ctx) != nil {
			return false
		}
	}
}

// registration returns the configuration of package register.
func (b *base) registration() register.Config {
	return register.Config{
		Down: b.down.Loop("register"), Namespace: b.cfg.Namespace, UserAgent: b.cfg.userAgent(), Log: b.log, Wrap: b.cfg.wrapManager,
	}
}

// registerOnce tries to register one time. It replaces the present credential only
// after the new one has worked.
func (j *join) registerOnce(ctx context.Context, cfg register.Config, attempt *register.Attempt, reason string) error {
	grant, err := attempt.Try(ctx)
	if err != nil {
		return err
	}
	again := j.cred.Origin != (registration.Origin{})
	if again {
		if err := j.tryCredential(ctx, grant.Credential); err != nil {
			return fmt.Errorf("try the new credential: %w", err)
		}
	}
	// A grant that was begun is completed: the credential must not be stored in part.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), contactTime)
	defer cancel()
	if err := grant.Keep(ctx, cfg); err != nil {
		return err
	}
	where := grant.Cluster.String() + " at " + grant.URL()
	if again {
		j.events.record(kube.Normal, reasonRejoined, "registered again as "+where+" ("+reason+"); the credential before was given up after the new one had worked")
	} else {
		j.events.record(kube.Normal, reasonRegistered, "registered as "+where)
	}
	if _, err := register.Forget(ctx, j.down, j.cfg.Namespace, attempt.Bootstrap()); err != nil {
		j.log.WithField("error", err.Error()).Warn("registration token not forgotten")
	}
	return nil
}

// tryCredential checks in once with a new credential.
func (j *join) tryCredential(ctx context.Context, cred register.Credential) error {
	up, err := j.dialer.dial(cred, checkin.Config{})
	if err != nil {
		return err
	}
	defer up.Close()
	_, err = up.CheckIn(ctx)
	return err
}

// reportRefused reports why the agent cannot register.
func (j *join) reportRefused(b register.Bootstrap, t trouble, cause error) {
	if j.cred.Origin == (registration.Origin{}) {
		_, err := j.contact.setLost(b.APIServerURL, t, cause)
		logNotStored(j.log, err)
		j.events.record(kube.Warning, t.reason, "cannot register: the manager at "+b.APIServerURL+" "+t.what+" ("+cause.Error()+"); "+t.hint)
		return
	}
	j.events.record(kube.Warning, t.reason, "cannot register again: the manager at "+b.APIServerURL+" "+t.what+" ("+cause.Error()+"); "+t.hint+
		". The present credential is kept.")
}

// reportUnanswered reports that the manager has not answered the request yet.
func (j *join) reportUnanswered(r register.Request) {
	text := "the manager at " + r.URL + " has not answered ClusterRegistration " + r.Workspace + "/" + r.Name +
		" yet: it may be busy, or wait for a person there (fleet cluster accept)"
	j.log.WithFields(logrus.Fields{"manager": r.URL, "reason": reasonPending}).Warn(text)
	j.events.record(kube.Normal, reasonPending, text)
	if j.cred.Origin != (registration.Origin{}) {
		return
	}
	t := trouble{reason: reasonPending, hint: "on the manager: kubectl -n " + r.Workspace + " get clusterregistrations, fleet cluster accept"}
	_, err := j.contact.setLost(r.URL, t, errors.New(text))
	logNotStored(j.log, err)
}

// reportNoToken reports that this agent has neither a credential nor a registration
// token.
func (r *registrar) reportNoToken() {
	if _, there := r.bootstrap.Look(); there || !r.bootstrap.HasSynced() {
		return
	}
	t := noTokenTrouble(r.cfg.Namespace)
	changes, err := r.contact.setLost("", t, register.ErrNotRegistered)
	logNotStored(r.log, err)
	if changes {
		r.log.WithField("reason", t.reason).Warn("not registered, and no registration token")
		r.events.record(kube.Warning, t.reason, "this agent has no credential and no registration token; "+t.hint)
	}
}
