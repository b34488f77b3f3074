package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// again is when a Bundle continues that has more to write: at once, but after the keys
// that were queued meanwhile.
var again = kube.Result{After: time.Millisecond}

// valuesRetry is when the values of a Bundle are looked for again that no watch
// has announced.
const valuesRetry = 30 * time.Second

// A bundleController brings the deployments of Bundles in line with their targets.
type bundleController struct {
	*base
	bundles        *kube.Store[*fleet.Bundle]
	deployments    *kube.Store[*fleet.BundleDeployment]
	contents       *kube.Store[*fleet.Content]
	secrets        *kube.Store[*corev1.Secret]
	slots          *slots
	deletionBudget *deletionBudget
	sources        *sources
	pairs          *pairState
	budgets        *budgets
	content        *contentController
	copies         *copyController
	targeting      *targeting
	withdrawals    *withdrawals
}

// Reconcile brings the deployments of one Bundle in line with its targets.
//
//  1. gather: read the Bundle, its clusters and deployments from the table
//  2. decide: targeting, options and rollout, without touching anything
//  3. apply:  the content, then values and deployments, then withdrawals
//  4. report: update the table; status follows from there
//
// It may run at any time and any number of times.
func (bc *bundleController) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	b, ok := bc.table.Bundle(key)
	if ok && !bc.cfg.Scope.Owns(b) {
		return bc.observeForeign(b)
	}
	switch w := bc.pairs.resumeWork(key, b); {
	case w != nil:
		return bc.applyDecision(ctx, w)
	case !ok:
		return kube.Done, nil
	case b.DeletionTimestamp != nil:
		return bc.withdrawals.removeBundle(ctx, b)
	}
	s, err := bc.gather(ctx, b)
	if err != nil {
		return kube.Done, err
	}
	d := decide(s)
	bc.pairs.storeVersions(key, d)
	bc.budgets.storeReplaced(s, d)
	if err := bc.addFinalizer(ctx, s, d); err != nil {
		return kube.Done, err
	}
	if s.violation == nil {
		if err := bc.requestCharts(ctx, b); err != nil {
			return kube.Done, err
		}
	}
	return bc.applyDecision(ctx, &work{snapshot: s, decision: d})
}

// gather reads all that the decision needs.
func (bc *bundleController) gather(ctx context.Context, b *fleet.Bundle) (*snapshot, error) {
	s := &snapshot{key: kube.KeyOf(b), bundle: b, known: known{moves: bc.table.Moves(), now: bc.now()}}
	s.reach = bc.targeting.reachOf(b)
	limits := bc.limitsOf(s.key.Namespace, s.reach)
	s.violation = deployment.Refusal(b, limits)
	refused := bc.sources.refusedOf(s.key)
	if s.parts, s.compiledErr = bc.content.findContent(b); s.compiledErr == nil {
		s.compiled, s.compiledErr = bc.compiled(ctx, b, limits) // before the clusters: changes of these are compared with it
		if err := bc.copies.gatherSources(ctx, s); s.compiledErr == nil {
			s.compiledErr = err
		}
	} else {
		bc.pairs.dropCompiled(s.key)
	}
	s.deployments, s.seen = bc.table.Deployments(s.key)
	bc.copies.checkCopies(s, refused)
	bc.candidates(s)
	s.hold = bc.suspension()
	s.replacing = bc.budgets.replaceInputsOf(b)
	if s.compiledErr != nil && !reconcile.IsTerminal(s.compiledErr) && !reconcile.IsRequeue(s.compiledErr) {
		return nil, s.compiledErr
	}
	bc.pairs.mu.Lock()
	defer bc.pairs.mu.Unlock()
	s.versions, s.stale = bc.pairs.versions[s.key], maps.Clone(bc.pairs.stale)
	return s, nil
}

// compiled returns the compiled Bundle, compiled again only if the Bundle or the limits have
// changed.
// It costs one read where the Bundle has values.
func (bc *bundleController) compiled(ctx context.Context, b *fleet.Bundle, limits policy.Namespaces) (*deployment.Compiled, error) {
	key := kube.KeyOf(b)
	bc.pairs.mu.Lock()
	entry := bc.pairs.compiled[key]
	bc.pairs.mu.Unlock()
	if entry != nil {
		if compiledFrom(entry.compiled, b, limits) {
			return entry.compiled, nil
		}
	}
	next := &compiledEntry{hash: b.Spec.ValuesHash}
	if next.hash != "" {
		if entry != nil && entry.hash == next.hash {
			next.values = entry.values
		} else if err := bc.readValues(ctx, b, next); err != nil {
			return nil, err
		}
	}
	compiled, err := deployment.CompileWithin(b, contentID(b), next.values, limits)
	if err != nil {
		bc.pairs.dropCompiled(key)
		return nil, err
	}
	next.compiled = compiled
	bc.pairs.mu.Lock()
	defer bc.pairs.mu.Unlock()
	bc.pairs.compiled[key] = next
	return compiled, nil
}

// compiledFrom reports whether a compiled bundle was made from the current version of a
// Bundle, with the current limits.
func compiledFrom(compiled *deployment.Compiled, b *fleet.Bundle, limits policy.Namespaces) bool {
	old := compiled.Bundle()
	return maps.Equal(compiled.Limits(), limits) && old.UID == b.UID && old.Generation == b.Generation && maps.Equal(old.Labels, b.Labels) && contentID(old) == contentID(b)
}

