// Package display writes status.display of BundleDeployments whose agent does not write
// it: the agents of rancher/fleet leave it to the manager. Agents of this project write
// it themselves, together with the rest of the status.
package display

import (
	"context"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// Config is what the controller reads.
type Config struct {
	Deployments *kube.Cache[*fleet.BundleDeployment]
	// Reporter returns the agent that reports a deployment; false where another manager
	// looks after the deployment, or its Cluster is not known.
	Reporter func(*fleet.BundleDeployment) (summary.Reporter, bool)
}

// A Controller keeps status.display up to date.
type Controller struct {
	cfg   Config
	store *kube.Store[*fleet.BundleDeployment]
	loop  *kube.Controller
}

// New prepares the controller, which sees each change of cfg.Deployments after the
// handlers that were registered before; it sends no request before its loop runs.
func New(cfg Config, c *kube.Client) *Controller {
	d := &Controller{cfg: cfg, store: kube.StoreOf[*fleet.BundleDeployment](c.Loop("display"))}
	d.loop = kube.NewController("display", 4, d.Reconcile)
	cfg.Deployments.OnChange(func(_, changed *fleet.BundleDeployment) {
		if changed != nil {
			d.Check(changed)
		}
	})
	return d
}

// Loop returns the controller's loop, to run and for metrics.
func (c *Controller) Loop() *kube.Controller { return c.loop }

// Check enqueues a deployment whose display the manager has to write.
func (c *Controller) Check(bd *fleet.BundleDeployment) {
	if _, writes := c.decide(bd); writes {
		c.loop.Add(kube.KeyOf(bd))
	}
}

// Reconcile writes the display of one deployment, if it is not what it should be. After
// a conflict it decides again after the watch has reported the change.
func (c *Controller) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	bd, ok := c.cfg.Deployments.Get(key)
	if !ok {
		return kube.Done, nil
	}
	display, writes := c.decide(bd)
	if !writes {
		return kube.Done, nil
	}
	changed := *bd
	changed.Status.Display = display
	if _, err := c.store.PatchStatus(ctx, bd, &changed); err != nil && !kube.IsGone(err) {
		return kube.Done, err
	}
	return kube.Done, nil
}

// decide returns the display that a deployment should have; false: the manager does not
// write it.
func (c *Controller) decide(bd *fleet.BundleDeployment) (fleet.BundleDeploymentDisplay, bool) {
	agent, mine := c.cfg.Reporter(bd)
	if !mine {
		return fleet.BundleDeploymentDisplay{}, false
	}
	return summary.ManagerDisplay(bd, agent)
}
