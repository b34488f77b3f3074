// Package register gets an agent its credential: with the registration token
// of its bootstrap Secret it asks the manager to be taken in, waits for the
// answer, and then forgets the token.
package register

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the registration.
const (
	firstPoll    = 250 * time.Millisecond // for the answer, doubling
	pollInterval = 2 * time.Second
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

// A Credential is what an agent has once it is registered.
type Credential struct {
	REST                *rest.Config
	DeploymentNamespace string // of its BundleDeployments
	Cluster             kube.Key
}

// URL is the address of the manager's API server; empty where it is not known.
func (c Credential) URL() string {
	if c.REST == nil {
		return ""
	}
	return c.REST.Host
}

// ErrNotRegistered says that there is neither a credential nor a token.
var ErrNotRegistered = errors.New("this agent is not registered and has no registration token: install the chart fleet-agent with the values of a token")

// ErrBroken says that there is a credential that cannot be read.
var ErrBroken = errors.New("the credential cannot be read")

// Config says where the agent lives.
type Config struct {
	Down      *kube.Client // to the agent's own cluster
	Namespace string       // the agent's
	UserAgent string
	Log       *logrus.Entry
}

// Read returns the credential that the agent has. It is ErrNotRegistered if it
// has none, and ErrBroken if it has one that is of no use.
func Read(ctx context.Context, down *kube.Client, namespace string) (Credential, error) {
	s, err := kube.StoreOf[*corev1.Secret](down).Get(ctx, kube.Key{Namespace: namespace, Name: fleet.SecretAgent})
	if kube.IsGone(err) {
		return Credential{}, ErrNotRegistered
	}
	if err != nil {
		return Credential{}, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data[keyKubeconfig])
	if err != nil {
		return Credential{}, fmt.Errorf("%w: secret %q holds no kubeconfig", ErrBroken, s.Name)
	}
	c := Credential{
		REST: cfg, DeploymentNamespace: string(s.Data[keyDeploymentNamespace]),
		Cluster: kube.Key{Namespace: string(s.Data[keyClusterNamespace]), Name: string(s.Data[keyClusterName])},
	}
	if c.DeploymentNamespace == "" || c.Cluster.Name == "" || c.Cluster.Namespace == "" {
		return Credential{}, fmt.Errorf("%w: secret %q is incomplete", ErrBroken, s.Name)
	}
	return c, nil
}

// Ensure returns the agent's credential. If it has none, it registers, and
// tries until it succeeds or ctx ends. It is ErrBroken if it has one that is of no
// use.
func Ensure(ctx context.Context, cfg Config) (Credential, error) {
	var delays kube.Backoff
	for {
		c, err := Read(ctx, cfg.Down, cfg.Namespace)
		if err == nil {
			return c, nil
		}
		if errors.Is(err, ErrNotRegistered) {
			c, err = Register(ctx, cfg)
		}
		if err == nil || errors.Is(err, ErrBroken) {
			return c, err
		}
		if ctx.Err() != nil {
			return Credential{}, ctx.Err()
		}
		cfg.Log.WithField("error", err.Error()).Warn("not registered yet")
		if err := delays.Wait(ctx); err != nil {
			return Credential{}, err
		}
	}
}

// Pending tells whether there is a token to register with.
func Pending(ctx context.Context, down *kube.Client, namespace string) bool {
	_, there := Waiting(ctx, down, namespace)
	return there
}

// Waiting is the token to register with, if there is one, and where it leads.
func Waiting(ctx context.Context, down *kube.Client, namespace string) (registration.Bootstrapping, bool) {
	s, err := kube.StoreOf[*corev1.Secret](down).Get(ctx, kube.Key{Namespace: namespace, Name: fleet.SecretAgentBootstrap})
	if err != nil {
		return registration.Bootstrapping{}, false
	}
	return registration.ReadBootstrapping(s.Data), true
}

// Register registers with the token of the bootstrap Secret, whether the agent
// has a credential or not, and keeps the new one. It is ErrNotRegistered if
// there is no token.
func Register(ctx context.Context, cfg Config) (Credential, error) {
	secrets := kube.StoreOf[*corev1.Secret](cfg.Down)
	boot, err := secrets.Get(ctx, kube.Key{Namespace: cfg.Namespace, Name: fleet.SecretAgentBootstrap})
	if kube.IsGone(err) {
		return Credential{}, ErrNotRegistered
	}
	if err != nil {
		return Credential{}, err
	}
	b := registration.ReadBootstrapping(boot.Data)
	settings, err := settingsOf(ctx, cfg)
	if err != nil {
		return Credential{}, err
	}
	clientID, err := identify(ctx, cfg, settings)
	if err != nil {
		return Credential{}, err
	}
	b.APIServerCA = authorities(ctx, settings.TLSMode, b)
	answer, err := ask(ctx, cfg, b, settings, clientID)
	if err != nil {
		return Credential{}, err
	}
	if err := keep(ctx, cfg, b, answer); err != nil {
		return Credential{}, err
	}
	return Read(ctx, cfg.Down, cfg.Namespace)
}

// Forget removes the bootstrap Secret: its token is of no more use to an agent
// that is registered.
func Forget(ctx context.Context, down *kube.Client, namespace string) error {
	key := kube.Key{Namespace: namespace, Name: fleet.SecretAgentBootstrap}
	return kube.StoreOf[*corev1.Secret](down).Delete(ctx, key, kube.Precondition{})
}

// settingsOf reads the agent's ConfigMap. Without one the defaults count.
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

// identify is the identity of the cluster: a configured one, else the UID of
// its namespace kube-system.
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

// ask makes a request and waits for the Secret that answers it.
func ask(ctx context.Context, cfg Config, b registration.Bootstrapping, settings registration.AgentConfig, clientID string) (*corev1.Secret, error) {
	up, err := kube.Connect(kube.Config{
		REST:      &rest.Config{Host: b.APIServerURL, BearerToken: b.Token, TLSClientConfig: rest.TLSClientConfig{CAData: b.APIServerCA}},
		UserAgent: cfg.UserAgent, FieldManager: fleet.FieldManagerAgent,
	})
	if err != nil {
		return nil, err
	}
	up = up.Loop("register")
	random, err := secretWord()
	if err != nil {
		return nil, err
	}
	request := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.ClusterNamespace, GenerateName: "request-",
			Labels: map[string]string{fleet.LabelRegistrationToken: b.TokenName},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: random, ClusterLabels: settings.Labels},
	}
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	made, err := kube.StoreOf[*fleet.ClusterRegistration](up).Create(limited, request)
	if err != nil {
		return nil, fmt.Errorf("ask %s to register: %w", b.APIServerURL, err)
	}
	cfg.Log.WithField("cluster", b.ClusterNamespace+"/"+made.Name).Info("asked to be registered")
	return await(ctx, up, kube.Key{Namespace: b.RegistrationNamespace, Name: naming.RegistrationSecret(clientID, random)})
}

