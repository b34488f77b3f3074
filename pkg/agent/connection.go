package agent

import (
	"context"
	"errors"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/credential"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A connection keeps the agent connected with its manager: always, or by a schedule.
type connection struct {
	*base
	mode      *connectionMode
	identity  *identityCheck
	registrar *registrar
	sessions  *sessions
	fresh     bool // the agent has just registered; of serve and what that calls
}

// serve keeps the agent connected to its manager until ctx ends: it registers the agent
// if it has no credential, and then works with the credential. An error of a credential
// or of a manager does not end it.
func (c *connection) serve(ctx context.Context) error {
	var broken kube.Backoff
	for ctx.Err() == nil {
		cred, err := register.Read(ctx, c.registration())
		if err == nil {
			err = c.workWith(ctx, cred)
			if err == nil || errors.Is(err, errRestored) || errors.Is(err, errJoined) {
				if errors.Is(err, errJoined) {
					c.fresh = true
					c.identity.hasJoined()
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
			c.sessions.managerLost(cred, unusableCredential(c.cfg.Namespace), err)
		case !errors.Is(err, register.ErrNotRegistered):
			c.log.WithField("error", err.Error()).Warn("waiting for the agent's own cluster")
		}
		// A token that comes is used at once; else the Secret may have been put right.
		if c.registrar.observe(ctx, register.Credential{}, min(broken.Next(), idleJoin)) {
			c.fresh = true
			c.identity.hasJoined()
		} else if errors.Is(err, register.ErrNotRegistered) {
			c.registrar.reportNoToken()
		}
	}
	return nil
}

// workWith works with one credential until ctx ends or the agent gets another
// credential.
func (c *connection) workWith(ctx context.Context, cred register.Credential) error {
	ctx, cancel := context.WithCancelCause(ctx)
	heeded := make(chan struct{})
	go func() {
		defer close(heeded)
		if c.registrar.observe(ctx, cred, 0) {
			cancel(errJoined)
		}
	}()
	err := c.connect(ctx, cred)
	cancel(nil)
	<-heeded
	if errors.Is(context.Cause(ctx), errJoined) {
		return errJoined
	}
	return err
}

// connect keeps the agent connected permanently, or by a schedule, until the mode
// changes.
func (c *connection) connect(ctx context.Context, cred register.Credential) error {
	rotator := c.rotatorOf(cred)
	cred.REST = rotator.REST()
	schedule, changed := c.mode.current()
	if schedule != nil {
		return c.connectBySchedule(ctx, cred, rotator, changed)
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
	logNotStored(c.log, c.contact.setNextConnection(time.Time{}))
	return c.sessions.run(ctx, cred, rotator)
}

// rotatorOf returns the rotator of a credential.
func (c *connection) rotatorOf(cred register.Credential) *credential.Rotator {
	return credential.New(credential.Config{
		Down: c.down.Loop("credential"), Namespace: c.cfg.Namespace,
		REST: cred.REST, Record: cred.Record, Cluster: cred.Cluster,
		UserAgent: c.cfg.userAgent(), Log: c.log, Report: c.events.record,
	})
}
