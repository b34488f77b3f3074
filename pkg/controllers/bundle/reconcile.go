package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// again is when a Bundle continues that has more to write: at once, but after the keys
// that were queued meanwhile.
var again = kube.Result{After: time.Millisecond}

// valuesRetry is when the values of a Bundle are looked for again that no watch
// has announced.
const valuesRetry = 30 * time.Second

// Reconcile brings the deployments of one Bundle in line with its targets.
//
//  1. gather: read the Bundle, its clusters and deployments from the table
//  2. decide: targeting, options and rollout, without touching anything
//  3. apply:  the content, then values and deployments, then withdrawals
//  4. report: update the table; status follows from there
//
// It may run at any time and any number of times.
func (e *Engine) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	b, ok := e.table.Bundle(key)
	if ok && !e.cfg.Scope.Owns(b) {
		return e.observeForeign(b)
	}
	switch w := e.resume(key, b); {
	case w != nil:
		return e.carryOut(ctx, w)
	case !ok:
		return kube.Done, nil
	case b.DeletionTimestamp != nil:
		return e.remove(ctx, b)
	}
	s, err := e.gather(ctx, b)
	if err != nil {
		return kube.Done, err
	}
	d := decide(s)
	e.remember(key, d)
	e.noteReplaced(s, d)
	if err := e.adopt(ctx, s, d); err != nil {
		return kube.Done, err
	}
	if err := e.askForChart(ctx, b); err != nil {
		return kube.Done, err
	}
	return e.carryOut(ctx, &work{snapshot: s, decision: d})
}

// gather reads all that the decision needs.
func (e *Engine) gather(ctx context.Context, b *fleet.Bundle) (*snapshot, error) {
	s := &snapshot{key: kube.KeyOf(b), bundle: b, moves: e.table.Moves()}
	refused := e.sources.refusedOf(s.key)
	if s.parts, s.compiledErr = e.named(b); s.compiledErr == nil {
		s.compiled, s.compiledErr = e.compiled(ctx, b) // before the clusters: their changes are judged by it
		if err := e.gatherSources(ctx, s); s.compiledErr == nil {
			s.compiledErr = err
		}
	} else {
		e.dropCompiled(s.key)
	}
	s.deployments, s.seen = e.table.Deployments(s.key)
	e.checkCopies(s, refused)
	e.candidates(s)
	s.hold, s.restricted = e.held(s.key.Namespace)
	s.replacing = e.replacingOf(b)
	if s.compiledErr != nil && !reconcile.IsTerminal(s.compiledErr) && !reconcile.IsRequeue(s.compiledErr) {
		return nil, s.compiledErr
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.memos, s.lost = e.memos[s.key], maps.Clone(e.lost)
	return s, nil
}

// remember keeps what was worked out but needs no write.
func (e *Engine) remember(key kube.Key, d *decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.memos[key] = d.memos
}

// held says why nothing new may be written in a namespace.
func (e *Engine) held(namespace string) (why string, restricted bool) {
	var limits []support.Limit
	for kind, c := range e.cache.limits {
		for _, o := range c.List(namespace) {
			limits = append(limits, support.Limit{Kind: kind, Name: o.Name})
		}
	}
	if text := support.FailClosed(limits); text != "" {
		return text, true
	}
	return e.brake()
}

// brake returns why nothing new may be written anywhere: a user has put on the brake.
func (e *Engine) brake() (why string, restricted bool) {
	cm, ok := e.cache.brake.Get(kube.Key{Namespace: e.cfg.Namespace, Name: fleet.ConfigMapBrake})
	if !ok {
		return "", false
	}
	brake := view.ParseBrake(cm.Data)
	if !brake.On {
		return "", false
	}
	brake.Since = nil // messages do not contain times
	return brake.Text(time.Time{}), false
}

// compiled returns the compiled Bundle, compiled again only if the Bundle has changed.
// It costs one read where the Bundle has values.
func (e *Engine) compiled(ctx context.Context, b *fleet.Bundle) (*deployment.Compiled, error) {
	key := kube.KeyOf(b)
	e.mu.Lock()
	entry := e.kits[key]
	e.mu.Unlock()
	if entry != nil {
		if fits(entry.compiled, b) {
			return entry.compiled, nil
		}
	}
	next := &compiledEntry{hash: b.Spec.ValuesHash}
	if next.hash != "" {
		if entry != nil && entry.hash == next.hash {
			next.values = entry.values
		} else if err := e.readValues(ctx, b, next); err != nil {
			return nil, err
		}
	}
	compiled, err := deployment.Compile(b, contentOf(b), next.values)
	if err != nil {
		e.dropCompiled(key)
		return nil, err
	}
	next.compiled = compiled
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kits[key] = next
	return compiled, nil
}

// fits reports whether a compiled bundle was made of a Bundle as it is now.
func fits(compiled *deployment.Compiled, b *fleet.Bundle) bool {
	old := compiled.Bundle()
	return old.UID == b.UID && old.Generation == b.Generation && maps.Equal(old.Labels, b.Labels) && contentOf(old) == contentOf(b)
}

func (e *Engine) readValues(ctx context.Context, b *fleet.Bundle, entry *compiledEntry) error {
	secret, err := e.secrets.Get(ctx, kube.KeyOf(b))
	switch {
	case kube.IsGone(err):
		return nil // NewKit says that it waits
	case err != nil:
		return err
	case secret.Type != fleet.SecretTypeBundleValues:
		return reconcile.TerminalError("SecretTaken", fmt.Errorf(
			"values of the Bundle: Secret %q is of type %q, want %q", b.Name, secret.Type, fleet.SecretTypeBundleValues))
	}
	if options.BundleValuesHash(secret.Data) == b.Spec.ValuesHash {
		entry.values = secret.Data
	}
	return nil
}

func (e *Engine) dropCompiled(key kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.kits, key)
}

