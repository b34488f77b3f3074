package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A deletionTarget is an object that a user wants to delete, and what is deleted with it.
type deletionTarget struct {
	object      *unstructured.Unstructured
	guard       string   // what protects it; empty where nothing does
	guarded     cli.Kind // of the object to which the protection is added or taken off
	bundles     []*fleet.Bundle
	deployments []*fleet.BundleDeployment
	verdict     withdrawal.Verdict
	writer      string // the GitRepo that writes the Bundle again; empty where there is none
	helmOp      string // the HelmOp that writes the Bundle again; empty where there is none
}

// findDoomed reads an object that a user wants to delete, and all that is deleted with it.
// It narrows the session to the object's workspace.
func findDoomed(ctx context.Context, s *client.Session, o Options) (*deletionTarget, error) {
	u, err := s.Present(ctx, o.Kind, o.Name)
	if err != nil {
		return nil, err
	}
	d := &deletionTarget{object: u, guarded: o.Kind}
	if d.deployments, err = deploymentsOf(ctx, s, o); err != nil {
		return nil, err
	}
	switch o.Kind.Plural {
	case "bundles":
		return d, doomedBundle(ctx, s, d)
	case "helmops":
		return d, doomedHelmOp(ctx, s, d)
	}
	return d, doomedRepo(ctx, s, d)
}

// doomedHelmOp adds the Bundle of a HelmOp, if there is one. What is deleted is judged as
// for this Bundle.
func doomedHelmOp(ctx context.Context, s *client.Session, d *deletionTarget) error {
	name := d.object.GetName()
	var err error
	if d.bundles, err = client.ListAs[fleet.Bundle](ctx, s, cli.MustKind("bundles"), fleet.LabelHelmOpName+"="+name); err != nil {
		return err
	}
	if len(d.bundles) == 0 { // deployments that bear the name are of a Bundle that is not the HelmOp's
		d.deployments = nil
	}
	switch {
	case withdrawal.IsProtected(d.object):
		d.guard = "it is protected"
	case slices.ContainsFunc(d.bundles, func(b *fleet.Bundle) bool { return b.Name == name && withdrawal.IsProtected(b) }):
		d.guard, d.guarded = "its Bundle is protected", cli.MustKind("bundles")
	}
	r := withdrawal.RemovalOfBundle(d.object, d.deployments)
	if r.Budget, err = budget(ctx, s, nil, withdrawal.DeploymentBudget); err != nil {
		return err
	}
	d.verdict = withdrawal.Announce(r)
	return nil
}

func doomedRepo(ctx context.Context, s *client.Session, d *deletionTarget) error {
	repo, err := client.Convert[fleet.GitRepo](d.object)
	if err != nil {
		return err
	}
	if d.bundles, err = client.ListAs[fleet.Bundle](ctx, s, cli.MustKind("bundles"), fleet.LabelRepoName+"="+repo.Name); err != nil {
		return err
	}
	if withdrawal.IsProtected(repo) {
		d.guard = "it is protected"
	}
	r := withdrawal.RemovalOfRepo(repo, d.bundles, d.deployments)
	if r.Budget, err = budget(ctx, s, repo, withdrawal.BundleBudget); err != nil {
		return err
	}
	d.verdict = withdrawal.Announce(r)
	return nil
}

func doomedBundle(ctx context.Context, s *client.Session, d *deletionTarget) error {
	b, err := client.Convert[fleet.Bundle](d.object)
	if err != nil {
		return err
	}
	d.bundles = []*fleet.Bundle{b}
	var repo *fleet.GitRepo
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		if repo, err = client.GetAs[fleet.GitRepo](ctx, s, cli.MustKind("repos").Resource(), b.Namespace, name); err != nil {
			return err
		}
	}
	if repo != nil && repo.DeletionTimestamp == nil {
		d.writer = repo.Name
	}
	if d.helmOp, err = helmOpOf(ctx, s, b); err != nil {
		return err
	}
	d.guard = withdrawal.Guard(b, repo)
	r := withdrawal.RemovalOfBundle(b, d.deployments)
	if r.Budget, err = budget(ctx, s, repo, withdrawal.DeploymentBudget); err != nil {
		return err
	}
	d.verdict = withdrawal.Announce(r)
	return nil
}

