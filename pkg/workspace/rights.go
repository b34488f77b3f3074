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

// A give is the loops that give rights, and Rancher's defaults their effect.
type give struct {
	creators *creatorLoop
	defaults *defaultsLoop
	global   *globalLoop // nil where there are no global roles
}

func newGive(p ports) *give {
	g := &give{creators: newCreatorLoop(p), defaults: newDefaultsLoop(p)}
	if p.served[kindGlobalRole] && p.served[kindGlobalGrant] {
		g.global = newGlobalLoop(p)
	}
	return g
}

func (g *give) parts() []kube.Runner {
	if g == nil {
		return nil
	}
	parts := append(g.creators.parts(), g.defaults.loop)
	if g.global != nil {
		parts = append(parts, g.global.parts()...)
	}
	return parts
}

// wake lets every loop look at everything.
func (g *give) wake() {
	if g == nil {
		return
	}
	g.creators.wake()
	g.defaults.wake()
	if g.global != nil {
		g.global.wake()
	}
}

// An ownedKind is where roles or bindings of one kind stand.
type ownedKind[P kube.Object] struct {
	kind  string
	mode  plan.Mode
	store *kube.Store[P]
	mend  func(live, want P) (P, plan.Deed)
}

// ownedKinds are those of all three kinds.
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

// A taken name is one that an object of another owner has.
type taken struct{ what string }

func (t *taken) Error() string {
	return t.what + " is there and was made by somebody else: it is left as it is, and gives what it gives; " +
		"delete it to have the one of the workspace"
}

// or returns the one of two taken names to report: of several always the same,
// regardless of their order. t may be nil.
func (t *taken) or(what string) *taken {
	if t != nil && t.what < what {
		return t
	}
	return &taken{what}
}

// settle makes roles first, then bindings, and removes what is no longer desired in the
// opposite order. An object of another owner under a desired name is left alone, and
// named in the error when all else is done.
func (s *ownedKinds) settle(ctx context.Context, want, live plan.Rights) error {
	var other *taken
	for _, err := range []error{
		s.roles.put(ctx, want.ClusterRoles, live.ClusterRoles, &other),
		s.everywhere.put(ctx, want.ClusterRoleBindings, live.ClusterRoleBindings, &other),
		s.bindings.put(ctx, want.RoleBindings, live.RoleBindings, &other),
		s.bindings.drop(ctx, want.RoleBindings, live.RoleBindings),
		s.everywhere.drop(ctx, want.ClusterRoleBindings, live.ClusterRoleBindings),
		s.roles.drop(ctx, want.ClusterRoles, live.ClusterRoles),
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

// put creates and repairs the desired objects.
func (s *ownedKind[P]) put(ctx context.Context, want, live []P, other **taken) error {
	have := byKey(live)
	for _, w := range want {
		if l, ok := have[kube.KeyOf(w)]; ok {
			if err := s.repair(ctx, l, w); err != nil {
				return err
			}
			continue
		}
		made, err := s.make(ctx, w)
		if err == nil && !made {
			err = s.adoptExisting(ctx, w, other)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptExisting handles an existing object with a desired name that was not seen
// before.
func (s *ownedKind[P]) adoptExisting(ctx context.Context, want P, other **taken) error {
	live, err := s.store.Get(ctx, kube.KeyOf(want))
	if err != nil {
		return err // it is gone meanwhile: once more
	}
	if plan.Ours(live, want) && !plan.Rancherly(s.mode, live.GetAnnotations()) {
		return s.repair(ctx, live, want)
	}
	if !s.gives(live, want) {
		*other = (*other).or(fmt.Sprintf("%s %q", s.kind, kube.KeyOf(want)))
	}
	return nil
}

// gives reports whether an object that is not ours grants what is desired.
func (s *ownedKind[P]) gives(live, want P) bool {
	like, ok := live.DeepCopyObject().(P)
	if !ok {
		return false
	}
	like.SetLabels(want.GetLabels())
	like.SetOwnerReferences(want.GetOwnerReferences())
	_, deed := s.mend(like, want)
	return deed == plan.Fits
}

// make makes an object; false: there is one of its name. A namespace that is going
// needs none.
func (s *ownedKind[P]) make(ctx context.Context, want P) (bool, error) {
	_, err := s.store.Create(ctx, want)
	switch {
	case err == nil, kube.IsTerminating(err), kube.IsGone(err):
		return true, nil
	case kube.IsExists(err):
		return false, nil
	}
	return false, fmt.Errorf("give rights: %w", err)
}

// repair brings an object in line with what it should be.
func (s *ownedKind[P]) repair(ctx context.Context, live, want P) error {
	changed, deed := s.mend(live, want)
	switch deed {
	case plan.Mend:
		_, err := s.store.Patch(ctx, live, changed)
		return err
	case plan.Remake:
		if err := s.store.Delete(ctx, kube.KeyOf(live), exact(live)); err != nil {
			return err
		}
		if _, err := s.store.Create(ctx, want); err != nil && !kube.IsExists(err) {
			return fmt.Errorf("give rights: %w", err)
		}
	}
	return nil
}

// drop removes what is there and not wanted.
func (s *ownedKind[P]) drop(ctx context.Context, want, live []P) error {
	keep := byKey(want)
	for _, l := range live {
		if _, ok := keep[kube.KeyOf(l)]; ok || l.GetDeletionTimestamp() != nil {
			continue
		}
		if err := s.store.Delete(ctx, kube.KeyOf(l), exact(l)); err != nil {
			return err
		}
	}
	return nil
}

func byKey[P kube.Object](list []P) map[kube.Key]P {
	out := make(map[kube.Key]P, len(list))
	for _, o := range list {
		out[kube.KeyOf(o)] = o
	}
	return out
}

// exact limits a deletion to the object that was looked at, as it was.
func exact(o kube.Object) kube.Precondition {
	return kube.Precondition{UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

// stripRights keeps of a role or a binding who it is, whose it is, and what it
// gives.
func stripRights(m metav1.Object) { m.SetAnnotations(nil) }

// A sayer reports each problem once, for as long as it lasts.
type sayer struct {
	log    *logrus.Entry
	events *kube.Recorder
	key    string   // of the object's name in logs; empty: the text has it
	said   sync.Map // of each object, by its UID: what was said last
}

// say reports what is wrong with an object.
func (s *sayer) say(o kube.Object, reason, text string) {
	if was, ok := s.said.Swap(o.GetUID(), text); ok && was == text {
		return
	}
	s.events.Event(o, kube.Warning, reason, text)
	log := s.log.WithField("reason", reason)
	if s.key != "" {
		log = log.WithField(s.key, o.GetName())
	}
	log.Warn(text)
}

// silent forgets what was said of an object, when it is well again or gone.
func (s *sayer) silent(o kube.Object) { s.said.Delete(o.GetUID()) }
