package deploy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// maxSteps is how many steps a release may need from one state to another.
const maxSteps = 8

// An installer brings a release about, with the user's rights.
type installer struct {
	api   client.Access
	agent string // namespace of the agent that it acts for
}

// deploy brings the release about, and prints what is installed then.
func (o Options) deploy(ctx context.Context, in installer, d helm.Deployment, doc Deployed, std printer.Stdio) error {
	helmClient, err := helm.Connect(helm.Config{REST: in.api.Rest, AgentNamespace: in.agent})
	if err != nil {
		return err
	}
	found, last, err := runSteps(ctx, helmClient, d, func(a release.Action) {
		doc.Changed, doc.Reason = true, a.Message
		std.Note("%s: %s", a.Verb, a.Message)
	})
	if err != nil {
		return client.DescribeServerError(in.api.Server, undeployed(d, err))
	}
	if !doc.Changed {
		doc.Reason = last.Message
		std.Note("nothing to do: revision %d is %s", found.Revision, last.Message)
	}
	doc.Revision = found.Revision
	return o.printDeployed(std, doc, found.Manifest)
}

// checkNamespaceAllowed refuses a deployment whose allowedTargetNamespaceSelector does not match
// its namespace, as an agent does.
func checkNamespaceAllowed(ctx context.Context, a client.Access, d helm.Deployment) error {
	if d.Options.AllowedTargetNamespaceSelector == nil {
		return nil
	}
	ns, err := a.API.Get(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), "", d.ID.Namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read namespace %q: %w", d.ID.Namespace, err)
	}
	var labels map[string]string
	if err == nil {
		labels = ns.GetLabels()
	}
	if why := options.TargetNamespaceRefusal(d.Options, d.ID.Namespace, labels, err == nil); why != "" {
		return fmt.Errorf("%w: %s", cli.ErrRefused, why)
	}
	return nil
}

// runSteps takes steps until there is none left to take. reported is called before each.
// Package release decides which step is next, as for an agent.
func runSteps(ctx context.Context, client *helm.Client, d helm.Deployment, reported func(release.Action)) (release.Observed, release.Action, error) {
	o := d.Options
	wanted := release.Wanted{
		ID: d.ID, Self: d.Memory.Owner, DeploymentID: d.Memory.DeploymentID, KeepResources: o.KeepResources,
		TakeOwnership: o.Helm != nil && o.Helm.TakeOwnership,
	}
	for range maxSteps {
		found, err := client.Observe(ctx, d.ID)
		if err != nil {
			return found, release.Action{}, err
		}
		a := release.Decide(found, wanted)
		switch a.Verb {
		case release.Keep:
			return found, a, nil
		case release.Refuse, release.Hold:
			return found, a, reconcile.TerminalError(a.Reason, errors.New(a.Message))
		}
		reported(a)
		if err := takeStep(ctx, client, d, a); err != nil {
			return found, a, err
		}
	}
	return release.Observed{}, release.Action{}, fmt.Errorf("release %s does not come to rest", d.ID)
}

// takeStep takes one step.
func takeStep(ctx context.Context, client *helm.Client, d helm.Deployment, a release.Action) error {
	switch a.Verb {
	case release.Install:
		return client.Install(ctx, d)
	case release.Upgrade:
		return client.Upgrade(ctx, d)
	case release.Fail:
		return client.Fail(ctx, d.ID)
	case release.Purge:
		return client.Purge(ctx, d.ID)
	case release.Forget:
		return client.Forget(ctx, d.ID)
	case release.Uninstall:
		return client.Uninstall(ctx, d.ID, helm.RightsOf(d.Options))
	}
	return fmt.Errorf("unknown action %q", a.Verb)
}
