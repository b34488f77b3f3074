package agentmanagement

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Indexes of the caches. Values are keys in the form of kube.Key.String.
const (
	byClient  = "client"  // Clusters and requests: namespace/clientID
	byCluster = "cluster" // requests: namespace/clusterName; namespaces: the Cluster they belong to
	byToken   = "token"   // requests: namespace/token
	byRequest = "request" // what was made for a request
	byUnseen  = "unseen"  // Clusters that no agent has worked for: namespace
)

type (
	meta      = metav1.PartialObjectMetadata
	metaCache = kube.Cache[*meta]
)

// caches are what the manager sees of the cluster: Fleet's own small kinds, and
// what this manager made, as little of each as is read.
type caches struct {
	clusters   *kube.Cache[*fleet.Cluster]
	requests   *kube.Cache[*fleet.ClusterRegistration]
	tokens     *kube.Cache[*fleet.ClusterRegistrationToken]
	namespaces *metaCache // those of Clusters

	accounts        *kube.Cache[*corev1.ServiceAccount]
	roles           *kube.Cache[*rbacv1.Role]
	bindings        *kube.Cache[*rbacv1.RoleBinding]
	clusterBindings *kube.Cache[*rbacv1.ClusterRoleBinding]

	accountTokens *metaCache // Secrets with tokens of accounts
	values        *metaCache // Secrets of registration tokens
	credentials   *metaCache // Secrets handed over to agents
}

func newCaches(c *kube.Client, cfg Config) *caches {
	own := managed + "," + fleet.LabelManagerID + "=" + cfg.Installation.ID
	secrets := func(namespace, kind string) *metaCache {
		return kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"),
			kube.Watch{Namespace: namespace, Labels: own, Fields: "type=" + kind}, stripMeta)
	}
	v := &caches{
		clusters: kube.NewCache(c, kube.Watch{}, stripCluster),
		requests: kube.NewCache[*fleet.ClusterRegistration](c, kube.Watch{}, nil),
		tokens:   kube.NewCache[*fleet.ClusterRegistrationToken](c, kube.Watch{}, nil),
		namespaces: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
			kube.Watch{Labels: managed}, stripMeta),
		accounts:        kube.NewCache[*corev1.ServiceAccount](c, kube.Watch{Labels: own}, nil),
		roles:           kube.NewCache[*rbacv1.Role](c, kube.Watch{Labels: own}, nil),
		bindings:        kube.NewCache[*rbacv1.RoleBinding](c, kube.Watch{Labels: own}, nil),
		clusterBindings: kube.NewCache[*rbacv1.ClusterRoleBinding](c, kube.Watch{Labels: own}, nil),
		accountTokens:   secrets("", string(corev1.SecretTypeServiceAccountToken)),
		values:          secrets("", fleet.SecretTypeRegistrationValues),
		credentials:     secrets(cfg.system().RegistrationNamespace(), fleet.SecretTypeAgentCredential),
	}
	v.index()
	return v
}

func (v *caches) index() {
	v.clusters.Index(byClient, func(c *fleet.Cluster) []string {
		return []string{clientKey(c.Namespace, c.Spec.ClientID)}
	})
	v.clusters.Index(byUnseen, func(c *fleet.Cluster) []string {
		if !registration.Unseen(c) {
			return nil
		}
		return []string{c.Namespace}
	})
	v.requests.Index(byClient, func(r *fleet.ClusterRegistration) []string {
		return []string{clientKey(r.Namespace, r.Spec.ClientID)}
	})
	v.requests.Index(byCluster, func(r *fleet.ClusterRegistration) []string {
		return []string{kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName}.String()}
	})
	v.requests.Index(byToken, func(r *fleet.ClusterRegistration) []string {
		return []string{kube.Key{Namespace: r.Namespace, Name: r.Labels[fleet.LabelRegistrationToken]}.String()}
	})
	v.namespaces.Index(byCluster, func(n *meta) []string { return []string{registration.NamespaceOwner(n)} })
	v.accounts.Index(byRequest, func(a *corev1.ServiceAccount) []string { return requestOf(a) })
	v.bindings.Index(byRequest, func(b *rbacv1.RoleBinding) []string { return requestOf(b) })
	v.clusterBindings.Index(byRequest, func(b *rbacv1.ClusterRoleBinding) []string { return requestOf(b) })
	v.credentials.Index(byRequest, func(s *meta) []string { return requestOf(s) })
}

