package bundle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	// slice is how long one Bundle writes before others have their turn.
	slice = 100 * time.Millisecond
	// namespaceRetry is when a cluster whose namespace is going away, or not
	// there yet, is tried again.
	namespaceRetry = time.Second
)

// apply writes the pairs of a decision that are not written yet, for at most one time
// slice. rest reports whether pairs are left; answers may still arrive then. An error
// of a single cluster becomes part of its status and does not stop the others. apply
// returns all other errors after the last write has ended.
func (bc *bundleController) apply(ctx context.Context, w *work) (rest bool, err error) {
	if len(w.pairs) == 0 {
		return false, nil
	}
	if w.turn == nil {
		w.turn, w.creating = bc.slots.newTurn(), newBatch(w.batch)
	}
	if w.hold == "" && w.violation == nil {
		if err := bc.ensureContent(ctx, w.snapshot, w.decision); err != nil {
			return false, errors.Join(err, w.turn.wait())
		}
	}
	w.turn.renew()
	for ; w.next < len(w.pairs); w.next++ {
		p := w.pairs[w.next]
		if p.write == nothing {
			continue
		}
		if rest = w.turn.isOver(); rest {
			break
		}
		w.creating.acquire(p.write)
		w.turn.write(func() error {
			defer w.creating.release(p.write)
			return bc.write(ctx, w.snapshot, p)
		}, func(err error) error { return w.recordAnswer(p, err) })
	}
	if rest && !w.countsUnavailable { // if writes use a limit, every answer may change the next step
		if err = w.turn.handleAnswers(); err == nil {
			return true, nil
		}
	}
	return rest, errors.Join(err, w.turn.wait())
}

// recordAnswer records the result of writing a pair. It returns nil for an error that
// concerns only the cluster of the pair.
func (d *decision) recordAnswer(p *pair, err error) error {
	if err == nil {
		return nil
	}
	d.delta = true
	if reconcile.IsTerminal(err) || kube.IsInvalid(err) {
		p.want.Broken = err.Error()
		d.plan.Wants[p.key] = p.want
		return nil
	}
	if !kube.IsConflict(err) {
		p.want.Held = err.Error()
		d.plan.Wants[p.key] = p.want
	}
	return err
}

// ensureContent stores the resources of a Bundle once for all clusters. If the Bundle
// names a Content, its author has stored it.
func (bc *bundleController) ensureContent(ctx context.Context, s *snapshot, d *decision) error {
	if s.compiled.InRegistry() {
		return bc.content.ensureCredentials(ctx, s, d)
	}
	id := s.compiled.Content()
	if id == "" || fleetstate.NamedBy(s.bundle) == id {
		return nil
	}
	if _, ok := bc.cache.contents.Get(kube.Key{Name: id}); ok {
		return nil
	}
	full, err := bc.bundles.Get(ctx, s.key)
	if err != nil {
		return fmt.Errorf("read resources: %w", err)
	}
	c, err := content.New(content.Manifest{Resources: full.Spec.Resources})
	if err != nil {
		return reconcile.TerminalError(deployment.ReasonTooLarge, err)
	}
	if c.Name != id {
		return reconcile.RequeueError("Changed", namespaceRetry, fmt.Errorf("the Bundle has just changed"))
	}
	c.Labels = map[string]string{fleet.LabelManagerID: bc.cfg.ManagerID}
	if _, err := bc.contents.Create(ctx, c); err != nil && !kube.IsExists(err) {
		return err
	}
	return nil
}

// write carries out the decision for one pair: it writes the Secret, then the
// BundleDeployment.
func (bc *bundleController) write(ctx context.Context, s *snapshot, p *pair) (err error) {
	var got *fleet.BundleDeployment
	key := kube.Key{Namespace: p.place.Namespace, Name: s.key.Name}
	lost := bc.pairs.beginWrite(key)
	defer func() { bc.pairs.endWrite(s.key, key, lost && err != nil) }()
	switch p.write {
	case create, replace:
		got, err = bc.writeWhole(ctx, s, p)
	case stage:
		got, err = bc.stage(ctx, s, p)
	case patchMetadata:
		got, err = bc.deployments.Patch(ctx, p.old, deployment.PatchMetadata(s.compiled, p.place, p.old, p.id))
	}
	switch {
	case kube.IsTerminating(err), kube.IsGone(err):
		return reconcile.RequeueError("NamespaceGone", namespaceRetry, fmt.Errorf("cluster %q: %w", p.key, err))
	case kube.IsExists(err):
		return bc.adoptExisting(ctx, s.key, key, err)
	case err != nil:
		return fmt.Errorf("deploy to cluster %q: %w", p.key, err)
	}
	bc.stripDeployment(got)
	bc.enqueue(bc.table.SetDeployment(got))
	if p.write != patchMetadata {
		bc.logFor(s.key).WithFields(logrus.Fields{
			"cluster": p.key.String(), "deployment": shortID(p.id), "reason": p.step.Reason,
		}).Info("deployment written")
	}
	return nil
}

