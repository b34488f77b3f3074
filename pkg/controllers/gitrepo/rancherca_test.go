package gitrepo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// certificate returns a new certificate, as PEM.
func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func rancherSecret(name, key string, data []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: name}, Data: map[string][]byte{key: data}}
}

// A GitRepo without caBundle trusts the authorities of Rancher, and follows their changes.
func TestRancherAuthorities(t *testing.T) {
	g := newGit(t)
	one, two, own := certificate(t), certificate(t), certificate(t)
	trusts := func(w *looptest.World, want []byte) {
		w.Pass(time.Minute)
		if got := g.lastSource().CABundle; string(got) != string(want) {
			w.Errorf("trusted are\n%s\nwant\n%s", got, want)
		}
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a", func(w *looptest.World) {
			w.Server.MakeNamespace("cattle-system")
			looptest.Make(w, rancherSecret("tls-ca", "cacerts.pem", one))
			makeRepo(w, "repo", nil)
		}, g.read),
		When: func(w *looptest.World) {
			trusts(w, one)
			looptest.Make(w, rancherSecret("tls-ca-additional", "ca-additional.pem", two))
			trusts(w, slices.Concat(one, two))

			looptest.Change(w, "cattle-system", "tls-ca", func(s *corev1.Secret) { s.Data = map[string][]byte{"ca.pem": one} })
			w.Pass(time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "False", fleet.EventFailedValidatingSecret,
				`secret "tls-ca": key "cacerts.pem" in namespace cattle-system holds no PEM certificate, and the GitRepo has no caBundle`)
			wantBundles(w, "repo-a")

			looptest.Remove[*corev1.Secret](w, "cattle-system", "tls-ca")
			w.Pass(time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "True", "", "")
			trusts(w, two)
			changeRepo(w, func(r *fleet.GitRepo) { r.Spec.CABundle = own })
			trusts(w, own)
		},
		Then: func(w *looptest.World) { wantRead(w, g.head()) },
	})
}

// Charts of a Secret without authorities trust those of the installation.
func TestRancherAuthoritiesOfCharts(t *testing.T) {
	cr, r := &credentials{}, &fleet.GitRepo{}
	known := chart.Credentials{KnownHosts: []byte("h")}
	if got := cr.withDefaults(r, known, []byte("rancher")); string(got.CABundle) != "rancher" {
		t.Errorf("trusted is %q", got.CABundle)
	}
	known.CABundle = []byte("own")
	if got := cr.withDefaults(r, known, []byte("rancher")); string(got.CABundle) != "own" {
		t.Errorf("trusted is %q", got.CABundle)
	}
}
