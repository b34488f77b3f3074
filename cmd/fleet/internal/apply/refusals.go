package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Unowned refuses directories under the name of a GitRepo: its bundles are the
// manager's to write and to remove. Without the right to read GitRepos it is not known
// whether there is one. A Bundle from a file removes nothing, and goes on.
func (o *Options) Unowned(ctx context.Context, s *client.Session) error {
	if o.File != "" {
		return nil
	}
	_, err := s.API.Get(ctx, cli.MustKind("repos").Resource(), o.Bundle.Namespace, o.Name)
	switch {
	case err == nil:
		return fmt.Errorf("%w: GitRepo %s/%s exists and manages the bundles of that name: what it does not make would be removed; "+
			"nothing was written; use another NAME, or change the repository", cli.ErrRefused, o.Bundle.Namespace, o.Name)
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		s.Std.Note("warning: you may not read GitRepos in %s: whether one named %s manages these bundles is not known", o.Bundle.Namespace, o.Name)
		return nil
	}
	return client.DescribeServerError(s.Server, err)
}

// removalGuard holds back removals above the deletion budget until --approve names their
// list.
func (o *Options) removalGuard(s *client.Session) func(context.Context, []*fleet.Bundle, []*fleet.Bundle) error {
	return func(ctx context.Context, own, remove []*fleet.Bundle) error {
		r := withdrawal.Removal{Unit: "bundle", Approved: o.approve}
		for _, b := range own {
			if b.DeletionTimestamp == nil {
				r.Total++
			}
		}
		var err error
		if r.Budget, err = o.budget(ctx, s); err != nil {
			return err
		}
		things, err := o.dataObjects(ctx, s, remove)
		if err != nil {
			return err
		}
		for _, b := range remove {
			if !b.Spec.KeepResources {
				r.Items = append(r.Items, withdrawal.Item{Name: b.Name, UID: b.UID, DataObjects: things[b.Name]})
			}
		}
		v := withdrawal.DecideRemoval(r)
		if !v.Held {
			return nil
		}
		s.Std.Note("%s:", v.Summary)
		_, _, lines := withdrawal.ReadText(v.Text())
		for _, line := range lines {
			s.Std.Note("  %s", line)
		}
		return fmt.Errorf("%w: what is new was written, nothing was removed; to remove this list: --approve %s", cli.ErrRefused, v.Hash)
	}
}

// budget is what the workspace says, else the default.
func (o *Options) budget(ctx context.Context, s *client.Session) (withdrawal.Budget, error) {
	text := ""
	ns, err := client.GetAs[corev1.Namespace](ctx, s, client.Namespaces, "", o.Bundle.Namespace)
	if err != nil {
		return withdrawal.Budget{}, err
	}
	if ns != nil {
		text = ns.Annotations[fleet.AnnotationDeletionBudget]
	}
	return withdrawal.FirstBudget(withdrawal.BundleBudget, text)
}

// dataObjects are the objects with data that go with Bundles, by their names: what no other
// deployment on the same cluster claims. A user who may not list deployments gets a
// note that fleet could not check.
func (o *Options) dataObjects(ctx context.Context, s *client.Session, remove []*fleet.Bundle) (map[string][]withdrawal.DataObject, error) {
	wide := *s
	wide.Scope = ""
	list, err := client.ListAs[fleet.BundleDeployment](ctx, &wide, cli.MustKind("deployments"), fleet.LabelBundleNamespace+"="+o.Bundle.Namespace)
	if apierrors.IsForbidden(err) {
		s.Std.Note("warning: you may not list deployments: fleet could not check whether volumes, namespaces or CRDs go along")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	leaves := map[string]bool{}
	for _, b := range remove {
		leaves[b.Name] = true
	}
	claimed := map[withdrawal.DataObject]bool{}
	out := map[string][]withdrawal.DataObject{}
	for _, bd := range list {
		cluster := bd.Labels[fleet.LabelClusterNamespace] + "/" + bd.Labels[fleet.LabelCluster]
		name := bd.Labels[fleet.LabelBundleName]
		if leaves[name] {
			out[name] = append(out[name], withdrawal.DataObjects(cluster, bd)...)
			continue
		}
		for _, t := range withdrawal.Claims(cluster, bd) {
			claimed[t] = true
		}
	}
	for name, all := range out {
		out[name] = withdrawal.UnclaimedObjects(all, claimed)
	}
	return out, nil
}
