package helm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	helmkube "helm.sh/helm/v3/pkg/kube"
	helmtime "helm.sh/helm/v3/pkg/time"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

// hookEvents are the events of hooks that an action brings, by the state of its
// revision.
var hookEvents = map[release.State][]helmrelease.HookEvent{
	release.PendingInstall:  {helmrelease.HookPreInstall, helmrelease.HookPostInstall},
	release.PendingUpgrade:  {helmrelease.HookPreUpgrade, helmrelease.HookPostUpgrade},
	release.PendingRollback: {helmrelease.HookPreRollback, helmrelease.HookPostRollback},
	release.Uninstalling:    {helmrelease.HookPreDelete, helmrelease.HookPostDelete},
}

// hooks tracks the hooks of one action.
//
// Helm notes in the record that a hook begins, and that it has ended only with the next
// write. Here that is written at once. A hook that ended in an interrupted attempt is
// not run again: its object is neither created again, nor is the existing one deleted
// first.
type hooks struct {
	records *secrets
	ended   map[string]bool // in attempts before
	passed  map[string]bool // those of ended that this action has reached
}

// hookKey names a hook. Two hooks of a release that differ by their namespace alone
// have the same name, and are not distinguished.
func hookKey(kind, name string) string { return kind + "/" + name }

// endedHooks are the hooks that ended in attempts which were interrupted: in the
// newest revisions, as far as they are attempts at the same deployment.
func (c *Client) endedHooks(ctx context.Context, who account, list []record, at release.State, deployment string) (map[string]bool, error) {
	out := map[string]bool{}
	twice := map[string]bool{}
	for _, r := range slices.Backward(list) {
		interrupted := r.Info.Status == at || r.Info.Status == release.Failed && r.Info.Description == release.InterruptedText(at)
		if !r.readable || !interrupted || readMemory(r.Chart.Metadata.Annotations).DeploymentID != deployment {
			break
		}
		full, err := c.store.storageOf(ctx, who.client, r.Namespace).Get(r.Name, r.Version)
		if err != nil {
			return nil, fmt.Errorf("read revision %d of release %s/%s: %w", r.Version, r.Namespace, r.Name, err)
		}
		seen := map[string]bool{}
		for _, h := range full.Hooks {
			key := hookKey(h.Kind, h.Name)
			twice[key] = twice[key] || seen[key]
			seen[key] = true
			out[key] = out[key] || hasEnded(h, full, at)
		}
	}
	maps.DeleteFunc(out, func(key string, _ bool) bool { return twice[key] })
	return out, nil
}

// hasEnded reports whether a hook has ended in the action at which a revision
// stopped. A hook of two events of that action may have ended for one of them:
// the record does not say for which.
func hasEnded(h *helmrelease.Hook, r *helmrelease.Release, at release.State) bool {
	events := 0
	for _, e := range h.Events {
		if slices.Contains(hookEvents[at], e) {
			events++
		}
	}
	begun := r.Info.LastDeployed // a rollback and an uninstall find what earlier actions have noted
	if at == release.Uninstalling {
		begun = r.Info.Deleted
	}
	return events == 1 && h.LastRun.Phase == helmrelease.HookPhaseSucceeded && !h.LastRun.StartedAt.Before(begun)
}

// hadEnded reports whether all of a list are hooks that have ended before.
func (h *hooks) hadEnded(list helmkube.ResourceList) bool {
	for _, info := range list {
		if !isHook(info) || !h.ended[infoKey(info)] {
			return false
		}
	}
	return len(list) > 0
}

func infoKey(info *resource.Info) string {
	return hookKey(info.Mapping.GroupVersionKind.Kind, info.Name)
}

// skipHook passes by a hook instead of making its object.
func (h *hooks) skipHook(list helmkube.ResourceList) bool {
	if !h.hadEnded(list) {
		return false
	}
	if h.passed == nil {
		h.passed = map[string]bool{}
	}
	for _, info := range list {
		h.passed[infoKey(info)] = true
	}
	return true
}

// isSpared reports whether the objects of a list are not to be removed: Helm would do so
// before it creates them again, which it does not do here.
func (h *hooks) isSpared(list helmkube.ResourceList) bool {
	return h.hadEnded(list) && !slices.ContainsFunc(list, func(i *resource.Info) bool { return h.passed[infoKey(i)] })
}

// recordEnd records that the hook that Helm waits for has ended. A record with a separate
// body is too large for that. If note fails, the hook may run again; there is no other
// harm.
func (h *hooks) recordEnd() {
	if h.records == nil || h.records.last == nil || h.records.known[h.records.lastKey].ref != (bodyRef{}) {
		return
	}
	found := false
	for _, hook := range h.records.last.Hooks {
		if hook.LastRun.Phase == helmrelease.HookPhaseUnknown && !hook.LastRun.StartedAt.IsZero() {
			hook.LastRun.CompletedAt, hook.LastRun.Phase, found = helmtime.Now(), helmrelease.HookPhaseSucceeded, true
		}
	}
	if found {
		_ = h.records.Update(h.records.lastKey, h.records.last)
	}
}

// WatchUntilReady waits for a hook to end, unless it has ended before.
func (e *engine) WatchUntilReady(list helmkube.ResourceList, timeout time.Duration) error {
	if !e.hooks.hadEnded(list) {
		if err := e.Client.WatchUntilReady(list, timeout); err != nil {
			return err
		}
	}
	e.hooks.recordEnd()
	return nil
}

// WaitForDelete waits for objects to be gone, unless they are spared.
func (e *engine) WaitForDelete(list helmkube.ResourceList, timeout time.Duration) error {
	if e.hooks.isSpared(list) {
		return nil
	}
	return e.Client.WaitForDelete(list, timeout)
}
