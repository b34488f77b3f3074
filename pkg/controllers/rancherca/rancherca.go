// Package rancherca reads the certificate authorities that Rancher keeps for an
// installation. Fleet trusts them where an object names no authorities of its own.
package rancherca

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// secrets are the Secrets with the authorities, in the order in which they are used. Each
// may be missing.
var secrets = []authoritySecret{
	{kube.Key{Namespace: "cattle-system", Name: "tls-ca"}, "cacerts.pem"},
	{kube.Key{Namespace: "cattle-system", Name: "tls-ca-additional"}, "ca-additional.pem"},
}

// An authoritySecret is a Secret with authorities.
type authoritySecret struct {
	key  kube.Key
	data string // the key of the PEM text
}

// IsSecret reports whether a Secret is one of those with authorities.
func IsSecret(key kube.Key) bool {
	return slices.ContainsFunc(secrets, func(s authoritySecret) bool { return s.key == key })
}

// A SecretError is the error for a Secret without its certificates. A user has to change
// the Secret.
type SecretError struct {
	Key     kube.Key
	DataKey string // the key of the Secret's data
}

// Error names the Secret and its key.
func (e *SecretError) Error() string {
	return fmt.Sprintf("key %q in namespace %s holds no PEM certificate", e.DataKey, e.Key.Namespace)
}

// Authorities reads the Secrets, each version once.
type Authorities struct {
	cache *kube.Cache[*metav1.PartialObjectMetadata]
	store *kube.Store[*corev1.Secret]

	mu       sync.Mutex
	versions string // of the Secrets that pem was read from
	pem      []byte
}

// New returns the Authorities of a management cluster; cache has the metadata of its
// Secrets.
func New(cache *kube.Cache[*metav1.PartialObjectMetadata], store *kube.Store[*corev1.Secret]) *Authorities {
	return &Authorities{cache: cache, store: store}
}

// PEM returns the certificates, one Secret's after the other; nil if there are none. It
// requests a Secret only after a change. The error is a reconcile.Terminal,
// InvalidCredentials, which wraps a *SecretError, or one of the API server.
func (a *Authorities) PEM(ctx context.Context) ([]byte, error) {
	var versions strings.Builder
	for _, s := range secrets {
		if m, ok := a.cache.Get(s.key); ok {
			versions.WriteString(m.ResourceVersion)
		}
		versions.WriteByte(',')
	}
	a.mu.Lock()
	known, pem := a.versions == versions.String(), a.pem
	a.mu.Unlock()
	if known {
		return pem, nil
	}
	pem, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions, a.pem = versions.String(), pem
	return pem, nil
}

// read requests the Secrets. The texts stay as they are, as in Rancher Fleet, which puts
// them into Bundles: another text is another deployment id.
func (a *Authorities) read(ctx context.Context) ([]byte, error) {
	var pem []byte
	for _, s := range secrets {
		if _, ok := a.cache.Get(s.key); !ok {
			continue
		}
		secret, err := a.store.Get(ctx, s.key)
		if kube.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text := secret.Data[s.data]
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, reconcile.TerminalError(chart.ReasonInvalidCredentials, fmt.Errorf("secret %q: %w", s.key.Name, &SecretError{Key: s.key, DataKey: s.data}))
		}
		if len(pem) > 0 && !bytes.HasSuffix(pem, []byte("\n")) {
			pem = append(pem, '\n')
		}
		pem = append(pem, text...)
	}
	return pem, nil
}
