// Package register gets the agent its credential on the manager, and keeps
// it: from the Secret fleet-agent where there is one, else by registering
// with the token in the Secret fleet-agent-bootstrap, which is forgotten
// afterwards.
//
// The handshake: the agent creates a ClusterRegistration in the workspace,
// the manager answers with a Secret whose name both know and nobody else can
// guess, and that alone the token may then read.
package register

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the handshake.
const (
	firstPoll = 200 * time.Millisecond // for the credential; doubled up to lastPoll
	lastPoll  = 2 * time.Second
	patience  = 30 * time.Minute // for one registration, before another is made
	lastRetry = 30 * time.Second // between attempts that fail; begins with one second
)

// Keys of the Secret fleet-agent.
const (
	keyKubeconfig          = "kubeconfig"
	keyDeploymentNamespace = "deploymentNamespace"
	keyClusterNamespace    = "clusterNamespace"
	keyClusterName         = "clusterName"
	keyClientRandom        = "clientRandom"
)

// Config is where the agent lives and how it names itself.
type Config struct {
	Namespace  string       // of the agent, in its own cluster
	Downstream *kube.Client // the agent's own cluster
	UserAgent  string       // towards the manager
}

// A Credential is who the agent is to its manager.
type Credential struct {
	REST                *rest.Config
	ClusterNamespace    string // the workspace
	ClusterName         string
	DeploymentNamespace string // where its BundleDeployments stand
}

// Cluster is the key of the agent's own Cluster.
func (c Credential) Cluster() kube.Key {
	return kube.Key{Namespace: c.ClusterNamespace, Name: c.ClusterName}
}

// Ensure returns the agent's credential. It waits, however long it takes, for
// a bootstrap Secret and for the manager's answer; failures are logged and
// tried again with a growing delay of at most 30 s. The only error is ctx's.
func Ensure(ctx context.Context, cfg Config, log logrus.FieldLogger) (Credential, error) {
	r := registrar{cfg: cfg, secrets: kube.StoreOf[*corev1.Secret](cfg.Downstream), log: log}
	last := ""
	for delay := time.Second; ; delay = min(2*delay, lastRetry) {
		cred, err := r.once(ctx)
		if err == nil {
			return cred, nil
		}
		if ctx.Err() != nil {
			return Credential{}, ctx.Err()
		}
		if err.Error() != last {
			log.WithError(err).Warn("not registered yet")
			last = err.Error()
		}
		if errors.Is(err, errNoBootstrap) {
			delay = min(delay, 2*time.Second)
		}
		if err := pause(ctx, delay); err != nil {
			return Credential{}, err
		}
	}
}

// errNoBootstrap says that somebody has to bring a token.
var errNoBootstrap = errors.New("no credential and no registration token: install the chart fleet-agent with the values of a ClusterRegistrationToken")

type registrar struct {
	cfg     Config
	secrets *kube.Store[*corev1.Secret]
	log     logrus.FieldLogger
}

// once looks for the stored credential and registers where there is none, or
// where the manager no longer knows it and a new token is at hand.
func (r *registrar) once(ctx context.Context) (Credential, error) {
	own, err := r.read(ctx, fleet.SecretAgent)
	if err != nil {
		return Credential{}, err
	}
	boot, err := r.read(ctx, fleet.SecretAgentBootstrap)
	if err != nil {
		return Credential{}, err
	}
	if own != nil && len(own.Data[keyKubeconfig]) > 0 {
		cred, err := parse(own.Data)
		if err == nil && (boot == nil || !r.refused(ctx, cred)) {
			return cred, r.forget(ctx, boot)
		}
		if boot == nil {
			return Credential{}, err
		}
	}
	if boot == nil {
		return Credential{}, errNoBootstrap
	}
	return r.register(ctx, own, boot)
}

// read gets a Secret of the agent's namespace; nil where there is none.
func (r *registrar) read(ctx context.Context, name string) (*corev1.Secret, error) {
	s, err := r.secrets.Get(ctx, kube.Key{Namespace: r.cfg.Namespace, Name: name})
	if kube.IsGone(err) {
		return nil, nil
	}
	return s, err
}

