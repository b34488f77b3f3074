package agentmanagement

import (
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// podsGoing is how long the pods of an agent that moves are waited for before it
// is looked again.
const podsGoing = 2 * time.Second

// downstream is a cluster that an agent is installed in, through a kubeconfig. It marks
// what it writes, and neither changes nor deletes objects without that mark.
type downstream struct {
	client *kube.Client
	mark   clusterimport.Mark
	// issued is the Cluster for whose agent an account was made; empty: none's.
	issued func(context.Context, clusterimport.Account) (string, error)

	secrets     *kube.Store[*corev1.Secret]
	namespaces  *kube.Store[*corev1.Namespace]
	pods        *kube.Store[*corev1.Pod]
	deployments *kube.Store[*appsv1.Deployment]
}

// dial is a connection to a cluster, which writes under the same names as c.
func dial(c *kube.Client, a kubeconfig.Access, m clusterimport.Mark, p kube.ImportPolicy) (*downstream, error) {
	own, err := kube.ConnectImported(kube.Config{UserAgent: c.REST().UserAgent, FieldManager: c.FieldManager()}, a, p, unreachableLimit)
	if err != nil {
		return nil, reconcile.TerminalError(kubeconfig.ReasonUnreadable, fmt.Errorf("use kubeconfig of %s: it cannot be used to connect", a.Server))
	}
	return downstreamOf(own, m), nil
}

// downstreamOf is the cluster of a connection.
func downstreamOf(own *kube.Client, m clusterimport.Mark) *downstream {
	return &downstream{
		client: own, mark: m, secrets: kube.StoreOf[*corev1.Secret](own),
		namespaces: kube.StoreOf[*corev1.Namespace](own), pods: kube.StoreOf[*corev1.Pod](own),
		deployments: kube.StoreOf[*appsv1.Deployment](own),
	}
}

// identity is the UID of the cluster: that of its namespace kube-system.
func (d *downstream) identity(ctx context.Context) (string, error) {
	n, err := d.namespaces.Get(ctx, kube.Key{Name: metav1.NamespaceSystem})
	if err != nil {
		return "", err
	}
	return string(n.UID), nil
}

// A thing is one object of an agent, of any kind.
type thing interface {
	// look reads what is there, and says whose that is if it must be left alone.
	look(ctx context.Context, m clusterimport.Mark, known bool) (foreign string, err error)
	// apply writes the object as desired, unless it was last applied like that.
	apply(ctx context.Context) error
	// remove deletes what look has found, if it is still that.
	remove(ctx context.Context) error
	// bears reports whether what look has found bears the label of a manager.
	bears(manager string) bool
	// optional reports whether an agent can do without it.
	optional() bool
	String() string
}

// object is a thing of one kind. look comes before apply and remove.
type object[P kube.Object] struct {
	kind       string
	store      *kube.Store[P]
	want, have P
	there      bool
}

func newObject[P kube.Object](c *kube.Client, kind string, want P) thing {
	return &object[P]{kind: kind, store: kube.StoreOf[P](c), want: want}
}

func (o *object[P]) String() string { return o.kind + " " + kube.KeyOf(o.want).String() }

// optional reports whether an agent can do without the object. A NetworkPolicy that lets
// agents out may exist already, or another owner decides which traffic is allowed.
func (o *object[P]) optional() bool { return o.kind == "NetworkPolicy" }

func (o *object[P]) look(ctx context.Context, m clusterimport.Mark, known bool) (string, error) {
	have, err := o.store.Get(ctx, kube.KeyOf(o.want))
	if kube.IsGone(err) {
		o.there = false
		return "", nil
	}
	if err != nil {
		return "", err
	}
	o.have, o.there = have, true
	return m.Foreign(have, known), nil
}

func (o *object[P]) apply(ctx context.Context) error {
	hash, err := registration.ObjectHash(o.want)
	if err != nil {
		return err
	}
	if o.there && o.have.GetAnnotations()[fleet.AnnotationInputHash] == hash {
		return nil
	}
	o.want.SetAnnotations(ensure.Merged(o.want.GetAnnotations(), map[string]string{fleet.AnnotationInputHash: hash}))
	_, err = o.store.Apply(ctx, o.want)
	return err
}

func (o *object[P]) remove(ctx context.Context) error {
	if !o.there {
		return nil
	}
	return o.store.Delete(ctx, kube.KeyOf(o.have), kube.Exactly(o.have))
}

func (o *object[P]) bears(manager string) bool {
	return o.there && o.have.GetLabels()[fleet.LabelManagerID] == manager
}

// things are the objects of an agent, in the order in which they are made.
func (d *downstream) things(a registration.Agent, adoptFrom string) ([]thing, error) {
	a.Labels = ensure.Merged(a.Labels, d.mark.Labels())
	objects, err := a.Objects()
	if err != nil {
		return nil, err
	}
	if adoptFrom != "" {
		objects.ConfigMap.Data = ensure.Merged(objects.ConfigMap.Data, map[string]string{registration.KeyAdoptFrom: adoptFrom})
	}
	var out []thing
	for _, o := range objects.List() {
		o.SetAnnotations(ensure.Merged(o.GetAnnotations(), d.mark.Annotations()))
		t, err := d.thing(o)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func (d *downstream) thing(o registration.Object) (thing, error) {
	switch o := o.(type) {
	case *corev1.ServiceAccount:
		return newObject(d.client, "ServiceAccount", o), nil
	case *rbacv1.ClusterRole:
		return newObject(d.client, "ClusterRole", o), nil
	case *rbacv1.ClusterRoleBinding:
		return newObject(d.client, "ClusterRoleBinding", o), nil
	case *networkingv1.NetworkPolicy:
		return newObject(d.client, "NetworkPolicy", o), nil
	case *corev1.ConfigMap:
		return newObject(d.client, "ConfigMap", o), nil
	case *schedulingv1.PriorityClass:
		return newObject(d.client, "PriorityClass", o), nil
	case *policyv1.PodDisruptionBudget:
		return newObject(d.client, "PodDisruptionBudget", o), nil
	case *appsv1.Deployment:
		return newObject(d.client, "Deployment", o), nil
	}
	return nil, fmt.Errorf("install the agent: a %T is none of its objects", o)
}

// survey looks at all objects of an agent, and returns those that may be written. If a
// required object belongs to another owner, that is a terminal error: then nothing has
// been written.
func (d *downstream) survey(ctx context.Context, in string, all []thing) ([]thing, error) {
	known, err := d.known(ctx, in)
	if err != nil {
		return nil, err
	}
	var ours []thing
	for _, t := range all {
		foreign, err := t.look(ctx, d.mark, known)
		switch {
		case err != nil:
			return nil, err
		case foreign == "":
			ours = append(ours, t)
		case !t.optional():
			return nil, reconcile.RequeueError(clusterimport.ReasonForeign, importRetry, fmt.Errorf(
				"install the agent: %s is there and %s; nothing was changed: remove that agent, or set agentNamespace", t, foreign))
		}
	}
	bootstrap, err := d.secrets.Get(ctx, kube.Key{Namespace: in, Name: fleet.SecretAgentBootstrap})
	if err == nil {
		if foreign := d.mark.Foreign(bootstrap, known); foreign != "" {
			return nil, reconcile.RequeueError(clusterimport.ReasonForeign, importRetry, fmt.Errorf(
				"install the agent: Secret %s is there and %s; nothing was changed", kube.KeyOf(bootstrap), foreign))
		}
	}
	return ours, kube.IgnoreGone(err)
}

// replace installs an agent in the place of any objects of this Cluster.
func (d *downstream) replace(ctx context.Context, o order, pull []*corev1.Secret) error {
	all, err := d.things(o.agent, o.from)
	if err != nil {
		return err
	}
	ours, err := d.survey(ctx, o.agent.Namespace, all)
	if err != nil {
		return err
	}
	if err := d.move(ctx, o); err != nil {
		return err
	}
	return d.make(ctx, o.agent.Namespace, ours, o.bootstrap, pull)
}

// make makes the namespace of an agent, its things, and what it registers with.
func (d *downstream) make(ctx context.Context, in string, ours []thing, b registration.Bootstrapping, pull []*corev1.Secret) error {
	if err := ensure.Namespace(ctx, d.namespaces, in, d.mark.Labels()); err != nil {
		return err
	}
	for _, s := range append(pull, d.bootstrap(in, b)) {
		if err := d.secret(ctx, s); err != nil {
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

// bootstrap is the Secret that an agent registers with.
func (d *downstream) bootstrap(in string, b registration.Bootstrapping) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in, Name: fleet.SecretAgentBootstrap,
			Labels: d.mark.Labels(), Annotations: d.mark.Annotations(),
		},
		Data: b.Data(),
	}
}

// secret writes a Secret, unless one of its name belongs to another owner: an image
// pull secret of that name is then taken to be the one that is meant.
func (d *downstream) secret(ctx context.Context, want *corev1.Secret) error {
	have, err := d.secrets.Get(ctx, kube.KeyOf(want))
	switch {
	case err != nil && !kube.IsGone(err):
		return err
	case err == nil && want.Name != fleet.SecretAgentBootstrap && d.mark.Foreign(have, false) != "":
		return nil
	}
	return ensure.Secret(ctx, d.secrets, want)
}

// move ends the agent that a Cluster had in another namespace. The error is
// reconcile.RequeueAfter while its pods are terminating.
func (d *downstream) move(ctx context.Context, o order) error {
	if o.from == "" {
		return nil
	}
	old := o.agent
	old.Namespace = o.from
	gone, err := d.leave(ctx, old)
	if err == nil && !gone {
		err = reconcile.RequeueError(fleet.ReasonProgressing, podsGoing, fmt.Errorf("move the agent: its pods in namespace %q are going", o.from))
	}
	return err
}

// leave removes the agent that a Cluster had in another namespace: first its workload,
// then its records, then its rights. It returns false while its pods are terminating.
// What the agent deployed stays.
func (d *downstream) leave(ctx context.Context, a registration.Agent) (bool, error) {
	known, err := d.known(ctx, a.Namespace)
	if err != nil {
		return false, err
	}
	all, err := d.things(a, "")
	if err != nil {
		return false, err
	}
	ours := map[thing]bool{}
	for _, t := range all {
		foreign, err := t.look(ctx, d.mark, known)
		if err != nil {
			return false, err
		}
		ours[t] = foreign == ""
	}
	last := all[len(all)-1] // the Deployment
	if !ours[last] {
		return true, nil // another agent runs there; its own objects stay
	}
	if err := last.remove(ctx); err != nil {
		return false, err
	}
	pods, err := d.pods.List(ctx, a.Namespace, "app="+fleet.SecretAgent)
	if err != nil || len(pods) > 0 {
		return false, err
	}
	// Its account is deleted last: while that exists and bears the mark, objects
	// without a mark were this agent's as well.
	known = known || ours[all[0]] && all[0].bears(d.mark.Manager)
	if err := d.forget(ctx, a, known); err != nil {
		return false, err
	}
	for i := len(all) - 2; i >= 0; i-- {
		if ours[all[i]] && !all[i].optional() { // others may depend on what it lets through
			if err := all[i].remove(ctx); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// pullSecrets are copies of the manager's image pull secrets for an agent of a
// Cluster that names none of its own.
func (l *importLoop) pullSecrets(ctx context.Context, c *fleet.Cluster, a registration.Agent, m clusterimport.Mark) ([]*corev1.Secret, error) {
	if c.Spec.AgentPullSecrets != nil {
		return nil, nil
	}
	var out []*corev1.Secret
	for _, name := range a.ImagePullSecrets {
		from, err := l.secrets.Get(ctx, kube.Key{Namespace: l.cfg.Namespace, Name: name})
		if err != nil {
			return nil, fmt.Errorf("image pull secret of the agent: %w", err)
		}
		out = append(out, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name, Labels: m.Labels(), Annotations: m.Annotations()},
			Type:       from.Type, Data: maps.Clone(from.Data),
		})
	}
	return out, nil
}
