package workspace

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Reasons of events about rights.
const (
	reasonTaken   = "RightsNameTaken"
	reasonUnready = "RightsRefused"
)

// rightsLoops are the loops that give rights and apply Rancher's defaults.
type rightsLoops struct {
	creators *creatorLoop
	defaults *defaultsLoop
	global   *globalLoop // nil where there are no global roles
}

func newRightsLoops(p ports) *rightsLoops {
	g := &rightsLoops{creators: newCreatorLoop(p), defaults: newDefaultsLoop(p)}
	if p.served[kindGlobalRole] && p.served[kindGlobalGrant] {
		g.global = newGlobalLoop(p)
	}
	return g
}

func (r *rightsLoops) runnables() []kube.Runner {
	if r == nil {
		return nil
	}
	parts := append(r.creators.runnables(), r.defaults.loop)
	if r.global != nil {
		parts = append(parts, r.global.runnables()...)
	}
	return parts
}

// enqueueAll enqueues all objects of every loop.
func (r *rightsLoops) enqueueAll() {
	if r == nil {
		return
	}
	r.creators.enqueueAll()
	r.defaults.enqueueAll()
	if r.global != nil {
		r.global.enqueueAll()
	}
}

// An ownedKind reads and writes the roles or bindings of one kind.
type ownedKind[P kube.Object] struct {
	kind  string
	mode  plan.Mode
	store *kube.Store[P]
	mend  func(live, want P) (P, plan.RightsAction)
}

// ownedKinds are the ownedKinds of all kinds.
type ownedKinds struct {
	roles      ownedKind[*rbacv1.ClusterRole]
	everywhere ownedKind[*rbacv1.ClusterRoleBinding]
	bindings   ownedKind[*rbacv1.RoleBinding]
}

func newOwnedKinds(c *kube.Client, mode plan.Mode) ownedKinds {
	return ownedKinds{
		roles:      ownedKind[*rbacv1.ClusterRole]{"ClusterRole", mode, kube.StoreOf[*rbacv1.ClusterRole](c), plan.MendRole},
		everywhere: ownedKind[*rbacv1.ClusterRoleBinding]{"ClusterRoleBinding", mode, kube.StoreOf[*rbacv1.ClusterRoleBinding](c), plan.MendClusterRoleBinding},
		bindings:   ownedKind[*rbacv1.RoleBinding]{"RoleBinding", mode, kube.StoreOf[*rbacv1.RoleBinding](c), plan.MendRoleBinding},
	}
}

// A nameTaken is the error of a name that an object of another owner has.
type nameTaken struct{ what string }

func (t *nameTaken) Error() string {
	return t.what + " is there and was made by somebody else: it is left as it is, and gives what it gives; " +
		"delete it to have the one of the workspace"
}

// first returns the name to report of two: always the same, whatever their order. t may
// be nil.
func (t *nameTaken) first(what string) *nameTaken {
	if t != nil && t.what < what {
		return t
	}
	return &nameTaken{what}
}

// apply creates roles first, then bindings, and deletes unwanted ones in the opposite
// order. It does not change an object of another owner with a desired name; the error
// names that object after everything else is done.
func (o *ownedKinds) apply(ctx context.Context, want, live plan.Rights) error {
	var other *nameTaken
	for _, err := range []error{
		o.roles.ensureAll(ctx, want.ClusterRoles, live.ClusterRoles, &other),
		o.everywhere.ensureAll(ctx, want.ClusterRoleBindings, live.ClusterRoleBindings, &other),
		o.bindings.ensureAll(ctx, want.RoleBindings, live.RoleBindings, &other),
		o.bindings.deleteUnwanted(ctx, want.RoleBindings, live.RoleBindings),
		o.everywhere.deleteUnwanted(ctx, want.ClusterRoleBindings, live.ClusterRoleBindings),
		o.roles.deleteUnwanted(ctx, want.ClusterRoles, live.ClusterRoles),
	} {
		if err != nil {
			return err
		}
	}
	if other != nil {
		return other
	}
	return nil
}