// refused tells whether the manager answers and does not know the credential.
func (r *registrar) refused(ctx context.Context, cred Credential) bool {
	c, err := r.connect(cred.REST)
	if err != nil {
		return false
	}
	_, err = kube.StoreOf[*authenticationv1.SelfSubjectReview](c).Create(ctx, &authenticationv1.SelfSubjectReview{})
	return kube.IsUnauthorized(err)
}

func (r *registrar) connect(cfg *rest.Config) (*kube.Client, error) {
	return kube.Connect(kube.Config{REST: cfg, UserAgent: r.cfg.UserAgent + " (register)", FieldManager: fleet.FieldManagerAgent})
}

// register runs the whole handshake with a bootstrap Secret.
func (r *registrar) register(ctx context.Context, own, boot *corev1.Secret) (Credential, error) {
	b := registration.ReadBootstrapping(boot.Data)
	settings, err := r.settings(ctx)
	if err != nil {
		return Credential{}, err
	}
	random, err := r.clientRandom(ctx, own)
	if err != nil {
		return Credential{}, err
	}
	access := kube.Access{URL: b.APIServerURL, CA: authorities(ctx, settings.TLSMode, b), Token: b.Token, Namespace: b.ClusterNamespace}
	manager, err := r.connect(access.REST())
	if err != nil {
		return Credential{}, fmt.Errorf("reach the manager at %s: %w", b.APIServerURL, err)
	}
	if err := r.ask(ctx, manager, b, settings, random); err != nil {
		return Credential{}, err
	}
	answer, err := r.await(ctx, manager, b.RegistrationNamespace, naming.RegistrationSecret(settings.ClientID, random))
	if err != nil {
		return Credential{}, err
	}
	access.Token = string(answer.Data["token"])
	access.Namespace = string(answer.Data[keyDeploymentNamespace])
	kubeconfig, err := access.Kubeconfig()
	if err != nil {
		return Credential{}, fmt.Errorf("write kubeconfig: %w", err)
	}
	data := map[string][]byte{
		keyKubeconfig:          kubeconfig,
		keyDeploymentNamespace: answer.Data[keyDeploymentNamespace],
		keyClusterNamespace:    answer.Data[keyClusterNamespace],
		keyClusterName:         answer.Data[keyClusterName],
	}
	cred, err := parse(data)
	if err != nil {
		return Credential{}, fmt.Errorf("the manager's answer: %w", err)
	}
	if err := r.keep(ctx, data); err != nil {
		return Credential{}, err
	}
	r.log.WithField("cluster", cred.Cluster().String()).Info("registered")
	return cred, r.forget(ctx, boot)
}

// settings are the agent's configuration, with the identity that it uses
// where none is configured: the UID of kube-system.
func (r *registrar) settings(ctx context.Context) (registration.AgentConfig, error) {
	var settings registration.AgentConfig
	m, err := kube.StoreOf[*corev1.ConfigMap](r.cfg.Downstream).Get(ctx, kube.Key{Namespace: r.cfg.Namespace, Name: fleet.ConfigMapAgent})
	if err != nil && !kube.IsGone(err) {
		return settings, err
	}
	if err == nil {
		if settings, err = registration.ParseAgentConfig(m.Data[fleet.KeyConfig]); err != nil {
			return settings, fmt.Errorf("ConfigMap %s/%s: %w", r.cfg.Namespace, fleet.ConfigMapAgent, err)
		}
	}
	if settings.ClientID == "" {
		ns, err := kube.StoreOf[*corev1.Namespace](r.cfg.Downstream).Get(ctx, kube.Key{Name: metav1.NamespaceSystem})
		if err != nil {
			return settings, err
		}
		settings.ClientID = string(ns.UID)
	}
	return settings, nil
}

