package approve

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// withList returns the object that has the list of what waits of an object u of kind k: of
// a HelmOp this is its Bundle, which has the same name, if there is one.
func withList(ctx context.Context, s *client.Session, k cli.Kind, u *unstructured.Unstructured) (cli.Kind, *unstructured.Unstructured, error) {
	if k.Plural != "helmops" {
		return k, u, nil
	}
	bundles := cli.MustKind("bundles")
	b, err := s.API.Get(ctx, bundles.Resource(), u.GetNamespace(), u.GetName())
	switch {
	case apierrors.IsNotFound(err), err == nil && b.GetLabels()[fleet.LabelHelmOpName] != u.GetName():
		return k, u, nil
	case err != nil:
		return k, nil, client.DescribeServerError(s.Server, err)
	}
	return bundles, b, nil
}

// undecided is an error, not Ready, if the manager was asked to remove bundles of a
// GitRepo and has neither begun nor held it: then it is not known whether something
// has to be approved. The bundles are read after the GitRepo.
func undecided(ctx context.Context, s *client.Session, u *unstructured.Unstructured) error {
	mark := u.GetAnnotations()[fleet.AnnotationPrune]
	if u.GetKind() != "GitRepo" || mark == "" {
		return nil
	}
	bundles, err := s.ListAll(ctx, client.Query{
		Resource: cli.MustKind("bundles").Resource(), Namespace: u.GetNamespace(), Labels: fleet.LabelRepoName + "=" + u.GetName(),
	})
	if err != nil {
		return err
	}
	n := ordered(mark, bundles)
	if n == 0 {
		return nil
	}
	return notDecided(u, n)
}

// heldAtRepo is an error, refused, if the removal of a Bundle waits to be approved at its
// GitRepo, which does not have it any more. It says so and reports true if that is approved
// already.
func (o Options) heldAtRepo(ctx context.Context, s *client.Session, u *unstructured.Unstructured) (said bool, err error) {
	name := u.GetLabels()[fleet.LabelRepoName]
	if u.GetKind() != "Bundle" || name == "" {
		return false, nil
	}
	b, err := client.Convert[fleet.Bundle](u)
	if err != nil {
		return false, err
	}
	repo, err := client.GetAs[fleet.GitRepo](ctx, s, cli.MustKind("repos").Resource(), b.Namespace, name)
	if err != nil || view.HeldRemoval(repo, b) == nil {
		return false, err
	}
	what := fmt.Sprintf("the removal of bundle %s/%s", b.Namespace, b.Name)
	if view.Approval(repo, repo.Status.Conditions) != "" {
		o.printf(s, "%s with repo %s: %s\n", what, name, approvedBefore)
		return true, nil
	}
	return false, fmt.Errorf("%w: %s waits to be approved at its repository: fleet approve -n %s repo/%s", cli.ErrRefused, what, b.Namespace, name)
}

// notDecided returns the error of undecided for n bundles of a GitRepo.
func notDecided(u *unstructured.Unstructured, n int) error {
	return fmt.Errorf("%w: the manager was asked to remove %s of repo %s and has not decided yet; try again", cli.ErrNotReady,
		printer.Plural(n, "bundle"), u.GetName())
}

// ordered is how many bundles bear the mark of an order to remove them, and are still
// there.
func ordered(mark string, bundles []*unstructured.Unstructured) int {
	n := 0
	for _, b := range bundles {
		if b.GetDeletionTimestamp() == nil && b.GetAnnotations()[fleet.AnnotationPrune] == mark {
			n++
		}
	}
	return n
}

// allUndecided is undecided for GitRepos, with bundles that were listed after them.
// GitRepos with something held are decided.
func allUndecided(repos, bundles []*unstructured.Unstructured) error {
	var out []error
	for _, u := range repos {
		mark := u.GetAnnotations()[fleet.AnnotationPrune]
		if mark == "" || heldOf(cli.MustKind("repos"), u).Hash != "" {
			continue
		}
		own := slices.DeleteFunc(slices.Clone(bundles), func(b *unstructured.Unstructured) bool {
			return b.GetNamespace() != u.GetNamespace() || b.GetLabels()[fleet.LabelRepoName] != u.GetName()
		})
		if n := ordered(mark, own); n > 0 {
			out = append(out, notDecided(u, n))
		}
	}
	return errors.Join(out...)
}