// ensureAll creates and repairs the desired objects.
func (o *ownedKind[P]) ensureAll(ctx context.Context, want, live []P, other **nameTaken) error {
	have := byKey(live)
	for _, w := range want {
		if l, ok := have[kube.KeyOf(w)]; ok {
			if err := o.repair(ctx, l, w); err != nil {
				return err
			}
			continue
		}
		made, err := o.create(ctx, w)
		if err == nil && !made {
			err = o.adoptExisting(ctx, w, other)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptExisting handles an existing object with a desired name that the cache did not
// have.
func (o *ownedKind[P]) adoptExisting(ctx context.Context, want P, other **nameTaken) error {
	live, err := o.store.Get(ctx, kube.KeyOf(want))
	if err != nil {
		return err // the object was deleted meanwhile: try again
	}
	if plan.MayChange(live, want) && !plan.IsRancherManaged(o.mode, live.GetAnnotations()) {
		return o.repair(ctx, live, want)
	}
	if !o.grantsSame(live, want) {
		*other = (*other).first(fmt.Sprintf("%s %q", o.kind, kube.KeyOf(want)))
	}
	return nil
}

// grantsSame reports whether an object of another owner grants what is desired.
func (o *ownedKind[P]) grantsSame(live, want P) bool {
	like, ok := live.DeepCopyObject().(P)
	if !ok {
		return false
	}
	like.SetLabels(want.GetLabels())
	like.SetOwnerReferences(want.GetOwnerReferences())
	_, deed := o.mend(like, want)
	return deed == plan.Fits
}

// create creates an object; false: one of its name exists. In a namespace that is being
// deleted it creates nothing.
func (o *ownedKind[P]) create(ctx context.Context, want P) (bool, error) {
	_, err := o.store.Create(ctx, want)
	switch {
	case err == nil, kube.IsTerminating(err), kube.IsGone(err):
		return true, nil
	case kube.IsExists(err):
		return false, nil
	}
	return false, fmt.Errorf("give rights: %w", err)
}

// repair patches an object that differs from the desired one.
func (o *ownedKind[P]) repair(ctx context.Context, live, want P) error {
	changed, deed := o.mend(live, want)
	switch deed {
	case plan.Mend:
		_, err := o.store.Patch(ctx, live, changed)
		return err
	case plan.Remake:
		if err := o.store.Delete(ctx, kube.KeyOf(live), exactly(live)); err != nil {
			return err
		}
		if _, err := o.store.Create(ctx, want); err != nil && !kube.IsExists(err) {
			return fmt.Errorf("give rights: %w", err)
		}
	}
	return nil
}

// deleteUnwanted deletes existing objects that are not desired.
func (o *ownedKind[P]) deleteUnwanted(ctx context.Context, want, live []P) error {
	keep := byKey(want)
	for _, l := range live {
		if _, ok := keep[kube.KeyOf(l)]; ok || l.GetDeletionTimestamp() != nil {
			continue
		}
		if err := o.store.Delete(ctx, kube.KeyOf(l), exactly(l)); err != nil {
			return err
		}
	}
	return nil
}

// byKey returns objects by their keys.
func byKey[P kube.Object](list []P) map[kube.Key]P {
	out := make(map[kube.Key]P, len(list))
	for _, o := range list {
		out[kube.KeyOf(o)] = o
	}
	return out
}

// exactly limits a deletion to the version of the object that was read.
func exactly(o kube.Object) kube.Precondition {
	return kube.Precondition{UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

// stripRights keeps the name, the owner and the rights of a role or a binding.
func stripRights(m metav1.Object) { m.SetAnnotations(nil) }

// An eventReporter reports each problem once, for as long as it lasts.
type eventReporter struct {
	log    *logrus.Entry
	events *kube.Recorder
	key    string   // field for the object's name in logs; empty: the text has the name
	said   sync.Map // by UID of the object: the last text
}

// report emits an event about a problem of an object.
func (e *eventReporter) report(o kube.Object, reason, text string) {
	if was, ok := e.said.Swap(o.GetUID(), text); ok && was == text {
		return
	}
	e.events.Event(o, kube.Warning, reason, text)
	log := e.log.WithField("reason", reason)
	if e.key != "" {
		log = log.WithField(e.key, o.GetName())
	}
	log.Warn(text)
}

// clear drops what was reported about an object, which has no problem any more, or was
// deleted.
func (e *eventReporter) clear(o kube.Object) { e.said.Delete(o.GetUID()) }
