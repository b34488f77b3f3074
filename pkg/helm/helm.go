// Package helm is the port to Helm's library (v3): it turns the resources of a
// bundle into a chart in memory, installs, upgrades, corrects and removes
// releases, and reads Helm's storage. What to do next is decided elsewhere
// (pkg/plan/release); whoever calls an action here observes again afterwards.
//
// Actions are idempotent as far as Helm is: a process that is killed in any of
// them leaves a record in Helm's storage from which the next one goes on.
// Nothing is logged, and nothing is read from the environment.
package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	helmkube "helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Helm takes the field manager of what it writes from a variable of its own
// and otherwise from the name of the binary. It is set here, before anything
// can run, to the name that the reference's agent has, so that releases can go
// from one to the other and back.
func init() { helmkube.ManagedFieldsManager = fleet.FieldManagerRelease }

// defaultAccount is the service account that deployments use that name none,
// where it exists in the agent's namespace.
const defaultAccount = "fleet-default"

// Config says which cluster to deploy to, and for which agent.
type Config struct {
	// REST is the connection, with the agent's own rights.
	REST *rest.Config
	// AgentNamespace is where the agent lives. Releases carry it, and service
	// accounts are looked up in it.
	AgentNamespace string
	// AgentScope tells the objects of several agents in one cluster apart; it
	// is part of their object set id. Usually empty.
	AgentScope string
}

// A Client deploys to one cluster. It may be used by several goroutines, but
// by one at a time for the same release.
type Client struct {
	cfg   Config
	admin kubernetes.Interface
	api   *api

	bodies *bodies
}

// Connect prepares a client; it sends no request.
func Connect(cfg Config) (*Client, error) {
	if cfg.REST == nil {
		return nil, errors.New("helm: no REST configuration")
	}
	cfg.REST = rest.CopyConfig(cfg.REST)
	cfg.REST.QPS, cfg.REST.Burst, cfg.REST.RateLimiter = -1, 0, nil
	admin, err := kubernetes.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	disco := memory.NewMemCacheClient(admin.Discovery())
	return &Client{cfg: cfg, admin: admin, bodies: newBodies(), api: &api{
		discovery: disco,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(disco),
	}}, nil
}

// Refresh forgets which kinds the cluster serves. They are asked for again
// when they are needed next. Call it when a CRD came or went.
func (c *Client) Refresh() { c.api.refresh() }

// KubernetesVersion is that of the cluster, for example "v1.36.3".
func (c *Client) KubernetesVersion() (string, error) {
	known, err := c.api.known()
	if err != nil {
		return "", err
	}
	return known.KubeVersion.Version, nil
}

// api is what is known of the kinds that the cluster serves, shared by all
// actions so that none of them has to ask anew.
type api struct {
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper

	mu           sync.Mutex
	capabilities *chartutil.Capabilities
}

func (a *api) refresh() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.capabilities = nil
	a.mapper.Reset()
}

// known returns what templates see as .Capabilities.
func (a *api) known() (*chartutil.Capabilities, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.capabilities != nil {
		return a.capabilities.Copy(), nil
	}
	version, err := a.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	versions, err := action.GetVersionSet(a.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the cluster for its kinds: %w", err)
	}
	a.capabilities = &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	return a.capabilities.Copy(), nil
}

// An account is the identity that one action works with.
type account struct {
	rest   *rest.Config
	client kubernetes.Interface
}

// account is the identity of a service account in the agent's namespace; with
// an empty name that of fleet-default if it exists, else the agent's own. An
// account that does not exist is fault.Wait.
func (c *Client) account(ctx context.Context, name string) (account, error) {
	required := name != ""
	if !required {
		name = defaultAccount
	}
	_, err := c.admin.CoreV1().ServiceAccounts(c.cfg.AgentNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && required:
		return account{}, fault.WaitError(release.ReasonNoAccount, waitForOthers,
			fmt.Errorf("service account %q does not exist in namespace %q", name, c.cfg.AgentNamespace))
	case apierrors.IsNotFound(err):
		return account{rest: c.cfg.REST, client: c.admin}, nil
	case err != nil:
		return account{}, fmt.Errorf("get service account %q: %w", name, err)
	}
	cfg := rest.CopyConfig(c.cfg.REST)
	cfg.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:%s", c.cfg.AgentNamespace, name)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return account{}, fmt.Errorf("impersonate service account %q: %w", name, err)
	}
	return account{rest: cfg, client: client}, nil
}

// getter hands an identity to Helm's library, with the shared knowledge of the
// cluster's kinds.
type getter struct {
	api       *api
	rest      *rest.Config
	namespace string
}

func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.rest), nil }

func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.api.discovery, nil
}

func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return g.api.mapper, nil }

func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: orDefault(g.namespace)}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}

func orDefault(namespace string) string {
	if namespace == "" {
		return corev1.NamespaceDefault
	}
	return namespace
}
