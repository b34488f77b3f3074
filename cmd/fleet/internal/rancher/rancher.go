package rancher

import (
	"bytes"
	"cmp"
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
	"sync"
	"time"

	"github.com/rancher/norman/clientbase"
	"github.com/rancher/norman/types"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

const (
	// FromKubeconfig names the Rancher that has made the kubeconfig.
	FromKubeconfig = "kubeconfig"
	// ProxyPath is where Rancher serves the API servers of its clusters.
	ProxyPath = "/k8s/clusters/"
	// EnvRancherToken is the variable of Rancher's other clients that holds a token.
	EnvRancherToken = "RANCHER_TOKEN_KEY"

	rancherTimeout  = time.Minute
	maxAnswerBytes  = 64 << 20
	maxTroubleBytes = 64 << 10
)

// Options lead to a Rancher; with an empty url to none.
type Options struct {
	URL, TokenFile, CAFile string
}

// A rancherServer is a Rancher and how to be let in.
type rancherServer struct {
	base  *url.URL // without a path
	token string
	tls   *tls.Config
}

// rancherPage is how many objects one answer holds.
const rancherPage = "200"

// A Store is one user at one Rancher.
type Store struct {
	transport *transport
	Client    clientbase.APIBaseClient
	std       printer.Stdio
	Scope     string // -n; empty: all workspaces
}

// Open connects to a Rancher server.
func Open(ctx context.Context, g *client.Globals, o Options, std printer.Stdio) (*Store, error) {
	at, err := findPlace(g, o, std)
	if err != nil {
		return nil, err
	}
	way := &transport{ctx: ctx, base: at.base, next: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: at.tls, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
	}}
	if g.Debug {
		way.next = client.Tracer{Next: way.next, Std: std}
	}
	clientbase.Debug = false // it would write to stdout, which is for the answer
	k := &Store{transport: way, std: std, Scope: g.Namespace}
	if err := k.connect(at.token); err != nil {
		return nil, k.DescribeError(err)
	}
	return k, nil
}

// connect learns which types Rancher has and where they are. norman's own function
// for that puts a transport of its own in the place of ours, which would follow
// Rancher's links anywhere.
func (s *Store) connect(token string) error {
	ops := &clientbase.APIOperations{
		Opts:   &clientbase.ClientOpts{URL: s.Address() + "/v3", TokenKey: token},
		Client: &http.Client{Transport: s.transport, Timeout: rancherTimeout},
		Types:  map[string]types.Schema{},
	}
	header, _, err := fetch(ops, ops.Opts.URL)
	if err != nil {
		return err
	}
	at := header.Get("X-API-Schemas")
	if at == "" {
		return errors.New("that is not Rancher's API: it names no schemas")
	}
	_, body, err := fetch(ops, at)
	if err != nil {
		return err
	}
	var schemas types.SchemaCollection
	if err := json.Unmarshal(body, &schemas); err != nil {
		return fmt.Errorf("read its schemas: %w", err)
	}
	for _, schema := range schemas.Data {
		ops.Types[schema.ID] = schema
	}
	s.Client = clientbase.APIBaseClient{Ops: ops, Opts: ops.Opts, Types: ops.Types}
	return nil
}

// fetch gets what is at an address of Rancher's.
func fetch(ops *clientbase.APIOperations, address string) (http.Header, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, address, http.NoBody) //nolint:noctx // the way ends with the command
	if err != nil {
		return nil, nil, err
	}
	ops.SetupRequest(req)
	resp, err := ops.Client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, clientbase.NewAPIError(resp, address)
	}
	body, err := io.ReadAll(resp.Body)
	return resp.Header, body, err
}

// findPlace finds address, token and authorities.
func findPlace(g *client.Globals, o Options, std printer.Stdio) (rancherServer, error) {
	at := rancherServer{tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	address := o.URL
	var cfg *rest.Config
	if address == FromKubeconfig {
		a, err := g.Dial(std)
		if err != nil {
			return at, err
		}
		before, _, ok := strings.Cut(a.Server, ProxyPath)
		if !ok || a.Rest == nil {
			return at, fmt.Errorf("the kubeconfig's server is %s, not Rancher's (which ends with %sNAME): say where Rancher is, --rancher=https://…", a.Server, ProxyPath)
		}
		address, cfg = before, a.Rest
	}
	var err error
	if at.base, err = rancherURL(address); err != nil {
		return at, err
	}
	if err := at.setAuthorities(o.CAFile, cfg); err != nil {
		return at, err
	}
	if at.token, err = rancherToken(o.TokenFile, cfg, std); err != nil {
		return at, err
	}
	return at, nil
}

// rancherURL reads the address of a Rancher. A token is sent in the clear to this
// machine only.
func rancherURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("--rancher: want https://HOST")
	}
	if u.User != nil {
		return nil, errors.New("--rancher: no user and password in the address: --rancher-token-file FILE")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--rancher: http://%s would send the token in the clear; want https", u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v3")}, nil
}

