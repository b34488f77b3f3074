package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Names in the world of an agent.
const (
	agentNamespace = fleet.NamespaceSystem
	agentAccount   = "fleet-agent"
	workspace      = fleet.NamespaceDefault
	clusterName    = "site"
	deployments    = "cluster-site" // namespace of the BundleDeployments
	account        = "request"      // of the agent at the manager
	target         = "bench"        // namespace of what is deployed
)

// day is how long credentials are good for.
const day = int64(24 * 60 * 60)

// A world is a management cluster and a site with one agent. This process is
// the manager.
type world struct {
	*bench
	hub, site *side
	agent     *agent
	seen      *seen
	stop      context.CancelFunc
}

// A side is one cluster, as its administrator reaches it.
type side struct {
	*cluster.Cluster
	admin  *kube.Client
	client kubernetes.Interface
}

func openWorld(ctx context.Context, b *bench, name string) (_ *world, err error) {
	w := &world{bench: b, stop: func() {}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	dir := filepath.Join(b.dir, name)
	for name, s := range map[string]**side{"hub": &w.hub, "site": &w.site} {
		if *s, err = openSide(ctx, cluster.Config{Name: name, Dir: filepath.Join(dir, name), Binary: b.binary}); err != nil {
			return nil, err
		}
	}
	if err := w.prepareHub(ctx); err != nil {
		return nil, fmt.Errorf("prepare the hub: %w", err)
	}
	config, err := w.prepareSite(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("prepare the site: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	w.stop = stop
	if w.seen, err = follow(watching, w); err != nil {
		return nil, err
	}
	w.agent = newAgent(b.settings, dir, config)
	return w, w.agent.start()
}

func openSide(ctx context.Context, cfg cluster.Config) (*side, error) {
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &side{Cluster: c}
	if s.client, err = kubernetes.NewForConfig(c.REST()); err == nil {
		s.admin, err = kube.Connect(kube.Config{REST: c.REST(), UserAgent: "benchagent", FieldManager: fleet.FieldManagerController})
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return s, nil
}

func (w *world) close() {
	if w.agent != nil {
		w.agent.kill()
	}
	w.stop()
	for _, s := range []*side{w.hub, w.site} {
		if s != nil {
			s.Stop()
		}
	}
}

func (s *side) namespaces(ctx context.Context, names ...string) error {
	store := kube.StoreOf[*corev1.Namespace](s.admin)
	for _, name := range names {
		if _, err := store.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}

// token makes an account, and a token of it.
func (s *side) token(ctx context.Context, namespace, name string) (string, error) {
	accounts := s.client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("make account %q: %w", name, err)
	}
	seconds := day
	t, err := accounts.CreateToken(ctx, name, &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make token of %q: %w", name, err)
	}
	return t.Status.Token, nil
}

// prepareHub makes what a manager has made of a cluster that has registered.
func (w *world) prepareHub(ctx context.Context) error {
	if err := harness.InstallKinds(ctx, w.hub.admin); err != nil {
		return err
	}
	if err := w.hub.namespaces(ctx, agentNamespace, workspace, deployments); err != nil {
		return err
	}
	_, err := kube.StoreOf[*fleet.Cluster](w.hub.admin).Create(ctx, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: clusterName, Annotations: map[string]string{fleet.AnnotationManager: "bench/1/1"},
	}})
	return err
}

// prepareSite registers the site, and returns the kubeconfig of the agent in its
// own cluster.
func (w *world) prepareSite(ctx context.Context, dir string) (string, error) {
	if err := w.site.namespaces(ctx, agentNamespace); err != nil {
		return "", err
	}
	up, err := w.hub.token(ctx, deployments, account)
	if err != nil {
		return "", err
	}
	if err := w.hub.grant(ctx); err != nil {
		return "", err
	}
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"m",
"clusters":[{"name":"m","cluster":{"server":%q,"certificate-authority-data":%q}}],
"users":[{"name":"m","user":{"token":%q}}],"contexts":[{"name":"m","context":{"cluster":"m","user":"m"}}]}`,
		w.hub.URL(), base64.StdEncoding.EncodeToString(w.hub.CA()), up)
	_, err = kube.StoreOf[*corev1.Secret](w.site.admin).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: fleet.SecretAgent},
		Data: map[string][]byte{
			"kubeconfig": []byte(config), "deploymentNamespace": []byte(deployments),
			"clusterNamespace": []byte(workspace), "clusterName": []byte(clusterName),
		},
	})
	if err != nil {
		return "", err
	}
	down, err := w.site.token(ctx, agentNamespace, agentAccount)
	if err != nil {
		return "", err
	}
	_, err = w.site.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: agentAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: agentNamespace, Name: agentAccount}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("bind the agent's account: %w", err)
	}
	path := filepath.Join(dir, "agent.kubeconfig")
	return path, kubeconfig.Write(path, kubeconfig.Entry{Name: "site", Server: w.site.URL(), CA: w.site.CA(), Token: down})
}

// grant gives the agent's account the rights of production.
func (s *side) grant(ctx context.Context) error {
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: deployments, Name: account}}
	api := s.client.RbacV1()
	role := func(name string, rules ...rbacv1.PolicyRule) error {
		_, err := api.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		return err
	}
	bind := func(namespace, name string) error {
		_, err := api.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: who,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}, metav1.CreateOptions{})
		return err
	}
	err := errors.Join(
		role("deployments",
			rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
			rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}}),
		role("cluster", rbacv1.PolicyRule{
			APIGroups: []string{fleet.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{clusterName}, Verbs: []string{"patch"},
		}),
		role("contents", rbacv1.PolicyRule{APIGroups: []string{fleet.Group}, Resources: []string{"contents"}, Verbs: []string{"get"}}),
		bind(deployments, "deployments"), bind(workspace, "cluster"),
	)
	if err != nil {
		return fmt.Errorf("grant rights: %w", err)
	}
	_, err = api.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "contents"}, Subjects: who,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "contents"},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("grant rights: %w", err)
	}
	return nil
}

// parallel calls do for 0 to n-1, eight at a time, as an agent has workers.
func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// workers is how many deployments an agent works on at once (agent.Default).
const workers = 8
