package controllers

import (
	"context"
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/controllers/notimplemented"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

// Run works as the controller role until ctx ends or a loop cannot go on, and
// then waits for all loops to stop. It holds the role's lease while it works.
func Run(ctx context.Context, cfg Config, c *kube.Client, log *logrus.Entry) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return Lead(ctx, cfg, c, LeaseController, func(ctx context.Context) error {
		engine := bundle.New(bundle.Config{
			Namespace: cfg.Namespace, ManagerID: cfg.ManagerID,
			CheckinInterval: cfg.CheckinInterval, Workers: cfg.Workers,
		}, c, log)
		refusals := notimplemented.New(c)
		watchLoops(append(engine.Loops(), refusals.Loops()...))
		defer watchEngine(engine)()
		log.Info("controller started")
		return kube.Run(ctx, Report(log), append(engine.Parts(), refusals.Parts()...)...)
	})
}

// Lead calls f while it holds a lease; without leader election at once.
func Lead(ctx context.Context, cfg Config, c *kube.Client, lease string, f func(context.Context) error) error {
	if !cfg.LeaderElect {
		return f(ctx)
	}
	return kube.Lead(ctx, c, kube.Lease{Namespace: cfg.Namespace, Name: lease, Identity: cfg.Identity}, f)
}

// Report logs failed turns of loops: what waits for a change or a time as
// information, the rest as an error, each once per failure.
func Report(log *logrus.Entry) func(loop string, key kube.Key, err error) {
	return func(loop string, key kube.Key, err error) {
		entry := log.WithFields(logrus.Fields{
			"action": loop, "workspace": key.Namespace, "object": key.Name, "error": err.Error(), "reason": fault.ReasonOf(err),
		})
		switch {
		case fault.IsWait(err):
			entry.Debug("waits")
		case fault.IsPermanent(err):
			entry.Warn("needs a change")
		case errors.Is(err, context.Canceled):
		default:
			entry.Error("failed, will try again")
		}
	}
}
