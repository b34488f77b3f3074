package helm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// defaultAccount is the service account that deployments use that name none,
// where it exists in the agent's namespace.
const defaultAccount = "fleet-default"

// An accountFor is the identity that one action works with.
type account struct {
	user   string // whom the agent impersonates; empty: it acts as itself
	config *rest.Config
	client kubernetes.Interface
	api    *kindCache
}

// Rights are the rights with which an existing release is corrected or removed. They
// come from the deployment: the record of the release is in a namespace where tenants
// may write.
type Rights struct {
	// ServiceAccount is that of the options; see User.
	ServiceAccount string
	// Namespace is the only one that may be touched; empty: any.
	Namespace string
}

// RightsOf returns the rights of deployments with these options. A deployment that is
// restricted to some namespaces has no rights outside of its own.
func RightsOf(o fleet.BundleDeploymentOptions) Rights {
	out := Rights{ServiceAccount: o.ServiceAccount, Namespace: o.TargetNamespace}
	if out.Namespace == "" && o.AllowedTargetNamespaceSelector != nil {
		out.Namespace = orDefault(o.DefaultNamespace)
	}
	return out
}

// accounts remembers which service accounts were there a moment ago.
type accounts struct {
	mu    sync.Mutex
	users map[string]seenUser // by name in the options
}

type seenUser struct {
	user    string
	checked time.Time
}

// seenLong is how long User trusts what it has seen.
const seenLong = 30 * time.Second

// User returns the user that acts for deployments with this service account in their
// options: the account of that name in the agent's namespace; without a name
// fleet-default if it exists there. It is empty where the agent acts as itself. An
// account that does not exist is reconcile.RequeueAfter, one that is Fleet's own is
// reconcile.Terminal.
//
// The answer may be 30 s old, so it is for reads; actions ask again.
func (c *Client) User(ctx context.Context, serviceAccount string) (string, error) {
	c.accounts.mu.Lock()
	seen, ok := c.accounts.users[serviceAccount]
	c.accounts.mu.Unlock()
	if ok && time.Since(seen.checked) < seenLong {
		return seen.user, nil
	}
	return c.user(ctx, serviceAccount)
}

func (c *Client) user(ctx context.Context, name string) (string, error) {
	found, err := c.lookFor(ctx, name)
	c.accounts.mu.Lock()
	defer c.accounts.mu.Unlock()
	delete(c.accounts.users, name)
	if err != nil {
		return "", err
	}
	if c.accounts.users == nil {
		c.accounts.users = map[string]seenUser{}
	}
	c.accounts.users[name] = seenUser{user: found, checked: time.Now()}
	return found, nil
}

// lookFor reads a service account, with the agent's own rights: who acts for a
// tenant is not the tenant's to say.
func (c *Client) lookFor(ctx context.Context, name string) (string, error) {
	required := name != ""
	if !required {
		name = defaultAccount
	}
	if naming.FleetAccount(name) {
		return "", c.refuseAccount(name)
	}
	account, err := c.admin.CoreV1().ServiceAccounts(c.cfg.AgentNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && required:
		return "", reconcile.RequeueError(release.ReasonNoAccount, waitForOthers,
			fmt.Errorf("service account %q does not exist in namespace %q", name, c.cfg.AgentNamespace))
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get service account %q: %w", name, err)
	}
	user := fmt.Sprintf("system:serviceaccount:%s:%s", c.cfg.AgentNamespace, name)
	if naming.MarkedAccount(account.Labels, account.Annotations) || user == credential.SubjectOf(c.cfg.REST.BearerToken) {
		return "", c.refuseAccount(name)
	}
	return user, nil
}

// refuseAccount refuses an account with which a bundle would be Fleet itself.
func (c *Client) refuseAccount(name string) error {
	return reconcile.TerminalError(release.ReasonReservedAccount, fmt.Errorf(
		"service account %q of namespace %q is Fleet's own, and no bundle may act as it; set serviceAccount to one that has the rights of this bundle",
		name, c.cfg.AgentNamespace))
}

// accountFor is the identity that acts for deployments with this service account
// in their options; see User.
func (c *Client) accountFor(ctx context.Context, name string) (account, error) {
	user, err := c.user(ctx, name)
	if err != nil {
		return account{}, err
	}
	if user == "" {
		return account{config: c.cfg.REST, client: c.admin, api: c.api}, nil
	}
	cfg := rest.CopyConfig(c.cfg.REST)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return account{}, fmt.Errorf("impersonate %q: %w", user, err)
	}
	return account{user: user, config: cfg, client: client, api: c.api.forUser(user, client)}, nil
}

// impersonated reports whether the account is another one than the agent.
func (a account) impersonated() bool { return a.user != "" }

// forUser returns the same knowledge of the cluster's kinds for another user. It uses what
// the agent knows already, since that is the same for every user, and asks for the rest
// with the user's rights.
func (k *kindCache) forUser(user string, client kubernetes.Interface) *kindCache {
	disco := memory.NewMemCacheClient(client.Discovery())
	own := restmapper.NewDeferredDiscoveryRESTMapper(disco)
	return &kindCache{
		discovery: disco, user: user, shared: k,
		mapper: sharedMapper{
			FirstHitRESTMapper: meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{k.mapper, own}},
			own:                own,
		},
	}
}

// sharedMapper looks kinds up in the agent's knowledge first. Reset empties the
// user's own part.
type sharedMapper struct {
	meta.FirstHitRESTMapper
	own *restmapper.DeferredDiscoveryRESTMapper
}

func (m sharedMapper) Reset() { m.own.Reset() }

// capabilities returns the capabilities of the cluster for templates. An account other
// than the agent's needs the right to list the API groups. That right is checked once
// until the kinds change.
func (k *kindCache) capabilities(ctx context.Context) (*chartutil.Capabilities, error) {
	if k.shared == nil {
		return k.knownCapabilities()
	}
	s := k.shared
	s.mu.Lock()
	allowed := s.users[k.user]
	s.mu.Unlock()
	if !allowed {
		if err := k.discovery.RESTClient().Get().AbsPath("/apis").Do(ctx).Error(); err != nil {
			return nil, fmt.Errorf("ask the cluster for its kinds: %w", err)
		}
		s.mu.Lock()
		if s.users == nil {
			s.users = map[string]bool{}
		}
		s.users[k.user] = true
		s.mu.Unlock()
	}
	return s.knownCapabilities()
}
