package downstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	text []byte // PEM
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// server is one whose certificate the authority vouches for, by a name.
func (a authority) server(t *testing.T, name string) *httptest.Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour)}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.Path != "/version" {
			t.Errorf("asked for %s, with a credential: %t", r.URL.Path, r.Header.Get("Authorization") != "")
		}
		http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusFound)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// silent accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "https://" + l.Addr().String()
}

// Before a credential is shown to a server its certificate is checked, by the
// rules of the two modes, and an error says why in words that are the same each
// time.
func TestReach(t *testing.T) {
	public, private := newAuthority(t), newAuthority(t)
	store := filepath.Join(t.TempDir(), "system.pem")
	if err := os.WriteFile(store, public.text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", store) // before anybody in this process has looked
	known, own, misnamed := public.server(t, "127.0.0.1"), private.server(t, "127.0.0.1"), private.server(t, "elsewhere")
	plainHTTP := httptest.NewServer(http.NotFoundHandler())
	defer plainHTTP.Close()
	cases := map[string]struct {
		why    string
		access kubeconfig.Access
		mode   string
		reason string // of the error
		system bool   // the system's authorities are used from then on
		says   string
		limit  time.Duration // of what has to be waited for; 0: it comes
	}{
		"Strict":            {why: "the usual one", access: kubeconfig.Access{Server: own.URL, CA: private.text}, mode: "strict"},
		"StrictWrong":       {why: "another authority", access: kubeconfig.Access{Server: own.URL, CA: public.text}, mode: "strict", reason: clusterimport.ReasonUntrusted, says: "unknown authority"},
		"StrictNotSystem":   {why: "only the configured one counts", access: kubeconfig.Access{Server: known.URL, CA: private.text}, mode: "strict", reason: clusterimport.ReasonUntrusted},
		"SystemVouches":     {why: "the configured one is old", access: kubeconfig.Access{Server: known.URL, CA: private.text}, mode: "system-store", system: true},
		"SystemDoesNot":     {why: "the configured one fits", access: kubeconfig.Access{Server: own.URL, CA: private.text}, mode: "system-store"},
		"SystemNorOwn":      {why: "no authority vouches for it", access: kubeconfig.Access{Server: misnamed.URL, CA: private.text}, mode: "system-store", reason: clusterimport.ReasonUntrusted, says: "127.0.0.1"},
		"NoneConfigured":    {why: "then the system's count, also in mode strict", access: kubeconfig.Access{Server: known.URL}, mode: "strict", system: true},
		"NoneThatFits":      {why: "the system's do not", access: kubeconfig.Access{Server: own.URL}, mode: "system-store", reason: clusterimport.ReasonUntrusted},
		"ServerName":        {why: "the kubeconfig names it", access: kubeconfig.Access{Server: misnamed.URL, ServerName: "elsewhere", CA: private.text}, mode: "strict"},
		"Insecure":          {why: "the kubeconfig wants no check", access: kubeconfig.Access{Server: own.URL, Insecure: true}, mode: "system-store"},
		"InsecureNotStrict": {why: "but mode strict does", access: kubeconfig.Access{Server: own.URL, Insecure: true}, mode: "strict", reason: clusterimport.ReasonUntrusted, says: "insecure-skip-tls-verify"},
		"PlainHTTP":         {why: "there is nothing to check", access: kubeconfig.Access{Server: plainHTTP.URL}, mode: "system-store"},
		"PlainHTTPStrict":   {why: "any machine on the way could change it", access: kubeconfig.Access{Server: plainHTTP.URL}, mode: "strict", reason: kube.ReasonPlainHTTP, says: "agentTLSMode strict does not allow: use https"},
		"Metadata":          {why: "the machine's own credentials are there", access: kubeconfig.Access{Server: "http://169.254.169.254"}, mode: "system-store", reason: address.ReasonRefused, says: "metadata service"},
		"Silent":            {why: "it does not answer", access: kubeconfig.Access{Server: silent(t), CA: private.text}, mode: "strict", reason: clusterimport.ReasonUnreachable, says: "no answer in time", limit: time.Second},
		"Closed":            {why: "no server is there", access: kubeconfig.Access{Server: "https://127.0.0.1:1", CA: private.text}, mode: "strict", reason: clusterimport.ReasonUnreachable, says: "the connection is refused"},
		"NoName":            {why: "a name that is not known", access: kubeconfig.Access{Server: "https://no-such-name.invalid", CA: private.text}, mode: "strict", reason: clusterimport.ReasonUnreachable, says: "agent is installed once", limit: time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.access.Token = "secret"
			if c.limit == 0 {
				c.limit = 2 * time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			got, err := Reach(ctx, c.access, c.mode, kube.ImportPolicy{Addresses: address.WithLoopback(), TLSOnly: c.mode == registration.TLSStrict})
			if (err == nil) != (c.reason == "") || err != nil && ReasonOf(err) != c.reason {
				t.Fatalf("%s: %v", c.why, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: it says %q", c.why, err)
				}
				return
			}
			if (len(got.CA) == 0) != (c.system || len(c.access.CA) == 0) || got.Token != "secret" {
				t.Errorf("%s: authorities %q", c.why, got.CA)
			}
		})
	}
}

// What a downstream server says is not passed on: the author of the kubeconfig
// chooses which server the manager asks, and must not read the answer in a condition.
func TestPlain(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	wrapped := func(err error) error { return &wrapError{"apply Deployment \"a/fleet-agent\"", err} }
	cases := map[string]struct {
		err    error
		reason string
		says   string
	}{
		"Unauthorized": {wrapped(apierrors.NewUnauthorized("INTERNAL")), clusterimport.ReasonRefused, "401"},
		"Forbidden":    {wrapped(apierrors.NewForbidden(deployments, "x", &wrapError{"INTERNAL", nil})), clusterimport.ReasonRefused, `may not apply Deployment "a/fleet-agent" (403)`},
		"Denied401": {wrapped(apierrors.NewUnauthorized(`admission webhook "INTERNAL" denied the request: INTERNAL`)), clusterimport.ReasonDenied,
			`an admission webhook or policy of that cluster denies an attempt to apply Deployment "a/fleet-agent"`},
		"Denied403": {wrapped(apierrors.NewForbidden(deployments, "x", &wrapError{"ValidatingAdmissionPolicy 'INTERNAL' denied request: INTERNAL", nil})),
			clusterimport.ReasonDenied, `an admission webhook or policy of that cluster denies an attempt to apply Deployment "a/fleet-agent"`},
		"Broken":   {wrapped(apierrors.NewInternalError(&wrapError{"INTERNAL", nil})), "Error", "is answered with 500"},
		"Conflict": {wrapped(apierrors.NewConflict(deployments, "x", &wrapError{"INTERNAL", nil})), "Error", "is answered with 409"},
		"Network":  {wrapped(&net.OpError{Op: "dial", Err: &wrapError{"INTERNAL", nil}}), clusterimport.ReasonUnreachable, "the connection is refused"},
		"Own":      {reconcile.TerminalError("Own", &wrapError{"our own words", nil}), "Own", "our own words"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Plain("https://x", c.err)
			if ReasonOf(got) != c.reason || !strings.Contains(got.Error(), c.says) || strings.Contains(got.Error(), "INTERNAL") {
				t.Errorf("got %s: %v", ReasonOf(got), got)
			}
		})
	}
	if Plain("https://x", nil) != nil {
		t.Error("no error is none")
	}
}

type wrapError struct {
	text string
	err  error
}

func (w *wrapError) Error() string {
	if w.err == nil {
		return w.text
	}
	return w.text + ": " + w.err.Error()
}
func (w *wrapError) Unwrap() error { return w.err }
