package local

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An installer installs agents in one cluster, with the rights of one token.
type installer struct {
	token string

	namespaces  *kube.Store[*corev1.Namespace]
	accounts    *kube.Store[*corev1.ServiceAccount]
	roles       *kube.Store[*rbacv1.ClusterRole]
	bindings    *kube.Store[*rbacv1.ClusterRoleBinding]
	policies    *kube.Store[*networkingv1.NetworkPolicy]
	configs     *kube.Store[*corev1.ConfigMap]
	classes     *kube.Store[*schedulingv1.PriorityClass]
	budgets     *kube.Store[*policyv1.PodDisruptionBudget]
	deployments *kube.Store[*appsv1.Deployment]
	secrets     *kube.Store[*corev1.Secret]
}

// newInstaller makes an installer that connects like own, with a token.
func newInstaller(own *kube.Client, token string) *installer {
	return &installer{
		token:      token,
		namespaces: kube.StoreOf[*corev1.Namespace](own), accounts: kube.StoreOf[*corev1.ServiceAccount](own),
		roles: kube.StoreOf[*rbacv1.ClusterRole](own), bindings: kube.StoreOf[*rbacv1.ClusterRoleBinding](own),
		policies: kube.StoreOf[*networkingv1.NetworkPolicy](own), configs: kube.StoreOf[*corev1.ConfigMap](own),
		classes: kube.StoreOf[*schedulingv1.PriorityClass](own), budgets: kube.StoreOf[*policyv1.PodDisruptionBudget](own),
		deployments: kube.StoreOf[*appsv1.Deployment](own), secrets: kube.StoreOf[*corev1.Secret](own),
	}
}

// install applies the objects of an agent that are missing or were applied
// otherwise, and removes what an earlier one of it had and this one has not.
//
// wrangler's apply is not used for this. It marks each object with labels and annotations of
// its own, one of them with the desired object, and changes an object back whenever that
// differs. Here a user may scale the agent to zero until the desired object changes, an
// object with the mark of another manager is refused, and server-side apply decides who
// owns a field: the agent later applies the same objects itself.
func (i *installer) install(ctx context.Context, a registration.Agent) error {
	o, err := a.Objects()
	if err != nil {
		return err
	}
	if err := ensure.Namespace(ctx, i.namespaces, a.Namespace, a.Labels); err != nil {
		return err
	}
	for _, apply := range []func() error{
		func() error { return applyOnce(ctx, i.accounts, o.ServiceAccount) },
		func() error { return applyOnce(ctx, i.roles, o.ClusterRole) },
		func() error { return applyOnce(ctx, i.bindings, o.ClusterRoleBinding) },
		func() error { return applyOnce(ctx, i.policies, o.NetworkPolicy) },
		func() error { return applyOnce(ctx, i.configs, o.ConfigMap) },
		func() error { return applyIfAny(ctx, i.classes, o.PriorityClass, o.PriorityClass != nil) },
		func() error { return applyIfAny(ctx, i.budgets, o.Budget, o.Budget != nil) },
		func() error { return applyOnce(ctx, i.deployments, o.Deployment) },
		func() error { return i.deleteSuperfluous(ctx, a, o, appliedHere) },
	} {
		if err := apply(); err != nil {
			return err
		}
	}
	return nil
}

// deleteSuperfluous deletes the optional objects of an agent that this manager made and
// that o does not contain, if goes permits it.
func (i *installer) deleteSuperfluous(ctx context.Context, a registration.Agent, o registration.AgentObjects, goes func(kube.Object) bool) error {
	id := a.Labels[fleet.LabelManagerID]
	budget, class := o.OptionalNames()
	err := downstream.Discard(ctx, i.budgets, a.Namespace, id, budget, func(b *policyv1.PodDisruptionBudget) bool { return goes(b) })
	if err != nil {
		return err
	}
	return downstream.Discard(ctx, i.classes, "", id, class, func(c *schedulingv1.PriorityClass) bool { return a.HasHad(c) && goes(c) })
}

// appliedHere reports whether an installer has applied an object last. An object that
// the agent has deployed since then belongs to the agent's own release.
func appliedHere(o kube.Object) bool {
	has := o.GetAnnotations()
	return has[fleet.AnnotationInputHash] != "" && has[fleet.AnnotationHelmRelease] == ""
}

// remove deletes the objects of an agent that this manager has made: first the
// workload, then its rights, then its bootstrap Secret. The agent's releases and
// records stay.
func (i *installer) remove(ctx context.Context, a registration.Agent) error {
	o, err := a.Objects()
	if err != nil {
		return err
	}
	id := a.Labels[fleet.LabelManagerID]
	bootstrap := kube.Key{Namespace: a.Namespace, Name: fleet.SecretAgentBootstrap}
	for _, remove := range []func() error{
		func() error { return removeOwn(ctx, i.deployments, kube.KeyOf(o.Deployment), id) },
		func() error {
			return i.deleteSuperfluous(ctx, a, registration.AgentObjects{}, func(kube.Object) bool { return true })
		},
		func() error { return removeOwn(ctx, i.bindings, kube.KeyOf(o.ClusterRoleBinding), id) },
		func() error { return removeOwn(ctx, i.roles, kube.KeyOf(o.ClusterRole), id) },
		func() error { return removeOwn(ctx, i.accounts, kube.KeyOf(o.ServiceAccount), id) },
		func() error { return removeOwn(ctx, i.configs, kube.KeyOf(o.ConfigMap), id) },
		func() error { return removeOwn(ctx, i.secrets, bootstrap, id) },
	} {
		if err := remove(); err != nil {
			return err
		}
	}
	return nil
}

// applyOnce applies an object unless the same object was applied last. Users' changes
// stay until the desired object changes: a user may scale the agent to zero to stop it.
func applyOnce[P kube.Object](ctx context.Context, store *kube.Store[P], want P) error {
	hash, err := registration.ObjectHash(want)
	if err != nil {
		return err
	}
	have, err := store.Get(ctx, kube.KeyOf(want))
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if err == nil {
		if err := refuseForeign(have, want); err != nil {
			return err
		}
		if have.GetAnnotations()[fleet.AnnotationInputHash] == hash {
			return nil
		}
	}
	want.SetAnnotations(ensure.Merged(want.GetAnnotations(), map[string]string{fleet.AnnotationInputHash: hash}))
	_, err = store.Apply(ctx, want)
	return err
}

// refuseForeign returns an error for an object with the mark of another manager.
func refuseForeign(have, want kube.Object) error {
	other := have.GetLabels()[fleet.LabelManagerID]
	if other == "" || other == want.GetLabels()[fleet.LabelManagerID] {
		return nil
	}
	return reconcile.TerminalError(reasonForeignAgent, fmt.Errorf(
		"install the agent: %s belongs to another manager, with the id %q: choose another namespace for the agent", kube.KeyOf(have), other))
}

// reasonForeignAgent is why an agent is not installed: another manager's is there.
const reasonForeignAgent = "ForeignAgent"

// applyIfAny applies an object that not every agent has; there reports whether this one
// has it.
func applyIfAny[P kube.Object](ctx context.Context, store *kube.Store[P], want P, there bool) error {
	if !there {
		return nil
	}
	return applyOnce(ctx, store, want)
}

// removeOwn deletes an object that has the mark of the manager id.
func removeOwn[P kube.Object](ctx context.Context, store *kube.Store[P], key kube.Key, id string) error {
	have, err := store.Get(ctx, key)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil || have.GetLabels()[fleet.LabelManagerID] != id {
		return err
	}
	return store.Delete(ctx, key, kube.Exactly(have))
}
