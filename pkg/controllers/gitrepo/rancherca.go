package gitrepo

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// rancherSecrets are the Secrets in which Rancher keeps authorities of an installation, in
// the order in which they are used. Each may be missing.
var rancherSecrets = []struct {
	key  kube.Key
	data string // the key of the PEM text
}{
	{kube.Key{Namespace: "cattle-system", Name: "tls-ca"}, "cacerts.pem"},
	{kube.Key{Namespace: "cattle-system", Name: "tls-ca-additional"}, "ca-additional.pem"},
}

// isRancherSecret reports whether a Secret is one of rancherSecrets.
func isRancherSecret(key kube.Key) bool {
	for _, s := range rancherSecrets {
		if s.key == key {
			return true
		}
	}
	return false
}

// rancherCA are the authorities of certain versions of rancherSecrets.
type rancherCA struct {
	mu       sync.Mutex
	versions string
	pem      []byte
}

// rancherAuthorities returns the authorities that Rancher has for the installation, as PEM;
// nil if there are none. It requests a Secret only after a change. The error for a Secret
// without its key is a reconcile.Terminal.
func (cr *credentials) rancherAuthorities(ctx context.Context) ([]byte, error) {
	var versions strings.Builder
	for _, s := range rancherSecrets {
		if m, ok := cr.cache.secrets.Get(s.key); ok {
			versions.WriteString(m.ResourceVersion)
		}
		versions.WriteByte(',')
	}
	cr.rancher.mu.Lock()
	known, pem := cr.rancher.versions == versions.String(), cr.rancher.pem
	cr.rancher.mu.Unlock()
	if known {
		return pem, nil
	}
	pem = nil
	for _, s := range rancherSecrets {
		if _, ok := cr.cache.secrets.Get(s.key); !ok {
			continue
		}
		secret, err := cr.secrets.Get(ctx, s.key)
		if kube.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text := bytes.TrimSpace(secret.Data[s.data])
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, unusable(s.key, fmt.Errorf("key %q in namespace %s holds no PEM certificate, and the GitRepo has no caBundle", s.data, s.key.Namespace))
		}
		pem = append(append(pem, text...), '\n')
	}
	cr.rancher.mu.Lock()
	defer cr.rancher.mu.Unlock()
	cr.rancher.versions, cr.rancher.pem = versions.String(), pem
	return pem, nil
}