// setAuthorities takes authorities from a file, or from the kubeconfig; else those of the
// system count.
func (at *rancherServer) setAuthorities(file string, cfg *rest.Config) error {
	var pem []byte
	if cfg != nil {
		at.tls.InsecureSkipVerify = cfg.Insecure //nolint:gosec // as the user's kubeconfig says
		at.tls.ServerName = cfg.ServerName
		pem = cfg.CAData
		if file == "" && len(pem) == 0 {
			file = cfg.CAFile
		}
	}
	if file != "" {
		var err error
		if pem, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("--rancher-ca-file: %w", err)
		}
		at.tls.InsecureSkipVerify = false
	}
	if len(pem) == 0 {
		return nil
	}
	at.tls.RootCAs = x509.NewCertPool()
	if !at.tls.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("no certificate in %s", cmp.Or(file, "the kubeconfig's certificate authority"))
	}
	return nil
}

// rancherToken finds the token: in a file, in the environment, or in the kubeconfig
// of that Rancher.
func rancherToken(file string, cfg *rest.Config, std printer.Stdio) (string, error) {
	if file != "" {
		data, err := cli.ReadFile(file, std)
		if err != nil {
			return "", fmt.Errorf("--rancher-token-file: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	if token := os.Getenv(EnvRancherToken); token != "" && cfg == nil {
		return token, nil
	}
	if cfg != nil && cfg.BearerToken != "" {
		return cfg.BearerToken, nil
	}
	if cfg != nil && cfg.BearerTokenFile != "" {
		return rancherToken(cfg.BearerTokenFile, nil, std)
	}
	return "", fmt.Errorf("no token for Rancher: --rancher-token-file FILE, or %s in the environment (in Rancher: Account & API Keys)", EnvRancherToken)
}

// A transport is the only way to Rancher: it ends with the command, leads to no other
// server, and keeps what Rancher says where it refuses.
type transport struct {
	ctx  context.Context //nolint:containedctx // norman's client takes none
	base *url.URL
	next http.RoundTripper

	mu   sync.Mutex
	said refusal
}

// A refusal is what Rancher answers instead.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// RoundTrip sends a request, unless it is for another server: the answers name the
// addresses of further requests, and the token is for this one.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != t.base.Scheme || r.URL.Host != t.base.Host {
		return nil, fmt.Errorf("it calls itself %s://%s, where the token was not meant to go: use that address, --rancher=%s://%s",
			r.URL.Scheme, r.URL.Host, r.URL.Scheme, r.URL.Host)
	}
	r = r.Clone(t.ctx)
	r.Header.Set("User-Agent", "fleet/"+version.Version)
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := resp.Body
	if resp.StatusCode < http.StatusMultipleChoices {
		resp.Body = readCloser{io.LimitReader(body, maxAnswerBytes), body}
		return resp, nil
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxTroubleBytes))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = refusal{}
	_ = json.Unmarshal(data, &t.said) // another text says nothing
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// Address is where the Rancher is.
func (s *Store) Address() string { return s.transport.base.String() }

// List lists all objects of a type, page by page.
func List[T any](k *Store, typ string, filters map[string]any) ([]T, error) {
	type list struct {
		types.Collection
		Data []T `json:"data"`
	}
	opts := clientbase.NewListOpts()
	opts.Filters["limit"] = rancherPage
	for field, value := range filters {
		opts.Filters[field] = value
	}
	var out []T
	var page list
	for err := k.Client.List(typ, opts, &page); ; {
		if err != nil {
			return nil, k.DescribeError(err)
		}
		out = append(out, page.Data...)
		if page.Pagination == nil || page.Pagination.Next == "" {
			return out, nil
		}
		next := page.Pagination.Next
		page = list{}
		err = k.Client.Ops.DoNext(next, &page)
	}
}

// DescribeError puts an error of Rancher's into words.
func (s *Store) DescribeError(err error) error {
	var refused *clientbase.APIError
	var urlErr *url.Error
	switch {
	case err == nil:
		return nil
	case s.transport.ctx.Err() != nil:
		return context.Cause(s.transport.ctx)
	case errors.As(err, &refused):
	case errors.As(err, &urlErr):
		return fmt.Errorf("cannot reach Rancher at %s: %w", s.Address(), urlErr.Err)
	default:
		return fmt.Errorf("Rancher at %s: %w", s.Address(), err) //nolint:staticcheck // a name
	}
	s.transport.mu.Lock()
	said := cmp.Or(s.transport.said.Message, s.transport.said.Code, refused.Status)
	s.transport.mu.Unlock()
	switch {
	case refused.StatusCode == http.StatusForbidden, refused.StatusCode == http.StatusUnauthorized && kube.DeniedMessage(said):
		return fmt.Errorf("Rancher at %s does not let you do this: %s", s.Address(), said) //nolint:staticcheck // a name
	case refused.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("Rancher at %s does not accept the token: %s", s.Address(), said) //nolint:staticcheck // a name
	}
	return fmt.Errorf("Rancher at %s answers %d: %s", s.Address(), refused.StatusCode, said) //nolint:staticcheck // a name
}
