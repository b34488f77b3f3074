package downstream

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An Order is what an installation makes.
type Order struct {
	Agent     registration.Agent
	Bootstrap registration.Bootstrapping
	From      string // namespace of the agent before; empty: there was none elsewhere
}

// writableObjects reads all objects of an agent, and returns those that may be written.
// If another owner has a required object, it returns a terminal error before anything
// is written.
func (cl *Cluster) writableObjects(ctx context.Context, namespace string, all []agentObject) ([]agentObject, error) {
	known, err := cl.isOwnAgent(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var ours []agentObject
	for _, t := range all {
		foreign, err := t.readOwner(ctx, cl.Mark, known)
		switch {
		case err != nil:
			return nil, err
		case foreign == "":
			ours = append(ours, t)
		case !t.optional():
			return nil, reconcile.RequeueError(clusterimport.ReasonForeign, Retry, fmt.Errorf(
				"install the agent: %s is there and %s; nothing was changed: remove that agent, or set agentNamespace", t, foreign))
		}
	}
	bootstrap, err := cl.secrets.Get(ctx, kube.Key{Namespace: namespace, Name: fleet.SecretAgentBootstrap})
	if err == nil {
		if foreign := cl.Mark.ForeignOwner(bootstrap, known); foreign != "" {
			return nil, reconcile.RequeueError(clusterimport.ReasonForeign, Retry, fmt.Errorf(
				"install the agent: Secret %s is there and %s; nothing was changed", kube.KeyOf(bootstrap), foreign))
		}
	}
	return ours, kube.IgnoreGone(err)
}

// Replace installs an agent in the place of any objects of this Cluster.
func (cl *Cluster) Replace(ctx context.Context, o Order, pull []*corev1.Secret) error {
	all, err := cl.agentObjects(o.Agent, o.From)
	if err != nil {
		return err
	}
	ours, err := cl.writableObjects(ctx, o.Agent.Namespace, all)
	if err != nil {
		return err
	}
	if err := cl.Move(ctx, o); err != nil {
		return err
	}
	return cl.createObjects(ctx, o.Agent.Namespace, ours, o.Bootstrap, pull)
}

// createObjects creates the namespace of an agent, its objects, and its bootstrap
// Secret.
func (cl *Cluster) createObjects(ctx context.Context, namespace string, ours []agentObject, b registration.Bootstrapping, pull []*corev1.Secret) error {
	if err := ensure.Namespace(ctx, cl.namespaces, namespace, cl.Mark.Labels()); err != nil {
		return err
	}
	for _, s := range append(pull, cl.bootstrap(namespace, b)) {
		if err := cl.writeSecret(ctx, s); err != nil {
			return err
		}
	}
	for _, t := range ours {
		if err := t.apply(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bootstrap returns the Secret that an agent registers with.
func (cl *Cluster) bootstrap(namespace string, b registration.Bootstrapping) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fleet.SecretAgentBootstrap,
			Labels: cl.Mark.Labels(), Annotations: cl.Mark.Annotations(),
		},
		Data: b.Data(),
	}
}

// writeSecret writes a Secret, unless another owner has one of this name. Then it
// assumes that this is the image pull secret which is meant.
func (cl *Cluster) writeSecret(ctx context.Context, want *corev1.Secret) error {
	have, err := cl.secrets.Get(ctx, kube.KeyOf(want))
	switch {
	case err != nil && !kube.IsGone(err):
		return err
	case err == nil && want.Name != fleet.SecretAgentBootstrap && cl.Mark.ForeignOwner(have, false) != "":
		return nil
	}
	return ensure.Secret(ctx, cl.secrets, want)
}

// Reapply applies the objects of an agent, and removes objects that the agent does not
// have any more.
func (cl *Cluster) Reapply(ctx context.Context, a registration.Agent, adoptFrom string) error {
	all, err := cl.agentObjects(a, adoptFrom)
	if err != nil {
		return err
	}
	ours, err := cl.writableObjects(ctx, a.Namespace, all)
	if err != nil {
		return err
	}
	for _, t := range ours {
		if err := t.apply(ctx); err != nil {
			return err
		}
	}
	o, err := a.Objects()
	if err != nil {
		return err
	}
	budget, class := o.OptionalNames()
	err = Discard(ctx, kube.StoreOf[*policyv1.PodDisruptionBudget](cl.Client), a.Namespace, cl.Mark.Manager, budget,
		func(b *policyv1.PodDisruptionBudget) bool { return cl.isMadeForCluster(b) })
	if err != nil {
		return err
	}
	return Discard(ctx, kube.StoreOf[*schedulingv1.PriorityClass](cl.Client), "", cl.Mark.Manager, class,
		func(c *schedulingv1.PriorityClass) bool { return cl.isMadeForCluster(c) })
}

// isMadeForCluster reports whether an object was made for the agent of this Cluster.
func (cl *Cluster) isMadeForCluster(o kube.Object) bool {
	has := o.GetAnnotations()
	for key, value := range cl.Mark.Annotations() {
		if has[key] != value {
			return false
		}
	}
	return true
}

// Discard deletes the objects of one kind that have the label of a manager and that
// goes accepts, except the one named keep.
func Discard[P kube.Object](ctx context.Context, store *kube.Store[P], namespace, manager, keep string, goes func(P) bool) error {
	list, err := store.List(ctx, namespace, fleet.LabelManagerID+"="+manager)
	if err != nil {
		return err
	}
	for _, o := range list {
		if o.GetName() == keep || !goes(o) {
			continue
		}
		if err := store.Delete(ctx, kube.KeyOf(o), kube.Exactly(o)); err != nil {
			return err
		}
	}
	return nil
}
