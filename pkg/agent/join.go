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
	reasonPending    = "RegistrationUnanswered" // the manager takes its time
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

// observe watches for registration tokens as long as one credential is worked with,
// or as long as there is none. It returns true when another credential was kept,
// and false when ctx ends or, where idle is not 0 and nothing is under way, after
// that time.
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
		if j.judge(ctx) {
			j.contact.anew()
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

// judge reads the bootstrap Secret, and begins or ends a registration accordingly. It
// is true when another credential was kept.
func (j *join) judge(ctx context.Context) bool {
	b, there := j.bootstrap.Look()
	use, reason := registration.UseNot, ""
	if there {
		use, reason = registration.JudgeBootstrap(b.Bootstrapping, j.cred.Origin, j.contact.state())
	}
	if j.run != nil && (j.run.over() || !there || use == registration.UseNot || !j.run.boot.Same(b)) && j.stop() {
		return true
	}
	switch {
	case !there || use == registration.UseLater:
	case use == registration.UseNot:
		j.dismiss(ctx, b, reason)
	case j.run == nil:
		j.begin(ctx, b, reason)
	}
	return false
}

// over reports whether a series of tries has ended.
func (r *joinRun) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stop ends the join that is under way, and waits for that. It is true if another
// credential was kept by then: the bootstrap watcher may report that the token was
// forgotten before the code that forgot it gets the answer.
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

// dismiss removes a token that is of no use. Where that fails it is tried again.
func (j *join) dismiss(ctx context.Context, b register.Bootstrap, reason string) {
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

// begin registers in the background, until that succeeds or is stopped.
func (j *join) begin(ctx context.Context, b register.Bootstrap, reason string) {
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

// register tries until it has a credential that works, and keeps that. It is false
// when ctx has ended before.
func (j *join) register(ctx context.Context, b register.Bootstrap, reason string) bool {
	cfg := j.registration()
	attempt := register.NewAttempt(cfg, b, j.unanswered)
	var delays kube.Backoff
	reported := ""
	if j.bootstrap.Settle(ctx) != nil {
		return false
	}
	for {
		err := j.once(ctx, cfg, attempt, reason)
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
			j.refused(b, t, err)
		}
		if delays.Wait(ctx) != nil {
			return false
		}
	}
}

// registration is what package register gets to know of the agent.
func (b *base) registration() register.Config {
	return register.Config{
		Down: b.down.Loop("register"), Namespace: b.cfg.Namespace, UserAgent: b.cfg.userAgent(), Log: b.log, Wrap: b.cfg.wrapManager,
	}
}

// once registers once. The present credential is given up only when the new one
// has been used.
func (j *join) once(ctx context.Context, cfg register.Config, attempt *register.Attempt, reason string) error {
	grant, err := attempt.Try(ctx)
	if err != nil {
		return err
	}
	again := j.cred.Origin != (registration.Origin{})
	if again {
		if err := j.try(ctx, grant.Credential); err != nil {
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

// try checks in once with a new credential.
func (j *join) try(ctx context.Context, cred register.Credential) error {
	up, err := j.dialer.dial(cred, checkin.Config{})
	if err != nil {
		return err
	}
	defer up.Close()
	_, err = up.CheckIn(ctx)
	return err
}

// refused says why the agent cannot register.
func (j *join) refused(b register.Bootstrap, t trouble, cause error) {
	if j.cred.Origin == (registration.Origin{}) {
		if _, err := j.contact.lost(b.APIServerURL, t, cause); err != nil {
			j.log.WithField("error", err.Error()).Warn("state of the connection not kept")
		}
		j.events.record(kube.Warning, t.reason, "cannot register: the manager at "+b.APIServerURL+" "+t.what+" ("+cause.Error()+"); "+t.hint)
		return
	}
	j.events.record(kube.Warning, t.reason, "cannot register again: the manager at "+b.APIServerURL+" "+t.what+" ("+cause.Error()+"); "+t.hint+
		". The present credential is kept.")
}

// unanswered says that the manager takes its time.
func (j *join) unanswered(r register.Request) {
	text := "the manager at " + r.URL + " has not answered ClusterRegistration " + r.Workspace + "/" + r.Name +
		" yet: it may be busy, or wait for a person there (fleet cluster accept)"
	j.log.WithFields(logrus.Fields{"manager": r.URL, "reason": reasonPending}).Warn(text)
	j.events.record(kube.Normal, reasonPending, text)
	if j.cred.Origin != (registration.Origin{}) {
		return
	}
	t := trouble{reason: reasonPending, hint: "on the manager: kubectl -n " + r.Workspace + " get clusterregistrations, fleet cluster accept"}
	if _, err := j.contact.lost(r.URL, t, errors.New(text)); err != nil {
		j.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
}

// homeless says that this agent has nothing to register with.
func (r *registrar) homeless() {
	if _, there := r.bootstrap.Look(); there || !r.bootstrap.HasSynced() {
		return
	}
	t := unregistered(r.cfg.Namespace)
	changes, err := r.contact.lost("", t, register.ErrNotRegistered)
	if err != nil {
		r.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
	if changes {
		r.log.WithField("reason", t.reason).Warn("not registered, and no registration token")
		r.events.record(kube.Warning, t.reason, "this agent has no credential and no registration token; "+t.hint)
	}
}