// helmOpOf returns the name of the HelmOp that makes a Bundle again after its deletion;
// empty where none does. One that the user may not read is taken to be there.
func helmOpOf(ctx context.Context, s *client.Session, b *fleet.Bundle) (string, error) {
	name := b.Labels[fleet.LabelHelmOpName]
	if name == "" {
		return "", nil
	}
	op, err := s.API.Get(ctx, cli.MustKind("helmops").Resource(), b.Namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		return name, nil
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", client.DescribeServerError(s.Server, err)
	case op.GetDeletionTimestamp() != nil:
		return "", nil
	}
	return name, nil
}

// deploymentsOf are the deployments of the Bundles that go, on clusters of all
// workspaces.
func deploymentsOf(ctx context.Context, s *client.Session, o Options) ([]*fleet.BundleDeployment, error) {
	wide := *s
	wide.Scope, wide.Within, wide.Narrowed = "", s.Scope, true
	label := fleet.LabelBundleName // the Bundle of a HelmOp has its name
	if o.Kind.Plural == "repos" {
		label = fleet.LabelRepoName
	}
	return client.ListAs[fleet.BundleDeployment](ctx, &wide, cli.MustKind("deployments"), label+"="+o.Name+","+fleet.LabelBundleNamespace+"="+s.Scope)
}

// budget is the deletion budget of a GitRepo, which may be nil, or of its workspace.
// For a user who may not read that of the workspace it is the default.
func budget(ctx context.Context, s *client.Session, repo *fleet.GitRepo, otherwise withdrawal.Budget) (withdrawal.Budget, error) {
	own, shared := "", ""
	if repo != nil {
		own = repo.Annotations[fleet.AnnotationDeletionBudget]
	}
	ns, err := client.GetAs[corev1.Namespace](ctx, s, client.Namespaces, "", s.Scope)
	if err != nil {
		return otherwise, err
	}
	if ns != nil {
		shared = ns.Annotations[fleet.AnnotationDeletionBudget]
	}
	budget, err := withdrawal.FirstBudget(otherwise, own, shared)
	if err != nil {
		s.Std.Note("warning: %v", err) // the manager does not use it either
	}
	return budget, nil
}

// keepAll sets keepResources on an object, and waits until every deployment has it.
func keepAll(ctx context.Context, s *client.Session, o Options, d *deletionTarget) error {
	if err := s.Merge(ctx, o.Kind, o.Name, map[string]any{"spec": map[string]any{"keepResources": true}}); err != nil {
		return err
	}
	if o.Kind.Plural == "helmops" && len(d.bundles) == 0 { // it has deployed nothing
		return nil
	}
	last := -1
	for {
		list, err := deploymentsOf(context.WithoutCancel(ctx), s, o)
		if err != nil {
			return err
		}
		open := slices.DeleteFunc(list, func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.KeepResources })
		if len(open) == 0 {
			return nil
		}
		if len(open) != last {
			last = len(open)
			s.Std.Note("waits for keepResources on %s", printer.Plural(last, "deployment"))
		}
		if kube.Sleep(ctx, client.TokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), client.ErrLeft) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: not deleted; keepResources is set and has not reached %s in %s", cli.ErrNotReady, view.List(withdrawal.Clusters(open), 3), o.Timeout)
	}
}

// UntilGone waits until an object that is being deleted is gone. It ends when the
// manager holds the deletion.
func UntilGone(ctx context.Context, s *client.Session, o Options, uid types.UID) (string, error) {
	said := false
	for {
		u, err := s.API.Get(context.WithoutCancel(ctx), o.Kind.Resource(), s.Scope, o.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && u.GetUID() != uid:
			return outcomeDeleted, nil
		case err != nil:
			return OutcomeTimeout, client.DescribeServerError(s.Server, err)
		}
		if c := client.HeldBecause(u); c != nil {
			return outcomeHeld, fmt.Errorf("%w: it is held: %s", cli.ErrNotReady, c.Message)
		}
		if !said {
			said = true
			s.Std.Note("waits until %s %s/%s is gone", o.Kind.Singular, s.Scope, o.Name)
		}
		if kube.Sleep(ctx, client.TokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), client.ErrLeft) {
			return outcomeOrdered, context.Cause(ctx)
		}
		why, err := s.Absence(context.WithoutCancel(ctx), view.ShardOf(u))
		if err != nil {
			return OutcomeTimeout, err
		}
		if why != "" {
			why = ": " + why
		}
		return OutcomeTimeout, fmt.Errorf("%w: %s %s/%s is being deleted and not gone after %s%s", cli.ErrNotReady, o.Kind.Singular, s.Scope, o.Name, o.Timeout, why)
	}
}
