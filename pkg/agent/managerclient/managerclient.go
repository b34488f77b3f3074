// Package managerclient is an agent's connection to its manager: one kube.Conn, over
// which the agent checks in and watches its BundleDeployments. While the manager is
// down, only the check-in sends requests, with delays of its own. All other requests
// wait, fail at once, or resume when the manager answers again.
package managerclient

import (
	"context"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Config says to which manager, and as whom.
type Config struct {
	REST      *rest.Config // the credential
	Namespace string       // of the agent's BundleDeployments
	UserAgent string
	Proxy     func(*http.Request) (*url.URL, error) // nil: none
	// CheckIn configures the check-ins; its Statuses are those of the connection.
	CheckIn checkin.Config
	// Listed: the deployments are read once instead of watched.
	Listed bool
}

// A Client is one connection, to be used until it is closed.
type Client struct {
	Deployments *kube.Cache[*fleet.BundleDeployment]
	Statuses    *kube.Store[*fleet.BundleDeployment]
	Contents    *kube.Store[*fleet.Content]
	Secrets     *kube.Store[*corev1.Secret]
	ConfigMaps  *kube.Store[*corev1.ConfigMap]

	line  *kube.Conn
	check *checkin.CheckIn
}

// New prepares a connection; it sends no request. An error says that the credential
// cannot be used.
func New(cfg Config) (*Client, error) {
	u := &Client{}
	line, err := kube.NewConn(cfg.REST, cfg.Proxy, func() { u.check.Doubt() })
	if err != nil {
		return nil, err
	}
	up, err := kube.Connect(kube.Config{REST: cfg.REST, UserAgent: cfg.UserAgent, FieldManager: fleet.FieldManagerAgent, Line: line})
	if err != nil {
		return nil, err
	}
	loop := up.Loop("deploy")
	open := kube.NewCache[*fleet.BundleDeployment]
	if cfg.Listed {
		open = kube.NewListed[*fleet.BundleDeployment]
	}
	u.line = line
	u.Deployments = open(loop.Patient(), kube.Watch{Namespace: cfg.Namespace}, deploy.Transform)
	u.Statuses = kube.StoreOf[*fleet.BundleDeployment](loop)
	u.Contents = kube.StoreOf[*fleet.Content](loop)
	u.Secrets = kube.StoreOf[*corev1.Secret](loop)
	u.ConfigMaps = kube.StoreOf[*corev1.ConfigMap](loop)
	cfg.CheckIn.Statuses = kube.StoreOf[*fleet.Cluster](up.Loop("checkin").Probing())
	u.check = checkin.New(cfg.CheckIn)
	return u, nil
}

// Run checks in at the configured times and keeps the deployments current until ctx
// ends. It begins when ready is closed.
func (c *Client) Run(ctx context.Context, ready <-chan struct{}) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.check.Run(ctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			return c.Deployments.Run(ctx)
		}
	})
	return group.Wait()
}

// List reads the deployments and keeps them current until ctx ends. It does not check
// in.
func (c *Client) List(ctx context.Context) error { return c.Deployments.Run(ctx) }

// CheckIn checks in one time.
func (c *Client) CheckIn(ctx context.Context) (checkin.Answer, error) { return c.check.Once(ctx) }

// Soon makes Run check in at once.
func (c *Client) Soon() { c.check.Soon() }

// Down returns why the manager cannot be reached; nil: it can, as far as is known.
func (c *Client) Down() error { return c.line.Down() }

// Open returns the number of open connections to the manager.
func (c *Client) Open() int { return c.line.Open() }

// Close closes all connections. The cached deployments stay readable.
func (c *Client) Close() { c.line.Close() }

// Synced waits for the first list of deployments.
func (c *Client) Synced(ctx context.Context) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !c.Deployments.HasSynced() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
	return nil
}