func (v *caches) parts() []kube.Runner {
	return []kube.Runner{
		v.clusters, v.requests, v.tokens, v.namespaces, v.accounts, v.roles, v.bindings, v.clusterBindings,
		v.accountTokens, v.values, v.credentials,
	}
}

// clientKey is the index value of a clientID in a workspace.
func clientKey(namespace, clientID string) string {
	return kube.Key{Namespace: namespace, Name: clientID}.String()
}

// requestOf is the index value of what was made for a request.
func requestOf(o metav1.Object) []string {
	namespace, name, ok := registration.RequestOf(o)
	if !ok {
		return nil
	}
	return []string{kube.Key{Namespace: namespace, Name: name}.String()}
}

// stripCluster leaves what this manager reads of a Cluster. The conditions stay
// whole: a patch of one replaces the list.
func stripCluster(c *fleet.Cluster) {
	dropLastApplied(c)
	c.Spec = fleet.ClusterSpec{
		ClientID: c.Spec.ClientID, KubeConfigSecret: c.Spec.KubeConfigSecret, AgentNamespace: c.Spec.AgentNamespace,
		CheckIn: c.Spec.CheckIn,
		Paused:  c.Spec.Paused, AgentEnvVars: c.Spec.AgentEnvVars, AgentTolerations: c.Spec.AgentTolerations,
		AgentAffinity: c.Spec.AgentAffinity, AgentResources: c.Spec.AgentResources, HostNetwork: c.Spec.HostNetwork,
		AgentSchedulingCustomization: c.Spec.AgentSchedulingCustomization, AgentPullSecrets: c.Spec.AgentPullSecrets,
		PrivateRepoURL: c.Spec.PrivateRepoURL, KubeConfigSecretNamespace: c.Spec.KubeConfigSecretNamespace,
		RedeployAgentGeneration: c.Spec.RedeployAgentGeneration,
	}
	st := c.Status
	c.Status = fleet.ClusterStatus{
		Namespace: st.Namespace, Conditions: st.Conditions, Scheduled: st.Scheduled, ActiveSchedule: st.ActiveSchedule,
		Summary:          fleet.BundleSummary{Ready: st.Summary.Ready, DesiredReady: st.Summary.DesiredReady},
		AgentEnvVarsHash: st.AgentEnvVarsHash, AgentTolerationsHash: st.AgentTolerationsHash, AgentAffinityHash: st.AgentAffinityHash,
		AgentResourcesHash: st.AgentResourcesHash, AgentSchedulingCustomizationHash: st.AgentSchedulingCustomizationHash,
		AgentPrivateRepoURL: st.AgentPrivateRepoURL, AgentHostNetwork: st.AgentHostNetwork,
		AgentDeployedGeneration: st.AgentDeployedGeneration, AgentMigrated: st.AgentMigrated,
		AgentNamespaceMigrated: st.AgentNamespaceMigrated, CattleNamespaceMigrated: st.CattleNamespaceMigrated,
		AgentConfigChanged: st.AgentConfigChanged, APIServerURL: st.APIServerURL, APIServerCAHash: st.APIServerCAHash, AgentTLSMode: st.AgentTLSMode,
		Agent: fleet.AgentStatus{
			Namespace: st.Agent.Namespace, Version: st.Agent.Version, NextCheckIn: st.Agent.NextCheckIn,
			LastSeen: metav1.NewTime(credential.Heartbeat(c)), Instance: c.Status.Agent.Instance, Credential: c.Status.Agent.Credential,
		},
	}
}

func stripMeta(m *meta) { dropLastApplied(m) }

func dropLastApplied(o metav1.Object) {
	delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
}

// clusterChanges reports whether a change of a Cluster matters to this manager. The
// agent's sign of life does not.
func clusterChanges(old, changed *fleet.Cluster) bool {
	if old == nil || changed == nil {
		return true
	}
	return old.Generation != changed.Generation ||
		!old.DeletionTimestamp.Equal(changed.DeletionTimestamp) ||
		old.Status.Namespace != changed.Status.Namespace ||
		!sameMaps(old.Labels, changed.Labels) || !sameMaps(old.Annotations, changed.Annotations) ||
		len(old.Finalizers) != len(changed.Finalizers) ||
		old.Status.Agent.Credential != changed.Status.Agent.Credential ||
		!sameProcessed(old.Status.Conditions, changed.Status.Conditions)
}
