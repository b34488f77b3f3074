// Package downstream installs agents in other clusters, through a connection with the
// rights of an administrator. It marks what it writes, and neither changes nor deletes
// objects without that mark.
package downstream

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// requestLimit is how long any request may take.
const requestLimit = 15 * time.Second

// A Cluster is one that an agent is installed in.
type Cluster struct {
	Client *kube.Client
	Mark   clusterimport.Mark
	// Issued is the Cluster for whose agent an account was made; empty: none's.
	Issued func(context.Context, clusterimport.Account) (string, error)

	secrets     *kube.Store[*corev1.Secret]
	namespaces  *kube.Store[*corev1.Namespace]
	pods        *kube.Store[*corev1.Pod]
	deployments *kube.Store[*appsv1.Deployment]
}

// Dial returns a connection to a cluster. It writes with the same field manager as c.
func Dial(c *kube.Client, a kubeconfig.Access, m clusterimport.Mark, p kube.ImportPolicy) (*Cluster, error) {
	own, err := kube.ConnectImported(kube.Config{UserAgent: c.REST().UserAgent, FieldManager: c.FieldManager()}, a, p, requestLimit)
	if err != nil {
		return nil, reconcile.TerminalError(kubeconfig.ReasonUnreadable, fmt.Errorf("use kubeconfig of %s: it cannot be used to connect", a.Server))
	}
	return New(own, m), nil
}

// New returns the cluster of an existing connection.
func New(own *kube.Client, m clusterimport.Mark) *Cluster {
	return &Cluster{
		Client: own, Mark: m, secrets: kube.StoreOf[*corev1.Secret](own),
		namespaces: kube.StoreOf[*corev1.Namespace](own), pods: kube.StoreOf[*corev1.Pod](own),
		deployments: kube.StoreOf[*appsv1.Deployment](own),
	}
}

// Identity returns the UID of the cluster: that of its namespace kube-system.
func (cl *Cluster) Identity(ctx context.Context) (string, error) {
	n, err := cl.namespaces.Get(ctx, kube.Key{Name: metav1.NamespaceSystem})
	if err != nil {
		return "", err
	}
	return string(n.UID), nil
}

// agentObjects returns the objects of an agent, in the order in which they are created.
func (cl *Cluster) agentObjects(a registration.Agent, adoptFrom string) ([]agentObject, error) {
	a.Labels = ensure.Merged(a.Labels, cl.Mark.Labels())
	objects, err := a.Objects()
	if err != nil {
		return nil, err
	}
	if adoptFrom != "" {
		objects.ConfigMap.Data = ensure.Merged(objects.ConfigMap.Data, map[string]string{registration.KeyAdoptFrom: adoptFrom})
	}
	var out []agentObject
	for _, o := range objects.List() {
		o.SetAnnotations(ensure.Merged(o.GetAnnotations(), cl.Mark.Annotations()))
		t, err := cl.agentObject(o)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// agentObject returns an object with its kind's functions.
func (cl *Cluster) agentObject(o registration.Object) (agentObject, error) {
	switch o := o.(type) {
	case *corev1.ServiceAccount:
		return newObject(cl.Client, "ServiceAccount", o), nil
	case *rbacv1.ClusterRole:
		return newObject(cl.Client, "ClusterRole", o), nil
	case *rbacv1.ClusterRoleBinding:
		return newObject(cl.Client, "ClusterRoleBinding", o), nil
	case *networkingv1.NetworkPolicy:
		return newObject(cl.Client, "NetworkPolicy", o), nil
	case *corev1.ConfigMap:
		return newObject(cl.Client, "ConfigMap", o), nil
	case *schedulingv1.PriorityClass:
		return newObject(cl.Client, "PriorityClass", o), nil
	case *policyv1.PodDisruptionBudget:
		return newObject(cl.Client, "PodDisruptionBudget", o), nil
	case *appsv1.Deployment:
		return newObject(cl.Client, "Deployment", o), nil
	}
	return nil, fmt.Errorf("install the agent: a %T is none of its objects", o)
}
