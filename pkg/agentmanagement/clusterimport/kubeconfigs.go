package clusterimport

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// look is the content of the Secret of a Cluster, with its version.
type look struct {
	version string
	offer   clusterimport.Offer
}

// kubeconfigs reads the Secrets that Clusters name.
type kubeconfigs struct {
	settings registration.Settings
	rancher  rancher.Reader
	secrets  *kube.Store[*corev1.Secret]
	known    *cache.MetaCache // Secrets that may hold kubeconfigs

	mu     sync.Mutex
	looked map[kube.Key]look // what Secrets say that have changed since the import
}

func newKubeconfigs(settings registration.Settings, r rancher.Reader, c *kube.Client) *kubeconfigs {
	return &kubeconfigs{
		settings: settings, rancher: r, secrets: kube.StoreOf[*corev1.Secret](c), looked: map[kube.Key]look{},
		// As gitjob watches Secrets: neither Helm releases nor tokens nor what Fleet
		// itself keeps in Secrets, and of the others who they are.
		known: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"), kube.Watch{
			Labels: fleet.LabelManaged + "!=" + registration.True,
			Fields: "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token",
		}, stripSecret),
	}
}

// stripSecret leaves the identity of a Secret.
func stripSecret(m *cache.Meta) {
	m.Labels, m.Annotations, m.OwnerReferences, m.Finalizers = nil, nil, nil, nil
}

// version returns the resourceVersion of the Secret that a Cluster names; empty if the
// cache has no such Secret.
func (k *kubeconfigs) version(c *fleet.Cluster) string {
	if s, ok := k.secretOf(c); ok {
		return clusterimport.VersionOf(s)
	}
	return ""
}

// secretOf returns the metadata of the Secret that a Cluster names.
func (k *kubeconfigs) secretOf(c *fleet.Cluster) (*cache.Meta, bool) {
	return k.known.Get(kube.Key{Namespace: clusterimport.NamespaceOfSecret(c), Name: c.Spec.KubeConfigSecret})
}

func (k *kubeconfigs) forget(key kube.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.looked, key)
}

// settingsOffer returns the address and the certificates that the settings give to
// agents.
func (k *kubeconfigs) settingsOffer() clusterimport.Offer {
	return clusterimport.Offer{URL: k.settings.APIServerURL, CA: k.settings.APIServerCA, TLSMode: k.settings.AgentTLSMode}
}

// offer returns the address and the certificates for the agent of a Cluster; nil if its
// Secret does not exist now, so that nothing new is known.
func (k *kubeconfigs) offer(ctx context.Context, c *fleet.Cluster, r *clusterimport.Record) (*clusterimport.Offer, error) {
	settings := k.settingsOffer()
	s, there := k.secretOf(c)
	if r == nil || !there {
		return nil, nil // an import reads the Secret in any case
	}
	version := clusterimport.VersionOf(s)
	if r.Secret == version && !r.FromSecret {
		return &settings, nil
	}
	key := kube.KeyOf(c)
	k.mu.Lock()
	known := k.looked[key]
	k.mu.Unlock()
	if known.version != version {
		if _, err := k.mayRead(ctx, c); err != nil {
			return nil, transientOnly(err) // an import reports the error
		}
		secret, err := k.secrets.Get(ctx, kube.KeyOf(s))
		if kube.IsGone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		known = look{version: version, offer: clusterimport.OfferTo(settings, secret.Data)}
		k.mu.Lock()
		k.looked[key] = known
		k.mu.Unlock()
	}
	return &known.offer, nil
}

// transientOnly returns err if it says nothing about the Cluster; else nil.
func transientOnly(err error) error {
	if reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		return nil
	}
	return err
}

// mayRead returns an error if the manager must not read the Secret that a Cluster
// names. The proof is empty if none was needed.
func (k *kubeconfigs) mayRead(ctx context.Context, c *fleet.Cluster) (clusterimport.Proof, error) {
	if clusterimport.MayRead(c, clusterimport.Proof{}) == nil {
		return clusterimport.Proof{}, nil
	}
	proof, err := k.rancher.Proof(ctx, c)
	if err != nil {
		return proof, err
	}
	return proof, clusterimport.MayRead(c, proof)
}

// read reads the Secret that a Cluster names, if mayRead permits it.
func (k *kubeconfigs) read(ctx context.Context, c *fleet.Cluster) (*corev1.Secret, error) {
	proof, err := k.mayRead(ctx, c)
	if err != nil {
		return nil, err
	}
	key := kube.Key{Namespace: clusterimport.NamespaceOfSecret(c), Name: c.Spec.KubeConfigSecret}
	s, err := k.secrets.Get(ctx, key)
	if kube.IsGone(err) {
		return nil, reconcile.TerminalError(clusterimport.ReasonSecretMissing, fmt.Errorf(
			"install the agent: Secret %s (kubeConfigSecret) is not there", key))
	}
	if err != nil {
		return nil, err
	}
	if clusterimport.MayUse(c, s, proof) == nil {
		return s, nil
	}
	if proof, err = k.rancher.Proof(ctx, c); err != nil {
		return nil, err
	}
	return s, clusterimport.MayUse(c, s, proof)
}
