package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A doomed is an object that a user wants to delete, and what is deleted with it.
type doomed struct {
	object      *unstructured.Unstructured
	guard       string // what protects it; empty where nothing does
	bundles     []*fleet.Bundle
	deployments []*fleet.BundleDeployment
	verdict     withdrawal.Verdict
	writer      string // the GitRepo that writes the Bundle again; empty where there is none
}

// doomed reads an object that a user wants to delete, and all that is deleted with it.
// It narrows the session to the object's workspace.
func (s *session) doomed(ctx context.Context, o deleteOptions) (*doomed, error) {
	u, err := s.present(ctx, o.kind, o.name)
	if err != nil {
		return nil, err
	}
	d := &doomed{object: u}
	if d.deployments, err = s.deploymentsOf(ctx, o); err != nil {
		return nil, err
	}
	if o.kind.plural == "bundles" {
		return d, s.doomedBundle(ctx, d)
	}
	return d, s.doomedRepo(ctx, d)
}

func (s *session) doomedRepo(ctx context.Context, d *doomed) error {
	repo, err := as[fleet.GitRepo](d.object)
	if err != nil {
		return err
	}
	if d.bundles, err = listAs[fleet.Bundle](ctx, s, mustKind("bundles"), fleet.LabelRepoName+"="+repo.Name); err != nil {
		return err
	}
	if withdrawal.Protects(repo) {
		d.guard = "it is protected"
	}
	r := withdrawal.RemovalOfRepo(repo, d.bundles, d.deployments)
	if r.Budget, err = s.budget(ctx, repo, withdrawal.BundleBudget); err != nil {
		return err
	}
	d.verdict = withdrawal.Announce(r)
	return nil
}

func (s *session) doomedBundle(ctx context.Context, d *doomed) error {
	b, err := as[fleet.Bundle](d.object)
	if err != nil {
		return err
	}
	d.bundles = []*fleet.Bundle{b}
	var repo *fleet.GitRepo
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		if repo, err = getAs[fleet.GitRepo](ctx, s, mustKind("repos").resource(), b.Namespace, name); err != nil {
			return err
		}
	}
	if repo != nil && repo.DeletionTimestamp == nil {
		d.writer = repo.Name
	}
	d.guard = withdrawal.Guard(b, repo)
	r := withdrawal.RemovalOfBundle(b, d.deployments)
	if r.Budget, err = s.budget(ctx, repo, withdrawal.DeploymentBudget); err != nil {
		return err
	}
	d.verdict = withdrawal.Announce(r)
	return nil
}

// deploymentsOf are the deployments of the Bundles that go, on clusters of all
// workspaces.
func (s *session) deploymentsOf(ctx context.Context, o deleteOptions) ([]*fleet.BundleDeployment, error) {
	wide := *s
	wide.scope, wide.within, wide.narrowed = "", s.scope, true
	label := fleet.LabelRepoName
	if o.kind.plural == "bundles" {
		label = fleet.LabelBundleName
	}
	return listAs[fleet.BundleDeployment](ctx, &wide, mustKind("deployments"), label+"="+o.name+","+fleet.LabelBundleNamespace+"="+s.scope)
}

// budget is the deletion budget of a GitRepo, which may be nil, or of its workspace.
// For a user who may not read that of the workspace it is the default.
func (s *session) budget(ctx context.Context, repo *fleet.GitRepo, otherwise withdrawal.Budget) (withdrawal.Budget, error) {
	own, shared := "", ""
	if repo != nil {
		own = repo.Annotations[fleet.AnnotationDeletionBudget]
	}
	ns, err := getAs[corev1.Namespace](ctx, s, namespaces, "", s.scope)
	if err != nil {
		return otherwise, err
	}
	if ns != nil {
		shared = ns.Annotations[fleet.AnnotationDeletionBudget]
	}
	budget, err := withdrawal.FirstBudget(otherwise, own, shared)
	if err != nil {
		s.std.Note("warning: %v", err) // the manager does not use it either
	}
	return budget, nil
}

// keepAll sets keepResources on an object, and waits until every deployment has it.
func (s *session) keepAll(ctx context.Context, o deleteOptions) error {
	if err := s.merge(ctx, o.kind, o.name, map[string]any{"spec": map[string]any{"keepResources": true}}); err != nil {
		return err
	}
	last := -1
	for {
		list, err := s.deploymentsOf(context.WithoutCancel(ctx), o)
		if err != nil {
			return err
		}
		open := slices.DeleteFunc(list, func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.KeepResources })
		if len(open) == 0 {
			return nil
		}
		if len(open) != last {
			last = len(open)
			s.std.Note("waits for keepResources on %s", printer.Plural(last, "deployment"))
		}
		if kube.Sleep(ctx, tokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), errLeft) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: not deleted; keepResources is set and has not reached %s in %s", errNotReady, view.List(withdrawal.Clusters(open), 3), o.timeout)
	}
}

// untilGone waits until an object that is being deleted is gone. It ends when the
// manager holds the deletion.
func (s *session) untilGone(ctx context.Context, o deleteOptions, uid types.UID) (string, error) {
	said := false
	for {
		u, err := s.api.Get(context.WithoutCancel(ctx), o.kind.resource(), s.scope, o.name)
		switch {
		case apierrors.IsNotFound(err), err == nil && u.GetUID() != uid:
			return outcomeDeleted, nil
		case err != nil:
			return outcomeTimeout, reached(s.server, err)
		}
		if c := heldBecause(u); c != nil {
			return outcomeHeld, fmt.Errorf("%w: it is held: %s", errNotReady, c.Message)
		}
		if !said {
			said = true
			s.std.Note("waits until %s %s/%s is gone", o.kind.singular, s.scope, o.name)
		}
		if kube.Sleep(ctx, tokenPoll) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), errLeft) {
			return outcomeOrdered, context.Cause(ctx)
		}
		why, err := s.absence(context.WithoutCancel(ctx), view.ShardOf(u))
		if err != nil {
			return outcomeTimeout, err
		}
		if why != "" {
			why = ": " + why
		}
		return outcomeTimeout, fmt.Errorf("%w: %s %s/%s is being deleted and not gone after %s%s", errNotReady, o.kind.singular, s.scope, o.name, o.timeout, why)
	}
}

// heldBecause is the condition of a protected object whose deletion the manager holds;
// nil where it does not.
func heldBecause(u *unstructured.Unstructured) *fleet.Condition {
	b, err := as[struct {
		Status struct {
			Conditions []fleet.Condition `json:"conditions"`
		} `json:"status"`
	}](u)
	if err != nil {
		return nil
	}
	c := condition.Find(b.Status.Conditions, fleet.ConditionDeletionHeld)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason != fleet.ReasonProtected {
		return nil // one with another reason may be about a change before
	}
	return c
}
