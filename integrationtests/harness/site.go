package harness

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// SiteManager is the mark of the manager that a test plays, unless a Site says
// otherwise.
var SiteManager = fmt.Sprintf("m1/1/%d", fleet.ProtocolVersion)

// A Site is one agent with all that is its own: a Cluster and a namespace of
// deployments on its Hub, a credential with the rights of production, and a
// namespace on the cluster that it deploys to. Several Sites may share both.
type Site struct {
	testing.TB
	Hub         *Hub
	Down        *Hub   // where the agent deploys; the same as Hub where nothing else is said
	Name        string // of the Cluster
	Workspace   string // of the Cluster
	Deployments string // namespace of the BundleDeployments
	Namespace   string // of the agent
	Prefix      string // of the namespaces of its workloads
	Config      agent.Config
	Output      io.Writer    // where the agent logs, debug messages included; nil: nowhere
	Own         *rest.Config // as whom the agent works in its own cluster; nil: as the administrator

	// Address is the kubeconfig by which the agent reaches its manager with a token.
	// Nil: the Hub's own address.
	Address func(token string) []byte
	// Run starts the agent, and returns what stops it. Nil: it runs in this process.
	Run func() (stop func())

	root    testing.TB // outlives parts of the test
	running *func()
}

// account is the service account of a Site's agent at its manager.
const account = "request"

// NewSite makes the objects of a Site and its credential, and starts nothing. The
// agent lives in the namespace "agent-<name>", which is its scope too.
func NewSite(t testing.TB, hub, down *Hub, name string) *Site {
	t.Helper()
	return NewSiteIn(t, hub, down, name, "agent-"+name)
}

// NewSiteIn is NewSite with the namespace of the agent. In the namespace of
// downstream agents it has no scope.
func NewSiteIn(t testing.TB, hub, down *Hub, name, namespace string) *Site {
	t.Helper()
	s := NewUnregisteredSite(t, hub, down, name, namespace)
	s.Join(SiteManager)
	return s
}

// NewUnregisteredSite is a Site whose agent has no Cluster and no credential: it has to
// register. Name, Workspace and Deployments are what they would be of a Site that
// has joined; a test sets them to what they became.
func NewUnregisteredSite(t testing.TB, hub, down *Hub, name, namespace string) *Site {
	t.Helper()
	s := &Site{
		TB: t, root: t, running: new(func()), Hub: hub, Down: down, Name: name,
		Workspace: "ws-" + name, Deployments: "cluster-" + name, Namespace: namespace, Prefix: name + "-",
	}
	*s.running = func() {}
	s.Config = agent.Default()
	s.Config.CheckinInterval, s.Config.Version = time.Second, "v0.1.0-test"
	s.Config.Namespace = namespace
	if namespace != fleet.NamespaceSystem {
		s.Config.Scope = namespace
	}
	down.Namespace(t, namespace)
	return s
}

// For is the same Site for a part of the test.
func (s *Site) For(t testing.TB) *Site {
	part := *s
	part.TB = t
	return &part
}

// Join makes the Cluster of a Site with the mark of its manager ("": the
// reference's), and gives the agent the credential for it.
func (s *Site) Join(mark string) {
	s.Helper()
	for _, name := range []string{s.Workspace, s.Deployments} {
		s.Hub.Namespace(s.TB, name)
	}
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Workspace, Name: s.Name, Annotations: map[string]string{}}}
	if mark != "" {
		c.Annotations[fleet.AnnotationManager] = mark
	}
	_, err := kube.StoreOf[*fleet.Cluster](s.Hub.Admin).Create(s.Context(), c)
	s.Must(err)
	s.Grant()
	s.Credential()
}

// Grant makes the account of the agent, and the rights of it.
func (s *Site) Grant() {
	s.Helper()
	ctx := s.Context()
	ignore := func(err error) {
		if err != nil && !kube.IsExists(err) {
			s.Fatal(err)
		}
	}
	_, err := kube.StoreOf[*corev1.ServiceAccount](s.Hub.Admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Deployments, Name: account}})
	ignore(err)
	_, err = kube.StoreOf[*rbacv1.Role](s.Hub.Admin).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Workspace, Name: s.Name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{fleet.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{s.Name}, Verbs: []string{"patch"}},
		},
	})
	ignore(err)
	who := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Deployments, Name: account}}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	for _, b := range []*rbacv1.RoleBinding{
		{ObjectMeta: meta(s.Workspace, s.Name), Subjects: who, RoleRef: ref("Role", s.Name)},
		{ObjectMeta: meta(s.Deployments, "agent"), Subjects: who, RoleRef: ref("ClusterRole", roleDeployments)},
	} {
		_, err = kube.StoreOf[*rbacv1.RoleBinding](s.Hub.Admin).Create(ctx, b)
		ignore(err)
	}
	_, err = kube.StoreOf[*rbacv1.ClusterRoleBinding](s.Hub.Admin).Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", s.Deployments+"-content"), Subjects: who, RoleRef: ref("ClusterRole", roleContents),
	})
	ignore(err)
}