// await polls for the answer. Until the request is granted the token has no
// right to read it, and it may not exist.
func await(ctx context.Context, up *kube.Client, key kube.Key) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	secrets := kube.StoreOf[*corev1.Secret](up)
	delay := firstPoll
	for {
		limited, done := context.WithTimeout(ctx, requestLimit)
		s, err := secrets.Get(limited, key)
		done()
		if err == nil && len(s.Data[keyToken]) > 0 && len(s.Data[keyDeploymentNamespace]) > 0 {
			return s, nil
		}
		if kube.IsUnauthorized(err) {
			return nil, fmt.Errorf("the registration token is not valid any more: %w", err)
		}
		if err := kube.Sleep(ctx, delay); err != nil {
			return nil, fmt.Errorf("wait for the credential: %w", err)
		}
		delay = min(2*delay, pollInterval)
	}
}

// keep writes the credential, and then removes the token.
func keep(ctx context.Context, cfg Config, b registration.Bootstrapping, answer *corev1.Secret) error {
	kubeconfig, err := kubeconfigOf(b, string(answer.Data[keyToken]))
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: fleet.SecretAgent},
		Data: map[string][]byte{
			keyKubeconfig:          kubeconfig,
			keyDeploymentNamespace: answer.Data[keyDeploymentNamespace],
			keyClusterNamespace:    answer.Data[keyClusterNamespace],
			keyClusterName:         answer.Data[keyClusterName],
		},
	}
	if _, err := kube.StoreOf[*corev1.Secret](cfg.Down).Apply(ctx, secret); err != nil {
		return fmt.Errorf("keep the credential: %w", err)
	}
	cfg.Log.WithField("cluster", string(answer.Data[keyClusterNamespace])+"/"+string(answer.Data[keyClusterName])).Info("registered")
	if err := Forget(ctx, cfg.Down, cfg.Namespace); err != nil {
		return fmt.Errorf("forget the registration token: %w", err)
	}
	return nil
}

func kubeconfigOf(b registration.Bootstrapping, token string) ([]byte, error) {
	const name = "fleet"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: b.APIServerURL, CertificateAuthorityData: b.APIServerCA}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}

// secretWord is the part of a request that nobody else can know.
func secretWord() (string, error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
