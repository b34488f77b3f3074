package agentmanagement

import (
	"bytes"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// source is a place where an object may be known without asking: a cache.
type source[P kube.Object] interface {
	Get(kube.Key) (P, bool)
}

// unseen is the source of objects whose content no cache holds.
type unseen[P kube.Object] struct{}

// Get returns nothing.
func (unseen[P]) Get(kube.Key) (none P, found bool) { return none, false }

// ensure creates an object, or updates an existing one to the desired state. copyOver
// copies what matters besides metadata from want into have. Without a difference
// nothing is sent.
func ensure[P kube.Object](ctx context.Context, known source[P], store *kube.Store[P], want P, copyOver func(have, want P)) error {
	have, ok := known.Get(kube.KeyOf(want))
	if !ok {
		_, err := store.Create(ctx, want)
		if !kube.IsExists(err) {
			return err
		}
		if have, err = store.Get(ctx, kube.KeyOf(want)); err != nil {
			return err
		}
	}
	changed := have.DeepCopyObject().(P)
	changed.SetLabels(merged(have.GetLabels(), want.GetLabels()))
	changed.SetAnnotations(merged(have.GetAnnotations(), want.GetAnnotations()))
	if refs := want.GetOwnerReferences(); len(refs) > 0 {
		changed.SetOwnerReferences(refs)
	}
	copyOver(changed, want)
	_, err := store.Patch(ctx, have, changed)
	return err
}

// copyNothing and its siblings copy what ensure copies besides metadata.
func copyNothing[P kube.Object](P, P)             {}
func copyRules(have, want *rbacv1.Role)           { have.Rules = want.Rules }
func copySubjects(have, want *rbacv1.RoleBinding) { have.Subjects = want.Subjects }
func copyClusterSubjects(have, want *rbacv1.ClusterRoleBinding) {
	have.Subjects = want.Subjects
}

// stores are the typed clients of what is granted, under one loop's name.
type stores struct {
	accounts        *kube.Store[*corev1.ServiceAccount]
	secrets         *kube.Store[*corev1.Secret]
	roles           *kube.Store[*rbacv1.Role]
	bindings        *kube.Store[*rbacv1.RoleBinding]
	clusterBindings *kube.Store[*rbacv1.ClusterRoleBinding]
}

func newStores(c *kube.Client) stores {
	return stores{
		accounts: kube.StoreOf[*corev1.ServiceAccount](c), secrets: kube.StoreOf[*corev1.Secret](c),
		roles: kube.StoreOf[*rbacv1.Role](c), bindings: kube.StoreOf[*rbacv1.RoleBinding](c),
		clusterBindings: kube.StoreOf[*rbacv1.ClusterRoleBinding](c),
	}
}

// account makes an account and the Secret for its token, and returns the token;
// it is empty until the API server has filled it in, which wakes the loop up.
func (s stores) account(ctx context.Context, v *caches, account *corev1.ServiceAccount, secret *corev1.Secret) ([]byte, error) {
	if err := ensure(ctx, v.accounts, s.accounts, account, copyNothing); err != nil {
		return nil, err
	}
	if err := s.accountToken(ctx, v, secret); err != nil {
		return nil, err
	}
	have, err := s.secrets.Get(ctx, kube.KeyOf(secret))
	if err != nil {
		return nil, err
	}
	return have.Data[corev1.ServiceAccountTokenKey], nil
}

// accountToken makes the Secret that the API server fills with the token of an account.
// One that the reference has made is adopted: the cache selects Secrets by our labels.
func (s stores) accountToken(ctx context.Context, v *caches, want *corev1.Secret) error {
	if _, ok := v.accountTokens.Get(kube.KeyOf(want)); ok {
		return nil
	}
	return ensure(ctx, unseen[*corev1.Secret]{}, s.secrets, want, copyNothing)
}

func (s stores) role(ctx context.Context, v *caches, want *rbacv1.Role) error {
	return ensure(ctx, v.roles, s.roles, want, copyRules)
}

func (s stores) binding(ctx context.Context, v *caches, want *rbacv1.RoleBinding) error {
	return ensure(ctx, v.bindings, s.bindings, want, copySubjects)
}

func (s stores) clusterBinding(ctx context.Context, v *caches, want *rbacv1.ClusterRoleBinding) error {
	return ensure(ctx, v.clusterBindings, s.clusterBindings, want, copyClusterSubjects)
}

// exactly is the precondition that an object is still the one that was seen.
func exactly(o metav1.Object) kube.Precondition { return kube.Precondition{UID: o.GetUID()} }

// merged returns have overlaid with want; have itself where that adds nothing.
func merged(have, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil && len(want) > 0 {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

func sameMaps(a, b map[string]string) bool { return maps.Equal(a, b) }

// sameProcessed compares what two lists say in the condition Processed.
func sameProcessed(a, b []fleet.Condition) bool {
	x, y := condition.Find(a, fleet.ConditionProcessed), condition.Find(b, fleet.ConditionProcessed)
	if x == nil || y == nil {
		return x == y
	}
	return *x == *y
}

// names lists objects for a log line, sorted.
func names[P kube.Object](objects []P) []string {
	var out []string
	for _, o := range objects {
		out = append(out, kube.KeyOf(o).String())
	}
	slices.Sort(out)
	return out
}

// either is the one of two that is there, the later before the earlier.
func either[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}

// ifGone calls f for objects that are deleted.
func ifGone[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if changed == nil {
			f(old)
		}
	}
}

// ifNew calls f for objects that come.
func ifNew[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if old == nil {
			f(changed)
		}
	}
}

// ifNewOrGone calls f for objects that come or go, not for those that change.
func ifNewOrGone[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if old == nil || changed == nil {
			f(either(old, changed))
		}
	}
}

// putSecret writes a Secret unless one with the same data is there.
func putSecret(ctx context.Context, secrets *kube.Store[*corev1.Secret], want *corev1.Secret) error {
	have, err := secrets.Get(ctx, kube.KeyOf(want))
	if kube.IsGone(err) {
		_, err = secrets.Create(ctx, want)
		return err
	}
	if err != nil {
		return err
	}
	changed := have.DeepCopy()
	changed.Labels = merged(have.Labels, want.Labels)
	if !maps.EqualFunc(have.Data, want.Data, bytes.Equal) {
		changed.Data = want.Data
	}
	_, err = secrets.Patch(ctx, have, changed)
	return err
}

// makeNamespace makes a namespace unless it is there.
func makeNamespace(ctx context.Context, namespaces *kube.Store[*corev1.Namespace], name string, labels map[string]string) error {
	if _, err := namespaces.Get(ctx, kube.Key{Name: name}); !kube.IsGone(err) {
		return err
	}
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	if kube.IsExists(err) {
		return nil
	}
	return err
}
