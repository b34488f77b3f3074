// Package publish writes the Bundles of a repository. For each Bundle it writes first
// the Secret of its values, then the content, then the Bundle itself. When everything
// new is written, it removes the Bundles that the repository no longer has, or requests
// their removal from the controller.
//
// It holds no cache and decides nothing: package gitrepo of pkg/plan says what to write
// and remove. The loop of GitRepos uses it, and `fleet apply` with the rights of the
// user who runs it.
package publish

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// writers is how many Bundles are written at once where nothing is said.
const writers = 4

// Config configures a Publisher. Client and ManagerID must be set.
type Config struct {
	Client *kube.Client
	// OCI talks to the registries that bundles are kept in. Nil: none is, even if
	// Secrets name registries.
	OCI *oci.Client
	// Writers is how many Bundles are written at once; 4 where 0.
	Writers int
	// ManagerID is the id of the installation that contents are made for. It is
	// asked where a Bundle is kept in Contents.
	ManagerID func(context.Context) (string, error)
	// Suspended says why nothing may be written now, or nothing; it is asked
	// before each Bundle. Nil: never.
	Suspended func() string
	// Bundles gives the metadata of those Bundles of a namespace that have one of
	// these names. Nil: each is asked for.
	Bundles func(ctx context.Context, namespace string, names []string) ([]metav1.Object, error)
	// Removing, if not nil, is called before a Bundle is removed. The function that it
	// returns is called if the removal failed.
	Removing func(types.UID) (failed func())
	// Log gets a line for every Bundle that is written or removed. Nil: nothing is
	// logged.
	Log *logrus.Entry
}

// A Publisher writes what repositories yield. It may be used by several
// goroutines.
type Publisher struct {
	cfg      Config
	bundles  *kube.Store[*fleet.Bundle]
	secrets  *kube.Store[*corev1.Secret]
	contents *kube.Store[*fleet.Content]
	scans    *kube.Store[*fleet.ImageScan]
}

// New makes a Publisher; it sends no request.
func New(cfg Config) *Publisher {
	if cfg.Suspended == nil {
		cfg.Suspended = func() string { return "" }
	}
	if cfg.Removing == nil {
		cfg.Removing = func(types.UID) func() { return func() {} }
	}
	if cfg.Writers < 1 {
		cfg.Writers = writers
	}
	p := &Publisher{
		cfg: cfg, bundles: kube.StoreOf[*fleet.Bundle](cfg.Client), secrets: kube.StoreOf[*corev1.Secret](cfg.Client),
		contents: kube.StoreOf[*fleet.Content](cfg.Client), scans: kube.StoreOf[*fleet.ImageScan](cfg.Client),
	}
	if p.cfg.Bundles == nil {
		p.cfg.Bundles = p.getBundles
	}
	return p
}

// An Order says whose Bundles are written, and how.
type Order struct {
	Namespace string
	// Owner is the name of the GitRepo: Bundles with the label repo-name of this
	// value are its own, and are removed when they are no longer made.
	Owner string
	// Adopt takes Bundles that have no owner at all for the order's own, as long
	// as they are made; they are never removed.
	Adopt bool
	// Keep removes nothing.
	Keep bool
	// Scans removes ImageScans that the GitRepo does not yield any more. Without it, they
	// stay: image scanning is switched off.
	Scans bool
	// OCISecret names the Secret of the registry that resources are kept in. If it is
	// empty, the Secret ocistorage is used, if it exists.
	OCISecret string
	// Pruning, where not nil, is asked to remove Bundles; else they are deleted
	// here.
	Pruning Pruning
	// Guard, where not nil, is asked before Bundles are deleted here, which are
	// some of all that the order has. Its error keeps all of them.
	Guard func(ctx context.Context, own, remove []*fleet.Bundle) error
	// Unmoved returns gitrepo.Present's Unmoved for the Bundles that the order has
	// now. Nil: of none is that known.
	Unmoved func(own []*fleet.Bundle) func(name string) bool
	// Log, where not nil, replaces that of the Publisher.
	Log *logrus.Entry
}

// A Pruning leaves the decision when Bundles are removed to another process, which
// knows what they have deployed.
type Pruning interface {
	// Retract withdraws the present request, unless that is mark.
	Retract(ctx context.Context, mark string) error
	// Ask asks for all Bundles with this mark to be removed.
	Ask(ctx context.Context, mark string) error
}

