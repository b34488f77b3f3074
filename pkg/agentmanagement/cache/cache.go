// Package cache has the caches that several loops of agent management share, with their
// indexes.
package cache

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Indexes of the caches. Values are keys in the form of kube.Key.String.
const (
	ByClient  = "client"  // Clusters and requests: namespace/clientID
	ByCluster = "cluster" // requests: namespace/clusterName; namespaces: the Cluster they belong to
	ByToken   = "token"   // requests: namespace/token
	ByRequest = "request" // what was made for a request
	ByUnseen  = "unseen"  // Clusters that no agent has worked for: namespace
)

// Managed selects what Fleet made and may clean up.
const Managed = fleet.LabelManaged + "=" + registration.True

type (
	// Meta is the metadata of an object of any kind.
	Meta = metav1.PartialObjectMetadata
	// MetaCache is a cache of metadata.
	MetaCache = kube.Cache[*Meta]
)

// Shared are the caches of agent management: Fleet's own small kinds, and what this
// manager made, as little of each as is read.
type Shared struct {
	Clusters   *kube.Cache[*fleet.Cluster]
	Requests   *kube.Cache[*fleet.ClusterRegistration]
	Tokens     *kube.Cache[*fleet.ClusterRegistrationToken]
	Namespaces *MetaCache // those of Clusters

	Accounts        *kube.Cache[*corev1.ServiceAccount]
	Roles           *kube.Cache[*rbacv1.Role]
	Bindings        *kube.Cache[*rbacv1.RoleBinding]
	ClusterBindings *kube.Cache[*rbacv1.ClusterRoleBinding]

	AccountTokens *MetaCache // Secrets with tokens of accounts
	Values        *MetaCache // Secrets of registration tokens
	Credentials   *MetaCache // Secrets handed over to agents
}

// New makes the caches of a manager; they are filled while they run.
func New(c *kube.Client, system registration.System) *Shared {
	own := Managed + "," + fleet.LabelManagerID + "=" + system.ManagerID
	secrets := func(namespace, kind string) *MetaCache {
		return kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"),
			kube.Watch{Namespace: namespace, Labels: own, Fields: "type=" + kind}, StripMeta)
	}
	v := &Shared{
		Clusters: kube.NewCache(c, kube.Watch{}, stripCluster),
		Requests: kube.NewCache[*fleet.ClusterRegistration](c, kube.Watch{}, nil),
		Tokens:   kube.NewCache[*fleet.ClusterRegistrationToken](c, kube.Watch{}, nil),
		Namespaces: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
			kube.Watch{Labels: Managed}, StripMeta),
		Accounts:        kube.NewCache[*corev1.ServiceAccount](c, kube.Watch{Labels: own}, nil),
		Roles:           kube.NewCache[*rbacv1.Role](c, kube.Watch{Labels: own}, nil),
		Bindings:        kube.NewCache[*rbacv1.RoleBinding](c, kube.Watch{Labels: own}, nil),
		ClusterBindings: kube.NewCache[*rbacv1.ClusterRoleBinding](c, kube.Watch{Labels: own}, nil),
		AccountTokens:   secrets("", string(corev1.SecretTypeServiceAccountToken)),
		Values:          secrets("", fleet.SecretTypeRegistrationValues),
		Credentials:     secrets(system.RegistrationNamespace(), fleet.SecretTypeAgentCredential),
	}
	v.index()
	return v
}

// index adds the indexes to the caches.
func (sh *Shared) index() {
	sh.Clusters.Index(ByClient, func(c *fleet.Cluster) []string {
		return []string{ClientKey(c.Namespace, c.Spec.ClientID)}
	})
	sh.Clusters.Index(ByUnseen, func(c *fleet.Cluster) []string {
		if !registration.NeverHadAgent(c) {
			return nil
		}
		return []string{c.Namespace}
	})
	sh.Requests.Index(ByClient, func(r *fleet.ClusterRegistration) []string {
		return []string{ClientKey(r.Namespace, r.Spec.ClientID)}
	})
	sh.Requests.Index(ByCluster, func(r *fleet.ClusterRegistration) []string {
		return []string{kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName}.String()}
	})
	sh.Requests.Index(ByToken, func(r *fleet.ClusterRegistration) []string {
		return []string{kube.Key{Namespace: r.Namespace, Name: r.Labels[fleet.LabelRegistrationToken]}.String()}
	})
	sh.Namespaces.Index(ByCluster, func(n *Meta) []string { return []string{registration.NamespaceOwner(n)} })
	sh.Accounts.Index(ByRequest, func(a *corev1.ServiceAccount) []string { return RequestOf(a) })
	sh.Bindings.Index(ByRequest, func(b *rbacv1.RoleBinding) []string { return RequestOf(b) })
	sh.ClusterBindings.Index(ByRequest, func(b *rbacv1.ClusterRoleBinding) []string { return RequestOf(b) })
	sh.Credentials.Index(ByRequest, func(s *Meta) []string { return RequestOf(s) })
}

// Runnables returns the caches, for kube.Run.
func (sh *Shared) Runnables() []kube.Runner {
	return []kube.Runner{
		sh.Clusters, sh.Requests, sh.Tokens, sh.Namespaces, sh.Accounts, sh.Roles, sh.Bindings, sh.ClusterBindings,
		sh.AccountTokens, sh.Values, sh.Credentials,
	}
}

// ClientKey is the index value of a clientID in a workspace.
func ClientKey(namespace, clientID string) string {
	return kube.Key{Namespace: namespace, Name: clientID}.String()
}

// RequestOf returns the index value of an object that was made for a
// ClusterRegistration.
func RequestOf(o metav1.Object) []string {
	namespace, name, ok := registration.RequestOf(o)
	if !ok {
		return nil
	}
	return []string{kube.Key{Namespace: namespace, Name: name}.String()}
}

// stripCluster keeps the fields of a Cluster that this manager reads. It keeps all
// conditions: a patch of one replaces the list.
func stripCluster(c *fleet.Cluster) {
	DropLastApplied(c)
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

// StripMeta keeps the metadata that the loops read.
func StripMeta(m *Meta) { DropLastApplied(m) }

// DropLastApplied drops the annotation with the last applied configuration of kubectl
// apply.
func DropLastApplied(o metav1.Object) {
	delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
}

// ClusterChanged reports whether a change of a Cluster matters to this manager. A
// heartbeat of the agent does not.
func ClusterChanged(old, changed *fleet.Cluster) bool {
	if old == nil || changed == nil {
		return true
	}
	return old.Generation != changed.Generation ||
		!old.DeletionTimestamp.Equal(changed.DeletionTimestamp) ||
		old.Status.Namespace != changed.Status.Namespace ||
		!maps.Equal(old.Labels, changed.Labels) || !maps.Equal(old.Annotations, changed.Annotations) ||
		len(old.Finalizers) != len(changed.Finalizers) ||
		old.Status.Agent.Credential != changed.Status.Agent.Credential ||
		!sameProcessed(old.Status.Conditions, changed.Status.Conditions)
}

// sameProcessed reports whether two lists have the same condition Processed.
func sameProcessed(a, b []fleet.Condition) bool {
	x, y := condition.Find(a, fleet.ConditionProcessed), condition.Find(b, fleet.ConditionProcessed)
	if x == nil || y == nil {
		return x == y
	}
	return *x == *y
}
