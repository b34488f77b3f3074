package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// workspaceWord is the KIND of what is decided for a whole workspace: its list is on
// the workspace's namespace.
const workspaceWord = "workspace"

// workspaceKind is that KIND. It has no objects of its own.
var workspaceKind = kind{plural: "workspaces", singular: workspaceWord, Kind: "Workspace", names: []string{"ws"}}

// heldWorkspaces are the workspaces of Bundles that are being deleted and wait for a
// person.
func heldWorkspaces(bundles []*unstructured.Unstructured) ([]string, error) {
	var out []string
	for _, u := range bundles {
		if u.GetDeletionTimestamp() == nil || slices.Contains(out, u.GetNamespace()) {
			continue
		}
		list, err := allAs[fleet.Bundle]([]*unstructured.Unstructured{u})
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
func (s *session) heldOfWorkspace(ctx context.Context, name string) (HeldDeletion, error) {
	held := HeldDeletion{Kind: "Workspace", Name: name}
	ns, err := s.api.Get(ctx, namespaces, "", name)
	if apierrors.IsNotFound(err) {
		return held, fmt.Errorf("there is no workspace %q", name)
	}
	if err != nil {
		return held, reached(s.server, err)
	}
	held.Hash, held.Message, held.Removes = withdrawal.ReadText(ns.GetAnnotations()[fleet.AnnotationDeletionHeld])
	return held, nil
}

// heldOfWorkspaces returns what waits for approval of workspaces, by name.
func (s *session) heldOfWorkspaces(ctx context.Context, names []string) ([]HeldDeletion, error) {
	slices.Sort(names)
	var out []HeldDeletion
	for _, name := range slices.Compact(names) {
		held, err := s.heldOfWorkspace(ctx, name)
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
func (o approveOptions) workspace(ctx context.Context, s *session, name string) (HeldDeletion, error) {
	held, err := s.heldOfWorkspace(ctx, name)
	if err != nil {
		return held, err
	}
	if held.Hash == "" {
		return held, o.nothing(s, "workspace "+name, "")
	}
	o.say(s, "workspace %s %s:\n", name, held.Message)
	for _, line := range held.Removes {
		o.say(s, "  %s\n", line)
	}
	command := "fleet approve " + workspaceWord + "/" + name
	word := held.Hash
	switch {
	case o.keep:
		word = fleet.ApproveKeep
	case o.hash == "" && !o.yes:
		return held, fmt.Errorf("%w: not approved; %s --keep lets the bundles go and keeps all that they deployed, %s %s removes it",
			errRefused, command, command, held.Hash)
	case o.hash != "" && o.hash != held.Hash:
		return held, fmt.Errorf("%w: %s is the hash of another list; this one is %s", errRefused, o.hash, held.Hash)
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, fleet.AnnotationApproveDeletion, word)
	if _, err := s.api.Patch(ctx, namespaces, "", name, body); err != nil {
		return held, reached(s.server, err)
	}
	if held.Kept = o.keep; held.Kept {
		o.say(s, "kept\n")
		return held, nil
	}
	held.Approved = true
	o.say(s, "approved\n")
	return held, nil
}
