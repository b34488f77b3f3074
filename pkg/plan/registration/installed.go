package registration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Installed is the content of the ConfigMap and the Secret of an agent about the
// cluster that it runs in.
type Installed struct {
	// ClientIDs are the identities that an agent there may give.
	ClientIDs []string
	// Cluster is the one that it has registered as; empty: none.
	Cluster types.NamespacedName
}

// ReadInstalled reads the ConfigMap and the Secret of an agent; either may be nil. uid is
// that of the namespace kube-system beside them, the identity of an agent that is
// configured with none.
func ReadInstalled(config *corev1.ConfigMap, secret *corev1.Secret, uid string) Installed {
	i := Installed{ClientIDs: []string{uid}}
	if config != nil {
		var c AgentConfig
		if yaml.Unmarshal([]byte(config.Data[fleet.KeyConfig]), &c) == nil && c.ClientID != "" {
			i.ClientIDs = append(i.ClientIDs, c.ClientID)
		}
	}
	if secret != nil {
		i.Cluster = types.NamespacedName{Namespace: string(secret.Data["clusterNamespace"]), Name: string(secret.Data["clusterName"])}
	}
	return i
}

// JoinedAs returns the Cluster that an installed agent checks in as, if it is not the
// wanted one, or nil. Clusters with another clientID belong to another manager, or were
// deleted and created again.
func (i Installed) JoinedAs(clusters []*fleet.Cluster, wanted types.NamespacedName) *fleet.Cluster {
	at := slices.IndexFunc(clusters, func(c *fleet.Cluster) bool {
		other := c.Namespace != wanted.Namespace || c.Name != wanted.Name
		return other && c.Spec.ClientID != "" && slices.Contains(i.ClientIDs, c.Spec.ClientID)
	})
	if at < 0 {
		return nil
	}
	return clusters[at]
}
