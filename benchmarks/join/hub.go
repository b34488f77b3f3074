package join

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// workspace is where the clusters join, with one token.
const (
	workspace = fleet.NamespaceDefault
	tokenName = "bench"
	ownAgent  = "bench"
	deleters  = 16 // Clusters that are deleted at once
)

// A hub is the management cluster.
type hub struct {
	*cluster.Cluster
	admin *kube.Client
}

// newHub makes kinds, namespaces, the manager's settings and the rights of agents.
func newHub(ctx context.Context, c *cluster.Cluster) (*hub, error) {
	admin, err := kube.Connect(kube.Config{REST: c.REST(), UserAgent: ownAgent, FieldManager: ownAgent})
	if err != nil {
		return nil, err
	}
	h := &hub{Cluster: c, admin: admin}
	if err := harness.InstallKinds(ctx, admin); err != nil {
		return nil, err
	}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceRegistration, workspace} { // what is there for all
		if _, err := kube.StoreOf[*corev1.Namespace](admin).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	config, err := yaml.Marshal(map[string]any{
		"apiServerURL": c.URL(), "apiServerCA": c.CA(), "manageAgent": false, "bootstrap": map[string]any{"namespace": "-"},
	})
	if err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	_, err = kube.StoreOf[*corev1.ConfigMap](admin).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController},
		Data:       map[string]string{fleet.KeyConfig: string(config)},
	})
	if err != nil {
		return nil, err
	}
	for name, rule := range map[string]rbacv1.PolicyRule{
		"fleet-bundle-deployment": {APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
		"fleet-content":           {APIGroups: []string{fleet.Group}, Resources: []string{"contents"}, Verbs: []string{"get"}},
	} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		if _, err := kube.StoreOf[*rbacv1.ClusterRole](admin).Create(ctx, role); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// as is a connection of its own with a bearer token.
func (h *hub) as(token string) (*kube.Client, error) {
	return kube.Connect(kube.Config{
		REST:      kube.Access{URL: h.URL(), CA: h.CA(), Token: token}.REST(),
		UserAgent: userAgent, FieldManager: fleet.FieldManagerAgent,
	})
}

// token makes a registration token, and waits for its values.
func (h *hub) token(ctx context.Context) (registration.Bootstrapping, error) {
	tokens := kube.StoreOf[*fleet.ClusterRegistrationToken](h.admin)
	key := kube.Key{Namespace: workspace, Name: tokenName}
	_, err := tokens.Create(ctx, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	if err != nil {
		return registration.Bootstrapping{}, err
	}
	for {
		t, err := tokens.Get(ctx, key)
		if err != nil {
			return registration.Bootstrapping{}, err
		}
		if t.Status.SecretName != "" {
			break
		}
		if err := kube.Sleep(ctx, firstLook); err != nil {
			return registration.Bootstrapping{}, context.Cause(ctx)
		}
	}
	values, err := kube.StoreOf[*corev1.Secret](h.admin).Get(ctx, key)
	if err != nil {
		return registration.Bootstrapping{}, err
	}
	return registration.ReadTokenSecret(values)
}

// deleteClusters deletes all Clusters, as a person does.
func (h *hub) deleteClusters(ctx context.Context) error {
	store := kube.StoreOf[*fleet.Cluster](h.admin)
	clusters, err := store.List(ctx, workspace, "")
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deleters)
	for _, c := range clusters {
		group.Go(func() error { return store.Delete(ctx, kube.KeyOf(c), kube.Precondition{}) })
	}
	return group.Wait()
}

// connected reports whether a Cluster says that its agent checks in.
func connected(c *fleet.Cluster) bool {
	return condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected)
}

// A census is how many objects there are of each resource.
type census map[string]int

// passing are resources whose objects come and go by themselves.
var passing = map[string]bool{"events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io": true}

// census counts all objects of the hub but those that pass by themselves.
func (h *hub) census(ctx context.Context) (census, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(h.REST())
	if err != nil {
		return nil, fmt.Errorf("count objects: %w", err)
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("count objects: %w", err)
	}
	client, err := metadata.NewForConfig(h.REST())
	if err != nil {
		return nil, fmt.Errorf("count objects: %w", err)
	}
	out := census{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("count objects: %w", err)
		}
		for _, r := range list.APIResources {
			kind := version.WithResource(r.Name)
			if !slices.Contains(r.Verbs, "list") || passing[kind.GroupResource().String()] {
				continue
			}
			if out[kind.GroupResource().String()], err = count(ctx, client, kind); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func count(ctx context.Context, client metadata.Interface, kind schema.GroupVersionResource) (int, error) {
	n := 0
	for opts := (metav1.ListOptions{Limit: 500}); ; {
		list, err := client.Resource(kind).List(ctx, opts)
		if err != nil {
			return 0, fmt.Errorf("count %s: %w", kind.Resource, err)
		}
		n += len(list.Items)
		if opts.Continue = list.Continue; opts.Continue == "" {
			return n, nil
		}
	}
}

// minus is what there is more than in another census.
func (c census) minus(o census) census {
	out := census{}
	for kind, n := range c {
		if n > o[kind] {
			out[kind] = n - o[kind]
		}
	}
	return out
}

func (c census) same(o census) bool { return maps.Equal(c, o) }

func (c census) total() int {
	sum := 0
	for _, n := range c {
		sum += n
	}
	return sum
}

// String lists what there is.
func (c census) String() string { return c.per(1) }

// per lists what there is for each of n.
func (c census) per(n float64) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%.3g %s", float64(c[kind])/n, kind))
	}
	return strings.Join(parts, ", ")
}

// Who has sent a request.
const (
	whoAgent      = "agents"
	whoManager    = "the manager"
	whoKubernetes = "Kubernetes itself"
)

// countRequests counts requests by who has sent them, and those that were turned
// away. This process' own and the API server's word with itself are left out.
func countRequests(list []harness.Request) (by map[string]int, refused int) {
	by = map[string]int{}
	for _, r := range list {
		if r.Code == 429 {
			refused++
		}
		switch {
		case strings.HasPrefix(r.Agent, userAgent):
			by[whoAgent]++
		case strings.HasPrefix(r.Agent, "fleet-"):
			by[whoManager]++
		case strings.HasPrefix(r.Agent, ownAgent), r.User == "system:apiserver", r.Resource == "leases", r.User == "system:admin":
		default:
			by[whoKubernetes]++
		}
	}
	return by, refused
}