// Revoke deletes the agent's RoleBindings, as an administrator might. Grant
// restores them.
func (s *Site) Revoke() {
	s.Helper()
	bindings := kube.StoreOf[*rbacv1.RoleBinding](s.Hub.Admin)
	s.Must(bindings.Delete(s.Context(), kube.Key{Namespace: s.Workspace, Name: s.Name}, kube.Precondition{}))
	s.Must(bindings.Delete(s.Context(), kube.Key{Namespace: s.Deployments, Name: "agent"}, kube.Precondition{}))
}

// Token makes a token of the agent's account at the manager.
func (s *Site) Token() string {
	s.Helper()
	made, err := s.Hub.Client.CoreV1().ServiceAccounts(s.Deployments).CreateToken(s.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.Must(err)
	return made.Status.Token
}

// Credential writes the Secret fleet-agent, with a new token.
func (s *Site) Credential() {
	s.Helper()
	if s.Address != nil {
		s.CredentialFor(s.Address(s.Token()))
		return
	}
	s.CredentialFor(s.Hub.Kubeconfig(s.Token()))
}

// CredentialFor writes the Secret fleet-agent with a kubeconfig. An agent that
// runs reads it when it is started next.
func (s *Site) CredentialFor(kubeconfig []byte) {
	s.Helper()
	_, err := kube.StoreOf[*corev1.Secret](s.Down.Admin).Apply(s.root.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fleet.SecretAgent},
		Data: map[string][]byte{
			"kubeconfig": kubeconfig, "deploymentNamespace": []byte(s.Deployments),
			"clusterNamespace": []byte(s.Workspace), "clusterName": []byte(s.Name),
		},
	})
	s.Must(err)
}

// Configure writes the ConfigMap fleet-agent, which the chart gives an agent.
func (s *Site) Configure(c registration.AgentConfig) {
	s.Helper()
	text, err := yaml.Marshal(c)
	s.Must(err)
	_, err = kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fleet.ConfigMapAgent},
		Data:       map[string]string{fleet.KeyConfig: string(text)},
	})
	s.Must(err)
}

// Reconfigure writes another configuration into the ConfigMap fleet-agent.
func (s *Site) Reconfigure(c registration.AgentConfig) {
	s.Helper()
	text, err := yaml.Marshal(c)
	s.Must(err)
	_, err = kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).Apply(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fleet.ConfigMapAgent},
		Data:       map[string]string{fleet.KeyConfig: string(text)},
	})
	s.Must(err)
}

// Give puts what a registration token says where the agent looks for it, as the
// chart does.
func (s *Site) Give(b registration.Bootstrapping) {
	s.Helper()
	_, err := kube.StoreOf[*corev1.Secret](s.Down.Admin).Apply(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fleet.SecretAgentBootstrap}, Data: b.Data(),
	})
	s.Must(err)
}

// Start runs the agent until Stop, or the end of the test.
func (s *Site) Start() {
	s.Helper()
	if s.Run != nil {
		*s.running = s.Run()
		s.root.Cleanup(*s.running)
		return
	}
	log := Logger()
	if s.Output != nil {
		log.SetOutput(s.Output)
		log.SetLevel(logrus.DebugLevel)
	}
	cfg, own := s.Config, s.Down.Cluster.REST()
	if s.Own != nil {
		own = s.Own
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, cfg, own, logrus.NewEntry(log).WithField("site", s.Name)) }()
	stopped := false
	*s.running = func() {
		if stopped {
			return
		}
		stopped = true
		early := ctx.Err() == nil && len(done) > 0
		cancel()
		if err := <-done; early {
			s.root.Errorf("the agent of %s ended with %v", s.Name, err)
		}
	}
	s.root.Cleanup(*s.running)
}

// Stop stops the agent and waits for its end.
func (s *Site) Stop() { (*s.running)() }

// Restart stops the agent and starts it again.
func (s *Site) Restart() {
	s.Helper()
	s.Stop()
	s.Start()
}

// Must fails the test with an error.
func (s *Site) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Until returns when f is true, and fails the test if that does not happen in time.
func (s *Site) Until(what string, f func() bool) {
	s.Helper()
	if !poll(siteLimit, f) {
		s.Fatalf("not in time: %s", what)
	}
}

// siteLimit is how long something may take to happen on a Site.
const siteLimit = Timeout

// Removed lists who has deleted what in the namespaces of a Site's workloads since
// a moment, by the API server's audit log: without Helm's own records, and without
// what the test has deleted itself.
func (s *Site) Removed(since time.Time) []Request {
	s.Helper()
	list, err := s.Down.Requests(since)
	s.Must(err)
	var out []Request
	for _, r := range list {
		workload := strings.HasPrefix(r.Namespace, s.Prefix) || r.Resource == "namespaces" && strings.HasPrefix(r.Name, s.Prefix)
		record := r.Resource == "secrets" && strings.HasPrefix(r.Name, "sh.helm.release.v1.")
		if workload && !record && strings.HasPrefix(r.Verb, "delete") && r.Code < 300 && !strings.HasPrefix(r.Agent, TestAgent) {
			out = append(out, r)
		}
	}
	return out
}
