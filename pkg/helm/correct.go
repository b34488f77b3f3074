package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	helmkube "helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A Correction says what is reverted, and how.
type Correction struct {
	// CorrectDrift: Force replaces objects instead of patching them,
	// KeepFailHistory keeps the revision of a correction that failed.
	fleet.CorrectDrift
	// History is how many revisions are kept; 0: as many as by default.
	History int
	// Patches say what is not compared. It is not reverted either.
	Patches []fleet.ComparePatch
	// Only chooses among the objects that differ; nil: all of them. The namespace
	// of objects that have none is empty.
	Only func(kind schema.GroupVersionKind, namespace, name string) bool
	// Reclaim, where not nil, reports whether an object that is marked as another
	// release's is reverted all the same, by its Identity.
	Reclaim func(object string) bool
}

// Correct reverts drift of the objects of a release, with the given rights: it rolls the
// release back to the revision that is deployed. If there is no such revision, Correct
// does nothing.
//
// Correct reverts only drift, as package drift defines it: it does not create a finished
// Job again, and keeps fields that autoscalers or injectors wrote, even if it corrects
// another field of the same object.
//
// A correction that fails leaves the release as it was; the failed revision is
// removed unless how.KeepFailHistory says otherwise.
func (c *Client) Correct(ctx context.Context, id release.ID, rights Rights, how Correction) error {
	list, err := c.store.records(ctx, id)
	if err != nil {
		return err
	}
	good, ok := deployedRecord(list)
	if !ok {
		return nil
	}
	who, err := c.accountFor(ctx, rights.ServiceAccount)
	if err != nil {
		return err
	}
	eng := engineOf(who, id)
	eng.limit = namespaceLimit{namespace: rights.Namespace}
	cfg, err := c.configuration(ctx, who, eng)
	if err != nil {
		return err
	}
	eng.hooks.ended, err = c.endedHooks(ctx, who, list, release.PendingRollback, readMemory(good.Chart.Metadata.Annotations).DeploymentID)
	if err != nil {
		return err
	}
	cfg.KubeClient = &corrector{engine: eng, correction: how}
	back := action.NewRollback(cfg)
	back.Version, back.Force, back.Timeout = good.Version, how.Force, defaultTimeout
	back.MaxHistory = defaultHistory
	if how.History > 0 {
		back.MaxHistory = how.History
	}
	err = runUntil(ctx, func() error {
		err := back.Run(id.Name)
		if why := eng.fault(); err != nil && why != nil {
			err = why
		}
		return c.withoutValues(ctx, classify(err), good)
	})
	if err != nil && ctx.Err() == nil {
		if cleanErr := c.undoCorrection(ctx, id, list[len(list)-1], how.KeepFailHistory); cleanErr != nil {
			return fmt.Errorf("%w; then: %w", err, cleanErr)
		}
	}
	return err
}

// corrector is the engine of a correction: it touches the objects that differ,
// and of those the fields that count.
type corrector struct {
	*engine
	correction Correction
}

// Update puts objects back to what they are to be. Nothing is removed.
func (c *corrector) Update(_, wanted helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	var was, list helmkube.ResourceList
	for _, info := range wanted {
		namespace := ""
		if info.Namespaced() {
			namespace = info.Namespace
		}
		if c.correction.Only != nil && !c.correction.Only(info.Mapping.GroupVersionKind, namespace, info.Name) {
			continue
		}
		target, err := c.target(info, force)
		if err != nil {
			return nil, err
		}
		if target == nil {
			continue
		}
		before, after := *info, *info
		before.Object, after.Object = target, target.DeepCopy()
		was, list = append(was, &before), append(list, &after)
	}
	if len(list) == 0 {
		return &helmkube.Result{}, nil
	}
	return c.UpdateThreeWayMerge(was, list, force)
}

// target returns an object as it should be; nil if the live one is so.
func (c *corrector) target(info *resource.Info, force bool) (*unstructured.Unstructured, error) {
	obj, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", info.Object)
	}
	live, err := get(info)
	if isGone(err) {
		if drift.MayBeMissing(obj, c.correction.Patches) {
			return nil, nil
		}
		return obj, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(obj), err)
	}
	if owner := OwnerOf(live); owner.Name != "" && owner != c.id && (c.correction.Reclaim == nil || !c.correction.Reclaim(identityOf(info))) {
		return nil, c.noteRefusal(reconcile.TerminalError(release.ReasonNotOwned,
			fmt.Errorf("%s belongs to release %s by now", describe(live), owner)))
	}
	return drift.Restore(obj, live, c.correction.Patches, force), nil
}

// undoCorrection gives the newest revision before the correction its status
// again, which Helm does not do, and removes the one that failed.
func (c *Client) undoCorrection(ctx context.Context, id release.ID, before record, keep bool) error {
	err := c.store.rewriteStatus(ctx, id, before.Version, func(r *helmrelease.Release) { r.Info.Status = helmrelease.Status(before.Info.Status) })
	if err != nil {
		return err
	}
	return c.store.removeRecords(ctx, id, func(r record) bool {
		return !keep && r.Version > before.Version && (r.Info.Status == release.Failed || r.Info.Status == release.PendingRollback)
	})
}