// limitsOf returns the limits of the namespaces of a Bundle and of its clusters.
func (bs *base) limitsOf(namespace string, reach target.MappedNamespaces) policy.Namespaces {
	out := policy.Namespaces{}
	for _, ns := range append([]string{namespace}, reach.Namespaces()...) {
		if l := bs.cache.policies.Of(ns); l != nil {
			out[ns] = l
		}
	}
	return out
}

// readValues reads the Secret with the values of a Bundle into entry.
func (bc *bundleController) readValues(ctx context.Context, b *fleet.Bundle, entry *compiledEntry) error {
	secret, err := bc.secrets.Get(ctx, kube.KeyOf(b))
	switch {
	case kube.IsGone(err):
		return nil // compiling the Bundle reports the wait
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

// addFinalizer adds the manager's finalizer to a Bundle before its first deployment is
// created, so that the manager withdraws the deployments before the Bundle disappears.
// A protected Bundle always gets it.
func (bc *bundleController) addFinalizer(ctx context.Context, s *snapshot, d *decision) error {
	needed := len(d.pairs)+len(s.deployments) > 0 || withdrawal.IsProtected(s.bundle)
	if slices.Contains(s.bundle.Finalizers, fleet.FinalizerBundle) || !needed {
		return nil
	}
	got, err := bc.bundles.AddFinalizer(ctx, s.bundle, fleet.FinalizerBundle)
	if err != nil {
		return fmt.Errorf("take over the Bundle: %w", err)
	}
	bc.observe(got)
	return nil
}

// joinErrors joins at most three distinct errors.
func joinErrors(errs []error) error {
	if len(errs) <= 3 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w (and %d more)", errors.Join(errs[:3]...), len(errs)-3)
}

// forget drops all state of a Bundle that was deleted.
func (bc *bundleController) forget(key kube.Key) {
	bc.pairs.forget(key)
	bc.withdrawals.forget(key)
	bc.deletionBudget.forget(key)
	bc.sources.forget(key)
}

// observeForeign records in the table the state of a Bundle that another manager
// reconciles. It waits for writes that this manager began before, and then drops its
// own state.
func (bc *bundleController) observeForeign(b *fleet.Bundle) (kube.Result, error) {
	key := kube.KeyOf(b)
	bc.pairs.resumeWork(key, nil)
	bc.forget(key)
	deployments, seen := bc.table.Deployments(key)
	p := fleetstate.Plan{
		Generation: b.Generation, Complete: true, Foreign: true, Named: fleetstate.NamedBy(b),
		Waiting: true, Seen: seen, // later events are handled
		Wants: make(map[kube.Key]fleetstate.Desired, len(deployments)),
	}
	for cluster, bd := range deployments {
		if bd.Annotations[fleet.AnnotationWithdrawn] == "" && bd.DeletionTimestamp == nil {
			p.Order = append(p.Order, cluster)
			p.Wants[cluster] = fleetstate.Desired{ID: bd.Spec.StagedDeploymentID, Paused: bd.Spec.Paused}
		}
	}
	slices.SortFunc(p.Order, fleetstate.CompareKeys)
	bc.enqueue(bc.table.SetPlan(key, p))
	return kube.Done, nil
}

// candidates finds the clusters that a Bundle may target, and the clusters of other
// namespaces where it is deployed although no mapping allows it any more.
func (bc *bundleController) candidates(s *snapshot) {
	s.candidates = bc.table.Candidates(s.key.Namespace)
	s.foreign = map[kube.Key]foreignCluster{}
	own := len(s.candidates)
	for _, ns := range s.reach.Namespaces() {
		for _, c := range bc.table.Candidates(ns) {
			s.candidates, s.foreign[c.Key] = append(s.candidates, c), foreignCluster{}
		}
	}
	for key := range s.deployments {
		in, why := s.reach.Includes(key.Namespace)
		if in {
			continue
		}
		c, ok := bc.table.Candidate(key)
		if !ok {
			continue
		}
		g := foreignCluster{notAllowed: why}
		if err := s.reach.Fault(); err != nil {
			g = foreignCluster{held: "stays as it is: " + err.Error()}
		}
		s.candidates, s.foreign[key] = append(s.candidates, c), g
	}
	if len(s.candidates) > own {
		slices.SortFunc(s.candidates, func(a, b *fleetstate.Candidate) int {
			return target.CompareClusters(&a.Place.Cluster, &b.Place.Cluster)
		})
	}
	bc.findOccupants(s)
}

// findOccupants finds the clusters on which a Bundle of another namespace uses the same
// deployment name. The Bundle that was deployed there first stays.
func (bc *bundleController) findOccupants(s *snapshot) {
	if !bc.cache.mapped.exist() {
		return
	}
	s.taken = map[kube.Key]string{}
	for _, c := range s.candidates {
		if c.Place.Namespace == "" || s.deployments[c.Key] != nil {
			continue
		}
		owner, _, ok := bc.table.PairOf(kube.Key{Namespace: c.Place.Namespace, Name: s.key.Name})
		if ok && owner != s.key {
			s.taken[c.Key] = nameTaken(owner)
		}
	}
}