// clientRandom is the part of the credential's name that nobody can guess. It
// is kept until there is an answer, so that an agent that is started again
// finds it; an agent whose credential was refused asks for another one.
func (r *registrar) clientRandom(ctx context.Context, own *corev1.Secret) (string, error) {
	if own != nil && len(own.Data[keyClientRandom]) > 0 && len(own.Data[keyKubeconfig]) == 0 {
		return string(own.Data[keyClientRandom]), nil
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	random := hex.EncodeToString(raw)
	data := map[string][]byte{}
	if own != nil {
		maps.Copy(data, own.Data)
	}
	data[keyClientRandom] = []byte(random)
	return random, r.keep(ctx, data)
}

// ask creates the ClusterRegistration.
func (r *registrar) ask(ctx context.Context, manager *kube.Client, b registration.Bootstrapping, settings registration.AgentConfig, random string) error {
	_, err := kube.StoreOf[*fleet.ClusterRegistration](manager).Create(ctx, &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.ClusterNamespace, GenerateName: "request-",
			Labels: map[string]string{fleet.LabelRegistrationToken: b.TokenName},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: settings.ClientID, ClientRandom: random, ClusterLabels: settings.Labels},
	})
	if kube.IsUnauthorized(err) {
		return fmt.Errorf("the manager at %s refuses the registration token %q, which may have expired: install fleet-agent with the values of a new one", b.APIServerURL, b.TokenName)
	}
	return err
}

// await polls for the Secret with the credential. Until the manager has
// granted it, reading it is forbidden.
func (r *registrar) await(ctx context.Context, manager *kube.Client, namespace, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the manager has not accepted the registration within 30 minutes"))
	defer cancel()
	secrets := kube.StoreOf[*corev1.Secret](manager)
	for delay := firstPoll; ; delay = min(2*delay, lastPoll) {
		s, err := secrets.Get(ctx, kube.Key{Namespace: namespace, Name: name})
		if err == nil {
			return s, nil
		}
		if !kube.IsGone(err) && !kube.IsAway(err) {
			return nil, err
		}
		if kube.IsUnauthorized(err) {
			return nil, fmt.Errorf("the registration token ended while the manager was asked: %w", err)
		}
		if err := pause(ctx, delay); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// keep writes the agent's own Secret.
func (r *registrar) keep(ctx context.Context, data map[string][]byte) error {
	key := kube.Key{Namespace: r.cfg.Namespace, Name: fleet.SecretAgent}
	old, err := r.secrets.Get(ctx, key)
	if kube.IsGone(err) {
		_, err = r.secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: data,
		})
		return err
	}
	if err != nil {
		return err
	}
	changed := old.DeepCopy()
	changed.Data = data
	_, err = r.secrets.Patch(ctx, old, changed)
	return err
}

// forget removes the bootstrap Secret, whose token is of no more use here.
func (r *registrar) forget(ctx context.Context, boot *corev1.Secret) error {
	if boot == nil {
		return nil
	}
	return r.secrets.Delete(ctx, kube.KeyOf(boot), kube.Precondition{UID: boot.UID})
}

// parse reads the data of the Secret fleet-agent.
func parse(data map[string][]byte) (Credential, error) {
	cfg, err := kube.ParseKubeconfig(data[keyKubeconfig])
	if err != nil {
		return Credential{}, fmt.Errorf("secret %s: %w", fleet.SecretAgent, err)
	}
	cred := Credential{
		REST: cfg, ClusterNamespace: string(data[keyClusterNamespace]),
		ClusterName: string(data[keyClusterName]), DeploymentNamespace: string(data[keyDeploymentNamespace]),
	}
	for key, value := range map[string]string{
		keyClusterNamespace: cred.ClusterNamespace, keyClusterName: cred.ClusterName, keyDeploymentNamespace: cred.DeploymentNamespace,
	} {
		if value == "" {
			return Credential{}, fmt.Errorf("secret %s: %s is missing", fleet.SecretAgent, key)
		}
	}
	return cred, nil
}

// pause waits, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
