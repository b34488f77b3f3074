package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// A process is what the roles of one process share.
type process struct {
	options  *options
	log      *logrus.Entry
	metrics  *controllers.Metrics
	settings registration.Settings
	install  registration.Installation
}

// run takes all roles until ctx ends or one of them cannot go on, and returns
// when all have stopped and given their leases back. It begins when no other manager
// of the same API is at work.
func run(ctx context.Context, o *options, log *logrus.Entry) error {
	p := &process{options: o, log: log, metrics: controllers.NewMetrics()}
	p.metrics.AllObjects = o.metricsAllObjects
	group, ctx := errgroup.WithContext(ctx)
	if err := p.serve(ctx, group); err != nil {
		return err
	}
	group.Go(func() error { return p.runRoles(ctx) })
	err := group.Wait()
	if err == nil {
		log.WithField("action", "stop").Info("fleet-controller ended")
	}
	return err
}

// runRoles takes all roles, as soon as this process may.
func (p *process) runRoles(ctx context.Context) error {
	for _, step := range []func(context.Context) error{p.waitUntilAlone, p.prepare} {
		err := step(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the context was cancelled: what the step broke off is no failure
		}
		if err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, role := range p.options.roles {
		group.Go(func() error {
			if err := p.runRole(ctx, role); err != nil {
				return fmt.Errorf("role %s: %w", role, err)
			}
			return nil
		})
	}
	p.log.WithField("action", "start").Infof("fleet-controller %s", version.Version)
	return group.Wait()
}

// prepare finds out which installation this is, and its settings. The workers that
// read repositories need neither, and may not write the objects for that.
func (p *process) prepare(ctx context.Context) error {
	if !slices.ContainsFunc(p.options.roles, func(r string) bool { return r != roleGitJob && r != roleHelmOps }) {
		return nil
	}
	c, err := p.connect(fleet.FieldManagerController)
	if err != nil {
		return err
	}
	if p.install, err = installation.Ensure(ctx, c, p.options.namespace); err != nil {
		return err
	}
	cm, err := kube.StoreOf[*corev1.ConfigMap](c).Get(ctx, kube.Key{Namespace: p.options.namespace, Name: fleet.ConfigMapController})
	if err != nil && !kube.IsGone(err) {
		return err
	}
	text := ""
	if cm != nil {
		text = cm.Data[fleet.KeyConfig]
	}
	settings, warnings, err := registration.ParseSettings(text)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", fleet.ConfigMapController, err)
	}
	for _, w := range warnings {
		p.log.WithField("reason", w).Warn("setting ignored")
	}
	if p.options.noBootstrap {
		settings.Bootstrap.Namespace = "" // does not join
	}
	p.settings = settings
	return nil
}

// connect is a connection under the name of one part of Fleet.
func (p *process) connect(manager string) (*kube.Client, error) {
	rest, err := kube.RESTConfig(p.options.kubeconfig)
	if err != nil {
		return nil, err
	}
	return kube.Connect(kube.Config{REST: p.metrics.CountRequests(rest), UserAgent: manager + "/" + version.Version, FieldManager: manager})
}

// runRole works as one role.
func (p *process) runRole(ctx context.Context, role string) error {
	switch role {
	case roleController:
		return p.controller(ctx)
	case roleAgentManagement:
		return p.agentManagement(ctx)
	case roleCleanup:
		return p.cleanup(ctx)
	case roleWorkspace:
		return p.workspace(ctx)
	case roleGitJob:
		return p.gitJob(ctx)
	case roleHelmOps:
		return p.helmOps(ctx)
	}
	return fmt.Errorf("there is no role %q", role)
}

func (p *process) config() controllers.Config {
	cfg := controllers.Default()
	cfg.Namespace, cfg.Identity, cfg.LeaderElect = p.options.namespace, p.options.identity, p.options.leaderElect
	cfg.Lease = controllers.LeaseTimes{Duration: p.options.lease.duration, Renew: p.options.lease.renew, Retry: p.options.lease.retry}
	cfg.Scope = p.options.scope
	cfg.ManagerID, cfg.Workers, cfg.Metrics, cfg.Proxy = p.install.ID, p.options.workers, p.metrics, http.ProxyFromEnvironment
	cfg.Addresses, cfg.ImageScans = p.options.addresses, p.options.imageScans
	cfg.Schedules, cfg.Location = p.options.schedules, p.options.location
	cfg.RequireDownstreamLabel = p.settings.RequireDownstreamLabel
	if p.settings.AgentCheckinInterval > 0 {
		cfg.CheckinInterval = p.settings.AgentCheckinInterval
	}
	return cfg
}

func (p *process) controller(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerController)
	if err != nil {
		return err
	}
	return controllers.Run(ctx, p.config(), c, p.log)
}

func (p *process) managementConfig() agentmanagement.Config {
	return agentmanagement.Config{
		Namespace: p.options.namespace, Settings: p.settings,
		Installation: p.install, TokenTTLRequired: p.options.tokenTTLRequired, Scope: p.options.scope,
		Addresses: p.options.addresses,
	}
}

func (p *process) agentManagement(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerAgentManagement)
	if err != nil {
		return err
	}
	follower := workspace.Follower{Client: c, Log: p.log}
	return controllers.Lead(ctx, p.config(), c, agentmanagement.LeaseName, func(ctx context.Context) error {
		return follower.Follow(ctx, p.settings, func(ctx context.Context, settings registration.Settings) error {
			cfg := p.managementConfig()
			cfg.Settings = settings
			return kube.Run(ctx, controllers.Report(p.log), agentmanagement.New(cfg, c, p.log).Runnables()...)
		})
	})
}

func (p *process) cleanup(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerController)
	if err != nil {
		return err
	}
	return controllers.Lead(ctx, p.config(), c, controllers.LeaseCleanup, func(ctx context.Context) error {
		return kube.Run(ctx, controllers.Report(p.log), agentmanagement.NewCleanup(p.managementConfig(), c, p.log).Runnables()...)
	})
}

// workspace ties Fleet to Rancher. Where Rancher's kinds are not served it sleeps.
func (p *process) workspace(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerWorkspace)
	if err != nil {
		return err
	}
	cfg := workspace.Config{Mode: p.options.mode, Fail: controllers.Report(p.log)}
	return controllers.Lead(ctx, p.config(), c, workspace.LeaseName, func(ctx context.Context) error {
		return kube.Run(ctx, controllers.Report(p.log), workspace.New(cfg, c, p.log).Runnables()...)
	})
}

func (p *process) gitJob(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerGitJob)
	if err != nil {
		return err
	}
	job := p.options.gitJob
	job.Dir, job.UserAgent, job.Proxy = os.TempDir(), fleet.FieldManagerGitJob+"/"+version.Version, http.ProxyFromEnvironment
	group, ctx := errgroup.WithContext(ctx)
	if err := p.receiveWebhooks(ctx, group, c); err != nil {
		return err
	}
	group.Go(func() error { return controllers.RunGitJob(ctx, p.config(), job, c, p.log) })
	return group.Wait()
}

func (p *process) helmOps(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerHelmOps)
	if err != nil {
		return err
	}
	ops := controllers.HelmOps{
		Dir: os.TempDir(), UserAgent: fleet.FieldManagerHelmOps + "/" + version.Version, Proxy: http.ProxyFromEnvironment, Workers: p.options.helmOpWorkers,
	}
	return controllers.RunHelmOps(ctx, p.config(), ops, c, p.log)
}
