package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
)

// Applier applies objects to another cluster, as kubectl apply --server-side
// does.
type Applier func(ctx context.Context, to Access, objects []*unstructured.Unstructured) error

// ApplyObjects applies objects in their order. It takes over fields that another client
// has set: the objects belong to the agent.
func ApplyObjects(ctx context.Context, to Access, objects []*unstructured.Unstructured) error {
	disco, err := discovery.NewDiscoveryClientForConfig(to.Rest)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(to.Rest)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return DescribeServerError(to.Server, err)
		}
		resource := dynamic.ResourceInterface(client.Resource(m.Resource))
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = client.Resource(m.Resource).Namespace(o.GetNamespace())
		}
		if _, err := resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: FieldManager, Force: true}); err != nil {
			return fmt.Errorf("%s %q: %w", strings.ToLower(gvk.Kind), o.GetName(), DescribeServerError(to.Server, err))
		}
	}
	return nil
}

// OpenKubeconfig is access by another kubeconfig or context than that of the
// command.
func OpenKubeconfig(std printer.Stdio, file, context string) (Access, error) {
	return (&Globals{Kubeconfig: file, Context: context}).Open(std)
}

// hopLimit is how long one part of the way may take.
const hopLimit = 5 * time.Second

// answerLimit is how much of an answer is read.
const answerLimit = 1 << 20

// ProbeServer asks an API server for its version.
func ProbeServer(ctx context.Context, a Access) diagnose.ServerSeen {
	seen := diagnose.ServerSeen{URL: a.Server}
	cfg := rest.CopyConfig(a.Rest)
	cfg.Timeout = hopLimit
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		seen.Failed = &diagnose.ConnectionStep{Part: "kubeconfig", Text: err.Error()}
		return seen
	}
	began := time.Now()
	address := a.Server
	if !strings.Contains(address, "://") {
		address = "http://" + address // as client-go reads it
	}
	body, failed := getVersion(ctx, client, address)
	seen.Took, seen.Failed = time.Since(began), failed
	var v version.Info
	if failed == nil && (json.Unmarshal(body, &v) != nil || v.GitVersion == "") {
		seen.Failed = &diagnose.ConnectionStep{Part: "answer", Text: "that is no API server of Kubernetes"}
	}
	seen.Version = v.GitVersion
	return seen
}

// VisitAddress checks whether an API server answers at an address, with the authorities
// that agents trust. The request is anonymous, so a refusal is an answer, too.
func VisitAddress(ctx context.Context, address string, ca []byte) *diagnose.ConnectionStep {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(ca) {
			return &diagnose.ConnectionStep{Part: "TLS", Text: "the configured certificate authority is no certificate"}
		}
	}
	transport := &http.Transport{TLSClientConfig: cfg, Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	_, failed := getVersion(ctx, &http.Client{Transport: transport, Timeout: hopLimit}, address)
	if failed != nil && failed.Part == hopCredentials {
		return nil
	}
	return failed
}

// getVersion gets /version of a server.
func getVersion(ctx context.Context, client *http.Client, address string) ([]byte, *diagnose.ConnectionStep) {
	ctx, cancel := context.WithTimeout(ctx, 2*hopLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/version", nil)
	if err != nil {
		return nil, &diagnose.ConnectionStep{Part: "address", Text: "that is no URL"}
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, hopOf(err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, &diagnose.ConnectionStep{Part: hopCredentials, Text: "the server refuses them (" + answer.Status + ")"}
	default:
		text := answer.Status
		if answer.StatusCode == http.StatusBadRequest && r.URL.Scheme == "http" {
			text += ": if the server speaks HTTPS, write https://"
		}
		return nil, &diagnose.ConnectionStep{Part: "answer", Text: text}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return nil, hopOf(err)
	}
	return bytes.TrimSpace(body), nil
}

// hopCredentials is the part of the way at which a server says no.
const hopCredentials = "credentials"

// hopOf names the part of the way at which a request ended.
func hopOf(err error) *diagnose.ConnectionStep {
	var dns *net.DNSError
	var op *net.OpError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var outer *url.Error
	text := err.Error()
	if errors.As(err, &outer) {
		text = outer.Err.Error()
	}
	switch {
	case errors.As(err, &dns):
		return &diagnose.ConnectionStep{Part: "name", Text: fmt.Sprintf("%q is not known (%s)", dns.Name, dns.Err)}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &diagnose.ConnectionStep{Part: "TLS", Text: "the server speaks plain HTTP"}
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &alert), errors.As(err, &record):
		return &diagnose.ConnectionStep{Part: "TLS", Text: strings.TrimPrefix(text, "tls: failed to verify certificate: x509: ")}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &diagnose.ConnectionStep{Part: "connection", Text: "refused: nothing listens there"}
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return &diagnose.ConnectionStep{Part: "connection", Text: "no answer in time: dropped on the way, or the server hangs"}
	case errors.As(err, &op) && op.Op == "dial":
		return &diagnose.ConnectionStep{Part: "connection", Text: text}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return &diagnose.ConnectionStep{Part: "connection", Text: "ended by the other side"}
	}
	return &diagnose.ConnectionStep{Part: "request", Text: text}
}

// AbsentOK returns an error, except one that says that an object is missing.
func AbsentOK(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
