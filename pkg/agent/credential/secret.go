package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// KeyRecord is the key of the Secret fleet-agent under which a taken offer is kept,
// beside the kubeconfig with the token.
const KeyRecord = "renewal"

// record is the content of the Secret.
type record struct {
	Offer string `json:"offer"`
	Token string `json:"token,omitempty"` // of the account for renewal
	// For is the digest of the token in the kubeconfig that the record belongs to: it
	// says nothing about another one, from a new registration.
	For string `json:"for"`
}

// errOther says that the agent has registered again meanwhile.
var errOther = errors.New("the Secret fleet-agent holds another credential by now")

// readRecord reads the data that was stored with a token. An agent whose credential was
// not offered has none.
func readRecord(data []byte, token string) (offer, renewal string) {
	var r record
	if json.Unmarshal(data, &r) != nil || r.For != tokenDigest(token) {
		return "", ""
	}
	return r.Offer, r.Token
}

// readSecret reads the Secret fleet-agent. It must have the present token, or a token
// that storeTokens wrote without getting the answer.
func (r *Rotator) readSecret(ctx context.Context) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	s, err := kube.StoreOf[*corev1.Secret](r.cfg.Down).Get(ctx, kube.Key{Namespace: r.cfg.Namespace, Name: fleet.SecretAgent})
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data[registration.KeyKubeconfig])
	if err != nil || cfg.BearerToken != r.bearer.get() && !r.sent[tokenDigest(cfg.BearerToken)] {
		return nil, errOther
	}
	return s, nil
}

// storeTokens writes fetched tokens to the Secret, and then uses them. It writes
// nothing if the agent has registered again in the meantime.
func (r *Rotator) storeTokens(ctx context.Context, offer string, got tokens) error {
	s, err := r.readSecret(ctx)
	if err != nil {
		return fmt.Errorf("keep the credential: %w", err)
	}
	changed := s.DeepCopy()
	if changed.Data[registration.KeyKubeconfig], err = replaceToken(s.Data[registration.KeyKubeconfig], got.token); err != nil {
		return fmt.Errorf("keep the credential: %w", err)
	}
	changed.Data[KeyRecord], err = json.Marshal(record{Offer: offer, Token: got.renewal, For: tokenDigest(got.token)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	r.sent[tokenDigest(got.token)] = true
	if _, err := kube.StoreOf[*corev1.Secret](r.cfg.Down).Patch(ctx, s, changed); err != nil {
		return fmt.Errorf("keep the credential: %w", err)
	}
	clear(r.sent)
	r.offer, r.renewal = offer, got.renewal
	r.setToken(got.token, offer)
	return nil
}

// replaceToken returns a kubeconfig with another token.
func replaceToken(kubeconfig []byte, token string) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be read") // the cause may quote the token
	}
	current := cfg.Contexts[cfg.CurrentContext]
	if current == nil || cfg.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("the kubeconfig has no current user")
	}
	cfg.AuthInfos[current.AuthInfo].Token = token
	return clientcmd.Write(*cfg)
}

// fetchPermanent reads the Secret with a token that does not expire.
func (r *Rotator) fetchPermanent(ctx context.Context, up *kube.Client, o plan.Offer) (tokens, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	s, err := kube.StoreOf[*corev1.Secret](up).Get(ctx, kube.Key{Namespace: o.Namespace, Name: o.Token})
	if err != nil {
		return tokens{}, err
	}
	token := string(s.Data[corev1.ServiceAccountTokenKey])
	if token == "" {
		return tokens{}, errors.New("the API server has not filled in the token yet")
	}
	return tokens{token: token}, nil
}

func tokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8])
}
