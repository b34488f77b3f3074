// Package helm is the port to Helm's library (v3): it turns the resources of a bundle
// into a chart in memory, installs, upgrades, corrects and removes releases, and reads
// Helm's storage. What to do next is decided elsewhere (pkg/plan/release); the caller
// of an action observes the release again afterwards.
//
// Actions are idempotent as far as Helm is: a process that is killed in any of them
// leaves a record in Helm's storage from which the next one continues. Nothing is
// logged, and nothing is read from the environment.
package helm

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	helmkube "helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Helm takes the field manager of what it writes from a variable of its own
// and otherwise from the name of the binary. It is set here, before anything
// can run, to the name that rancher/fleet's agent has, so that releases can go
// from one to the other and back.
func init() { helmkube.ManagedFieldsManager = fleet.FieldManagerRelease }

// Config says which cluster to deploy to, and for which agent.
type Config struct {
	// REST is the connection, with the agent's own rights.
	REST *rest.Config
	// AgentNamespace is the namespace of the agent. Releases name it, and service
	// accounts are looked up in it.
	AgentNamespace string
	// AgentScope distinguishes the objects of several agents in one cluster; it is part
	// of their object set id. Usually empty.
	AgentScope string
	// RecordBytes is the longest record that is kept in one Secret. 0 is as much as a
	// Secret takes; tests of what happens above the limit set less.
	RecordBytes int
}

// A Client deploys to one cluster. It may be used by several goroutines, but
// by one at a time for the same release.
type Client struct {
	cfg   Config
	admin kubernetes.Interface
	api   *kindCache
	store *recordStore

	accounts accounts
	reserved *reservations
}

// Connect prepares a client; it sends no request.
func Connect(cfg Config) (*Client, error) {
	if cfg.REST == nil {
		return nil, errors.New("helm: no REST configuration")
	}
	cfg.REST = rest.CopyConfig(cfg.REST)
	cfg.REST.QPS, cfg.REST.Burst, cfg.REST.RateLimiter = -1, 0, nil
	if cfg.REST.WarningHandler == nil {
		cfg.REST.WarningHandler = rest.NoWarnings{} // they repeat what templates made of values
	}
	admin, err := kubernetes.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	disco := memory.NewMemCacheClient(admin.Discovery())
	return &Client{
		cfg: cfg, admin: admin,
		api:      &kindCache{discovery: disco, mapper: restmapper.NewDeferredDiscoveryRESTMapper(disco)},
		store:    &recordStore{admin: admin, bodies: newBodies(), agentNamespace: cfg.AgentNamespace, recordBytes: cmp.Or(cfg.RecordBytes, recordLimit)},
		reserved: &reservations{holders: map[string]release.ID{}},
	}, nil
}

// Refresh forgets which kinds the cluster serves. They are asked for again
// when they are needed next. Call it when a CRD came or went.
func (c *Client) Refresh() { c.api.refresh() }

// KubernetesVersion returns the version of the cluster, for example "v1.36.3".
func (c *Client) KubernetesVersion() (string, error) {
	known, err := c.api.knownCapabilities()
	if err != nil {
		return "", err
	}
	return known.KubeVersion.Version, nil
}

// kindCache caches the discovery of the kinds that the cluster serves. All actions share
// it, so that none of them has to ask again.
type kindCache struct {
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.ResettableRESTMapper

	// user is who asks, and shared is what the agent knows; both are empty in
	// the agent's own.
	user   string
	shared *kindCache

	mu    sync.Mutex
	caps  *chartutil.Capabilities
	users map[string]bool // that were found to be allowed to know
}

func (k *kindCache) refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.caps, k.users = nil, nil
	k.mapper.Reset()
}

// knownCapabilities returns what templates see as .Capabilities.
func (k *kindCache) knownCapabilities() (*chartutil.Capabilities, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.caps != nil {
		return k.caps.Copy(), nil
	}
	version, err := k.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	versions, err := action.GetVersionSet(k.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the cluster for its kinds: %w", err)
	}
	k.caps = &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	return k.caps.Copy(), nil
}

// getter hands an identity to Helm's library, with the shared knowledge of the
// cluster's kinds.
type getter struct {
	api       *kindCache
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