// Done is the result of an Order.
type Done struct {
	Written, Removed, Unchanged int
	// Findings are about Bundles that were refused here, and Taken the names among them
	// that have another owner.
	Findings []finding.Finding
	Taken    []string
	// Held says why nothing was removed although something might have to be.
	Held string
	// Commits are the commits of all Bundles that the order has now and that stay,
	// by name, and Gone the names of those that this call was the first to ask to
	// remove. Both are unknown after an error.
	Commits map[string]string
	Gone    []string
}

// Publish writes all Bundles of a set that are new or changed, then removes those that
// it no longer yields, unless something new is missing. A Bundle that cannot be written
// because of what it is, or whose name is taken, is a finding, and others go on; an
// error ends the work, and a second call continues from there.
//
// Errors: reconcile.Terminal, FailedValidatingSecret, for a registry's Secret that is
// missing or cannot be used; those of package oci; reconcile.RequeueAfter while
// something is being deleted; all others may pass by themselves.
func (p *Publisher) Publish(ctx context.Context, o Order, set bundle.Set) (Done, error) {
	if o.Log == nil {
		o.Log = p.cfg.Log
	}
	storage, err := p.storage(ctx, o)
	if err != nil {
		return Done{}, err
	}
	present, err := p.readPresent(ctx, o, set, storage)
	if err != nil {
		return Done{}, err
	}
	if o.Unmoved != nil {
		present.Unmoved = o.Unmoved(present.Own)
	}
	plan := gitrepo.PlanWrites(set, present)
	done := Done{Unchanged: plan.Unchanged, Findings: plan.Findings, Taken: plan.Taken, Held: plan.Held}
	mark := withdrawal.PruneMark(plan.Remove)
	if err := o.unmark(ctx, mark); err != nil { // before anything becomes desired again
		return done, err
	}
	refused, err := p.writeAll(ctx, job{order: o, storage: storage}, plan.Put, &done)
	if err == nil {
		err = p.writeScans(ctx, o, set, &done)
	}
	if len(refused) > 0 || o.Keep {
		plan.Remove = nil // something new is missing, so nothing is removed
	}
	if err == nil && plan.Err == nil && plan.Held == "" && len(refused) == 0 && !o.Keep {
		err = p.removeScans(ctx, o, set)
	}
	done.Commits = plan.Commits(present.Own, refused)
	switch {
	case err != nil:
		return done, err
	case plan.Err != nil:
		return done, plan.Err
	case len(plan.Remove) == 0:
		return done, o.unmark(ctx, "")
	case o.Pruning != nil:
		return done, p.markForRemoval(ctx, o, plan.Remove, mark, &done)
	case o.Guard != nil:
		if err := o.Guard(ctx, present.Own, plan.Remove); err != nil {
			return done, err
		}
	}
	done.Removed, err = p.removeBundles(ctx, o, plan.Remove)
	return done, err
}

func (o Order) unmark(ctx context.Context, mark string) error {
	if o.Pruning == nil {
		return nil
	}
	return o.Pruning.Retract(ctx, mark)
}

// A job is an order with what was found out about it.
type job struct {
	order   Order
	storage *storage // nil: no registry
}

// writeAll writes Bundles, some at a time, and returns the names of those that
// were refused.
func (p *Publisher) writeAll(ctx context.Context, j job, list []gitrepo.Write, done *Done) (refused map[string]bool, err error) {
	var written atomic.Int64
	found := make([]*finding.Finding, len(list))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(p.cfg.Writers)
	for i, write := range list {
		group.Go(func() error {
			if why := p.cfg.Suspended(); why != "" {
				return reconcile.RequeueError(fleet.ReasonSuspended, 0, errors.New(why))
			}
			f, err := p.publishBundle(gctx, j, write)
			if err == nil && f == nil {
				written.Add(1)
				logEvent(j.order.Log, write.New.Name, write.Reason, "bundle written")
			}
			found[i] = f
			return err
		})
	}
	err = group.Wait()
	done.Written = int(written.Load())
	refused = map[string]bool{}
	for i, f := range found {
		if f == nil {
			continue
		}
		refused[list[i].New.Name] = true
		done.Findings = append(done.Findings, *f)
		if f.Rule == finding.RuleConflict {
			done.Taken = append(done.Taken, f.Path)
		}
	}
	return refused, err
}

// logEvent logs one change.
func logEvent(log *logrus.Entry, name, reason, message string) {
	if log != nil {
		log.WithFields(logrus.Fields{"bundle": name, "reason": reason}).Info(message)
	}
}
