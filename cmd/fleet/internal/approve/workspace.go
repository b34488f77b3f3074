package approve

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// heldWorkspaces are the workspaces of Bundles that are being deleted and wait for a
// person.
func heldWorkspaces(bundles []*unstructured.Unstructured) ([]string, error) {
	var out []string
	for _, u := range bundles {
		if u.GetDeletionTimestamp() == nil || slices.Contains(out, u.GetNamespace()) {
			continue
		}
		list, err := client.AllAs[fleet.Bundle]([]*unstructured.Unstructured{u})
		if err != nil {
			return nil, err
		}
		c := condition.Find(list[0].Status.Conditions, fleet.ConditionDeletionHeld)
		if c != nil && c.Status == corev1.ConditionTrue && c.Reason != fleet.ReasonProtected {
			out = append(out, u.GetNamespace())
		}
	}
	slices.Sort(out)
	return out, nil
}

// heldOfWorkspace returns what waits for approval of a workspace; its hash is empty
// where nothing does.
func heldOfWorkspace(ctx context.Context, s *client.Session, name string) (HeldDeletion, error) {
	held := HeldDeletion{Kind: "Workspace", Name: name}
	ns, err := s.API.Get(ctx, client.Namespaces, "", name)
	if apierrors.IsNotFound(err) {
		return held, fmt.Errorf("there is no workspace %q", name)
	}
	if err != nil {
		return held, client.DescribeServerError(s.Server, err)
	}
	held.Hash, held.Message, held.Removes = withdrawal.ReadText(ns.GetAnnotations()[fleet.AnnotationDeletionHeld])
	return held, nil
}

// heldOfWorkspaces returns what waits for approval of workspaces, by name.
func heldOfWorkspaces(ctx context.Context, s *client.Session, names []string) ([]HeldDeletion, error) {
	slices.Sort(names)
	var out []HeldDeletion
	for _, name := range slices.Compact(names) {
		held, err := heldOfWorkspace(ctx, s, name)
		if err != nil {
			return nil, err
		}
		if held.Hash != "" {
			out = append(out, held)
		}
	}
	return out, nil
}

// workspace shows what waits in a workspace whose Bundles were deleted with their
// namespace or their kind, and approves it, or keeps everything.
func (o Options) workspace(ctx context.Context, s *client.Session, name string) (HeldDeletion, error) {
	held, err := heldOfWorkspace(ctx, s, name)
	if err != nil {
		return held, err
	}
	if held.Hash == "" {
		return held, o.reportNothingHeld(s, "workspace "+name, "")
	}
	o.printf(s, "workspace %s %s:\n", name, held.Message)
	for _, line := range held.Removes {
		o.printf(s, "  %s\n", line)
	}
	command := "fleet approve " + cli.WorkspaceWord + "/" + name
	word := held.Hash
	switch {
	case o.Keep:
		word = fleet.ApproveKeep
	case o.hash == "" && !o.Yes:
		return held, fmt.Errorf("%w: not approved; %s --keep lets the bundles go and keeps all that they deployed, %s %s removes it",
			cli.ErrRefused, command, command, held.Hash)
	case o.hash != "" && o.hash != held.Hash:
		return held, fmt.Errorf("%w: %s is the hash of another list; this one is %s", cli.ErrRefused, o.hash, held.Hash)
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, fleet.AnnotationApproveDeletion, word)
	if _, err := s.API.Patch(ctx, client.Namespaces, "", name, body); err != nil {
		return held, client.DescribeServerError(s.Server, err)
	}
	if held.Kept = o.Keep; held.Kept {
		o.printf(s, "kept\n")
		return held, nil
	}
	held.Approved = true
	o.printf(s, "approved\n")
	return held, nil
}
