package agentmanagement

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/imports"
)

// tries is how often a note is written anew, because the Cluster has changed
// meanwhile. An import is not done again for that.
const tries = 5

// online tells whether the agent of a Cluster checks in.
func online(c *fleet.Cluster) bool {
	return condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected)
}

// note keeps what an import has done, with its Cluster.
func (l *importLoop) note(ctx context.Context, c *fleet.Cluster, r imports.Record) error {
	for try := 1; ; try++ {
		noted, err := l.clusters.Patch(ctx, c, r.Note(c))
		if kube.IsConflict(err) && try < tries {
			if c, err = l.clusters.Get(ctx, kube.KeyOf(c)); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		return l.write(ctx, noted, &r, nil)
	}
}

// report writes the condition Imported of a Cluster: it holds where nothing has
// failed.
func (l *importLoop) report(ctx context.Context, key kube.Key, failed error) error {
	c, ok := l.view.clusters.Get(key)
	if !ok {
		return nil
	}
	var r *imports.Record
	if failed == nil {
		r = imports.RecordOf(c)
	}
	return l.write(ctx, c, r, failed)
}

func (l *importLoop) write(ctx context.Context, c *fleet.Cluster, r *imports.Record, failed error) error {
	imported := fleet.Condition{
		Type: fleet.ConditionImported, Status: corev1.ConditionTrue, ObservedGeneration: c.Generation,
	}
	if failed != nil {
		imported.Status, imported.Reason = corev1.ConditionFalse, reasonOf(failed)
		imported.Message = condition.Message(failed.Error())
	}
	changed := c.DeepCopy()
	changed.Status.Conditions = condition.Set(c.Status.Conditions, imported, l.now())
	if r != nil && !r.Taken() {
		r.NoteStatus(&changed.Status)
	}
	was := condition.Find(c.Status.Conditions, fleet.ConditionImported)
	if _, err := l.clusters.PatchStatus(ctx, c, changed); err != nil {
		return err
	}
	if failed != nil && (was == nil || was.Reason != imported.Reason || was.Message != imported.Message) {
		l.events.Event(c, kube.Warning, imported.Reason, failed.Error())
	}
	return nil
}

// reasonOf is the reason of a failed import in one word.
func reasonOf(err error) string {
	if isUnreachable(err) {
		return imports.ReasonUnreachable
	}
	return fault.ReasonOf(err)
}