// adoptExisting handles AlreadyExists for a deployment: the object is ours, and the
// watch has not reported it yet, or it is foreign.
func (bc *bundleController) adoptExisting(ctx context.Context, wanted, key kube.Key, cause error) error {
	live, err := bc.deployments.Get(ctx, key)
	if err != nil {
		return err
	}
	switch bundle, ok := fleetstate.BundleOf(live); {
	case !ok || bundle.Name != key.Name:
		return reconcile.TerminalError(reasonNameTaken, fmt.Errorf("BundleDeployment %q exists and was not made by Fleet", key))
	case bundle != wanted:
		return reconcile.TerminalError(reasonNameTaken, errors.New(nameTaken(bundle)))
	}
	bc.stripDeployment(live)
	bc.enqueue(bc.table.SetDeployment(live))
	return cause
}

// writeWhole creates a BundleDeployment, or replaces its spec by a new version.
func (bc *bundleController) writeWhole(ctx context.Context, s *snapshot, p *pair) (*fleet.BundleDeployment, error) {
	order, err := deploymentOrder(s, p)
	if err != nil {
		return nil, err
	}
	payload, err := deployment.Compose(order, p.old, nil)
	if err != nil {
		return nil, err
	}
	if order.Move {
		if err := bc.copies.copySources(ctx, s, p); err != nil {
			return nil, err
		}
	}
	if err := bc.putSecret(ctx, payload.Secret); err != nil {
		return nil, err
	}
	if p.old == nil {
		return bc.deployments.Create(ctx, payload.Object)
	}
	return bc.deployments.Update(ctx, payload.Object)
}

// stage writes the new version as staged version beside the current one. It reads the
// values of the current version: both versions share one Secret and one hash.
func (bc *bundleController) stage(ctx context.Context, s *snapshot, p *pair) (*fleet.BundleDeployment, error) {
	key := kube.KeyOf(p.old)
	var values []byte
	if p.old.Spec.ValuesHash != "" {
		secret, err := bc.secrets.Get(ctx, key)
		if err != nil && !kube.IsGone(err) {
			return nil, err
		}
		if err == nil {
			values = secret.Data[fleet.KeyValues]
		}
	}
	order, err := deploymentOrder(s, p)
	if err != nil {
		return nil, err
	}
	staging, err := deployment.Stage(order, p.old, values)
	if err != nil {
		return nil, err
	}
	if err := bc.putSecret(ctx, staging.Secret); err != nil {
		return nil, err
	}
	return bc.deployments.PatchRaw(ctx, key, types.JSONPatchType, staging.Patch)
}

// deploymentOrder returns the input of deployment.Compose and deployment.Stage. It
// renders the version if only its ids are known.
func deploymentOrder(s *snapshot, p *pair) (deployment.Order, error) {
	if p.version == nil {
		v, err := s.renderVersion(p)
		if err != nil {
			return deployment.Order{}, err
		}
		p.version = &v
	}
	return deployment.Order{Compiled: s.compiled, Place: p.place, Inputs: p.inputs, Version: *p.version, Move: p.step.Move}, nil
}

// putSecret writes the Secret with the values of a deployment; nil for none. It does
// not change a Secret of the same name that is not the manager's.
func (bc *bundleController) putSecret(ctx context.Context, want *corev1.Secret) error {
	if want == nil {
		return nil
	}
	key := kube.KeyOf(want)
	if _, ok := bc.cache.secrets.Get(key); !ok {
		_, err := bc.secrets.Create(ctx, want)
		if !kube.IsExists(err) {
			return err
		}
		have, err := bc.secrets.Get(ctx, key)
		if err != nil {
			return err
		}
		if have.Type != fleet.SecretTypeBundleDeployment {
			return reconcile.TerminalError("SecretTaken", fmt.Errorf("values of the deployment: Secret %q is of type %q and not Fleet's", key, have.Type))
		}
	}
	_, err := bc.secrets.Update(ctx, want) // any previous content is ours
	if kube.IsGone(err) {
		_, err = bc.secrets.Create(ctx, want)
	}
	return err
}

// shortID returns a deployment id for logs: the first 8 characters of both digests.
func shortID(id string) string {
	content, options, whole := strings.Cut(id, ":")
	if !whole {
		content, options = "", id
	}
	return content[:min(10, len(content))] + ":" + options[:min(8, len(options))]
}
