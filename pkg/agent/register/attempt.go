package register

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// ErrIncomplete says that a bootstrap Secret lacks values.
var ErrIncomplete = errors.New("the registration token's values are incomplete")

// ErrUnanswered says that the manager has not answered a request in time.
var ErrUnanswered = errors.New("no answer")

// A Request is what was asked of a manager.
type Request struct {
	Name      string // of the ClusterRegistration
	Workspace string
	URL       string // of the manager
}

// A Grant is a credential that was just got, and is not kept yet.
type Grant struct {
	Credential
	secret *corev1.Secret
}

// An Attempt is a series of tries to register with one bootstrap Secret.
type Attempt struct {
	cfg      Config
	boot     Bootstrap
	onSilent func(Request)
}

// NewAttempt begins a series of tries. It calls onSilent, if not nil, with a request
// that is not answered at once.
func NewAttempt(cfg Config, boot Bootstrap, onSilent func(Request)) *Attempt {
	return &Attempt{cfg: cfg, boot: boot, onSilent: onSilent}
}

// Bootstrap returns the registration data that the tries use.
func (a *Attempt) Bootstrap() Bootstrap { return a.boot }

// Try requests a registration and waits at most 30 minutes for the answer. It stores
// only the client random of the request, so that a later try finds the same request.
//
// It returns ErrIncomplete if values are missing, ErrUnanswered after 30 minutes, and
// otherwise the errors of the manager's API server or of the connection.
func (a *Attempt) Try(ctx context.Context) (Grant, error) {
	b := a.boot.Bootstrapping
	if missing := b.MissingParts(); missing != "" {
		return Grant{}, fmt.Errorf("%w: the Secret %s has no %s", ErrIncomplete, fleet.SecretAgentBootstrap, missing)
	}
	origin := b.Origin()
	settings, err := withRequestedLabels(ctx, a.cfg)
	if err != nil {
		return Grant{}, err
	}
	clientID, err := identify(ctx, a.cfg, settings)
	if err != nil {
		return Grant{}, err
	}
	word, err := a.clientRandom(ctx)
	if err != nil {
		return Grant{}, err
	}
	b.APIServerCA = authorities(ctx, settings.TLSMode, b)
	answer, err := a.createRequest(ctx, b, fleet.ClusterRegistrationSpec{
		ClientID: clientID, ClientRandom: word, ClusterLabels: settings.Labels,
	})
	if err != nil {
		return Grant{}, err
	}
	return grantOf(a.cfg, b, origin, answer)
}

// clientRandom returns the secret part of a request. It is generated once for each
// token.
func (a *Attempt) clientRandom(ctx context.Context) (string, error) {
	secrets := kube.StoreOf[*corev1.Secret](a.cfg.Down)
	key := kube.Key{Namespace: a.cfg.Namespace, Name: fleet.SecretAgentBootstrap}
	have, err := secrets.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("read the registration token: %w", err)
	}
	digest := a.boot.Origin().Token
	if word := string(have.Data[keyWord]); word != "" && string(have.Data[keyWordFor]) == digest {
		return word, nil
	}
	word := rand.Text()
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{keyWord: []byte(word), keyWordFor: []byte(digest)}})
	if err != nil {
		return "", err
	}
	if _, err := secrets.PatchRaw(ctx, key, types.MergePatchType, patch); err != nil {
		return "", fmt.Errorf("keep the word of the request: %w", err)
	}
	return word, nil
}

// createRequest creates a ClusterRegistration and waits for the Secret that answers it.
func (a *Attempt) createRequest(ctx context.Context, b registration.Bootstrapping, spec fleet.ClusterRegistrationSpec) (*corev1.Secret, error) {
	up, err := kube.Connect(kube.Config{
		REST: &rest.Config{
			Host: b.APIServerURL, BearerToken: b.Token, TLSClientConfig: rest.TLSClientConfig{CAData: b.APIServerCA},
			WrapTransport: a.cfg.Wrap,
		},
		UserAgent: a.cfg.UserAgent, FieldManager: fleet.FieldManagerAgent,
	})
	if err != nil {
		return nil, err
	}
	up = up.Loop("register")
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	made, err := kube.StoreOf[*fleet.ClusterRegistration](up).Create(limited, &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.ClusterNamespace, GenerateName: "request-",
			Labels: map[string]string{fleet.LabelRegistrationToken: b.TokenName},
		},
		Spec: spec,
	})
	if err != nil {
		return nil, fmt.Errorf("ask %s to register: %w", b.APIServerURL, err)
	}
	a.cfg.Log.WithField("cluster", b.ClusterNamespace+"/"+made.Name).Info("asked to be registered")
	asked := Request{Name: made.Name, Workspace: b.ClusterNamespace, URL: b.APIServerURL}
	return a.awaitAnswer(ctx, up, asked, kube.Key{Namespace: b.RegistrationNamespace, Name: naming.RegistrationSecret(spec.ClientID, spec.ClientRandom)})
}

// awaitAnswer polls for the answer. Until the request is granted, the token has no
// right to read the Secret, and the Secret may not exist.
func (a *Attempt) awaitAnswer(ctx context.Context, up *kube.Client, asked Request, key kube.Key) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, giveUp, ErrUnanswered)
	defer cancel()
	secrets := kube.StoreOf[*corev1.Secret](up)
	delay, began, reported := firstPoll, time.Now(), a.onSilent == nil
	for {
		limited, done := context.WithTimeout(ctx, requestLimit)
		s, err := secrets.Get(limited, key)
		done()
		if err == nil && len(s.Data[keyToken]) > 0 && len(s.Data[keyDeploymentNamespace]) > 0 {
			return s, nil
		}
		if kube.IsUnauthorized(err) {
			return nil, fmt.Errorf("wait for the answer to %s/%s: %w", asked.Workspace, asked.Name, err)
		}
		if !reported && time.Since(began) >= silence {
			reported = true
			a.onSilent(asked)
		}
		if kube.Sleep(ctx, delay) != nil {
			return nil, fmt.Errorf("wait for the answer to %s/%s: %w", asked.Workspace, asked.Name, context.Cause(ctx))
		}
		delay = min(2*delay, pollInterval)
	}
}

// grantOf returns the credential in an answer.
func grantOf(cfg Config, b registration.Bootstrapping, origin registration.Origin, answer *corev1.Secret) (Grant, error) {
	kubeconfig, err := kubeconfigOf(b, string(answer.Data[keyToken]))
	if err != nil {
		return Grant{}, err
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
	maps.Copy(secret.Data, origin.Data())
	c, err := credentialOf(secret, cfg.Wrap)
	return Grant{Credential: c, secret: secret}, err
}

// Keep stores the credential in place of the former one.
func (g Grant) Keep(ctx context.Context, cfg Config) error {
	if _, err := kube.StoreOf[*corev1.Secret](cfg.Down).Apply(ctx, g.secret); err != nil {
		return fmt.Errorf("keep the credential: %w", err)
	}
	cfg.Log.WithField("cluster", g.Cluster.String()).Info("registered")
	return nil
}
