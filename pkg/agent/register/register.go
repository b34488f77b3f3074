// Package register gets an agent its credential. With the registration token of the
// bootstrap Secret it creates a ClusterRegistration and waits for the manager's answer.
// The caller decides when to register, stores the credential, and deletes the token.
package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/agent/credential"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the registration.
const (
	firstPoll    = 250 * time.Millisecond // for the answer, doubling
	pollInterval = 2 * time.Second
	silence      = 20 * time.Second // without an answer, then the caller is notified
	giveUp       = 30 * time.Minute // then a new request is made
	requestLimit = 10 * time.Second // of one request to the manager
)

// Keys of the Secret fleet-agent.
const (
	keyKubeconfig          = "kubeconfig"
	keyDeploymentNamespace = "deploymentNamespace"
	keyClusterNamespace    = "clusterNamespace"
	keyClusterName         = "clusterName"
	keyToken               = "token"
)

// Keys that the agent adds to the bootstrap Secret: the word of its request, and
// the digest of the token that it was made up for. An agent that is started again
// before it has an answer asks for the same one.
const (
	keyWord    = "clientRandom"
	keyWordFor = "clientRandomFor"
)

// A Credential is what an agent has once it is registered.
type Credential struct {
	REST                *rest.Config
	DeploymentNamespace string // of its BundleDeployments
	Cluster             kube.Key
	Origin              registration.Origin // with what it was got, as far as is known
	Record              []byte              // of package credential, which maintains it
}

// URL returns the address of the manager's API server; empty if it is not known.
func (c Credential) URL() string {
	if c.REST == nil {
		return ""
	}
	return c.REST.Host
}

// ErrNotRegistered says that there is neither a credential nor a token.
var ErrNotRegistered = errors.New("this agent is not registered: install the chart fleet-agent with the values of a registration token")

// ErrBroken says that there is a credential that cannot be read.
var ErrBroken = errors.New("the credential cannot be read")

// Config names the agent's cluster and namespace.
type Config struct {
	Down      *kube.Client // to the agent's own cluster
	Namespace string       // the agent's
	UserAgent string
	Log       *logrus.Entry
	// Wrap, where not nil, wraps the transport of all requests to the manager.
	Wrap transport.WrapperFunc
}

// Read returns the credential of the agent. It returns ErrNotRegistered if there is
// none (an agent of rancher/fleet that is about to register keeps its client random in
// the Secret), and ErrBroken if the credential cannot be used.
func Read(ctx context.Context, cfg Config) (Credential, error) {
	s, err := kube.StoreOf[*corev1.Secret](cfg.Down).Get(ctx, kube.Key{Namespace: cfg.Namespace, Name: fleet.SecretAgent})
	if kube.IsGone(err) {
		return Credential{}, ErrNotRegistered
	}
	if err != nil {
		return Credential{}, err
	}
	if len(s.Data[keyKubeconfig]) == 0 && len(s.Data[keyClusterName]) == 0 {
		return Credential{}, ErrNotRegistered
	}
	return credentialOf(s, cfg.Wrap)
}

// credentialOf reads a Secret fleet-agent.
func credentialOf(s *corev1.Secret, wrap transport.WrapperFunc) (Credential, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data[keyKubeconfig])
	if err != nil {
		return Credential{}, fmt.Errorf("%w: secret %q holds no kubeconfig", ErrBroken, s.Name)
	}
	cfg.WrapTransport = wrap
	c := Credential{
		REST: cfg, DeploymentNamespace: string(s.Data[keyDeploymentNamespace]),
		Cluster: kube.Key{Namespace: string(s.Data[keyClusterNamespace]), Name: string(s.Data[keyClusterName])},
		Record:  s.Data[credential.KeyRecord],
	}
	if c.Origin = registration.ReadOrigin(s.Data, c.Cluster.Namespace); c.Origin.URL == "" {
		c.Origin.URL = cfg.Host
	}
	if c.DeploymentNamespace == "" || c.Cluster.Name == "" || c.Cluster.Namespace == "" {
		return Credential{}, fmt.Errorf("%w: secret %q is incomplete", ErrBroken, s.Name)
	}
	return c, nil
}

// settingsOf reads the agent's ConfigMap; without one it returns the defaults.
func settingsOf(ctx context.Context, cfg Config) (registration.AgentConfig, error) {
	var out registration.AgentConfig
	cm, err := kube.StoreOf[*corev1.ConfigMap](cfg.Down).Get(ctx, kube.Key{Namespace: cfg.Namespace, Name: fleet.ConfigMapAgent})
	if kube.IsGone(err) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if err := yaml.Unmarshal([]byte(cm.Data[fleet.KeyConfig]), &out); err != nil {
		return out, fmt.Errorf("config map %q, key %q: %w", cm.Name, fleet.KeyConfig, err)
	}
	return out, nil
}

// identify returns the identity of the cluster: the configured one, else the UID of its
// namespace kube-system.
func identify(ctx context.Context, cfg Config, settings registration.AgentConfig) (string, error) {
	if settings.ClientID != "" {
		return settings.ClientID, nil
	}
	ns, err := kube.StoreOf[*corev1.Namespace](cfg.Down).Get(ctx, kube.Key{Name: metav1.NamespaceSystem})
	if err != nil {
		return "", fmt.Errorf("identify this cluster: %w", err)
	}
	return string(ns.UID), nil
}

// kubeconfigOf returns a kubeconfig for the manager of a bootstrap Secret, with a
// token.
func kubeconfigOf(b registration.Bootstrapping, token string) ([]byte, error) {
	const name = "fleet"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: b.APIServerURL, CertificateAuthorityData: b.APIServerCA}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}