// markStale forces a rewrite of a deployment even if its IDs match: another writer has
// changed it, or its values are gone.
func (e *Engine) markStale(key kube.Key) {
	if bundle, _, ok := e.table.PairOf(key); ok && !e.mine(bundle) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost[key] = true
}

func (e *Engine) isWriting(key kube.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writing[key]
}

// adopt puts our finalizer on a Bundle before the first deployment is made, so
// that its deletion is not missed. A protected one has it in any case.
func (e *Engine) adopt(ctx context.Context, s *snapshot, d *decision) error {
	needed := len(d.pairs)+len(s.deployments) > 0 || withdrawal.Protects(s.bundle)
	if slices.Contains(s.bundle.Finalizers, fleet.FinalizerBundle) || !needed {
		return nil
	}
	changed := s.bundle.DeepCopy()
	changed.Finalizers = append(changed.Finalizers, fleet.FinalizerBundle)
	got, err := e.bundles.Patch(ctx, s.bundle, changed)
	if err != nil {
		return fmt.Errorf("take over the Bundle: %w", err)
	}
	e.observe(got)
	return nil
}

// observe stores a Bundle as the API server returned it, before the watch reports it.
func (e *Engine) observe(b *fleet.Bundle) {
	stripBundle(b)
	b.ManagedFields = nil
	e.enqueue(e.table.SetBundle(b))
}

func (e *Engine) logFor(key kube.Key) *logrus.Entry {
	fields := logrus.Fields{"workspace": key.Namespace, "bundle": key.Name}
	if b, ok := e.table.Bundle(key); ok {
		if repo := b.Labels[fleet.LabelRepoName]; repo != "" {
			fields["gitrepo"] = repo
		}
		if commit := b.Labels[fleet.LabelCommit]; commit != "" {
			fields["commit"] = commit
		}
	}
	return e.log.WithFields(fields)
}

// joined is at most three of many errors, each once, as one.
func joined(errs []error) error {
	if len(errs) <= 3 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w (and %d more)", errors.Join(errs[:3]...), len(errs)-3)
}
