package integrationtests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A gate is a management cluster with CRDs and the chart's rights, and agent
// management at work in it with the credential of the chart's account. No
// other part of Fleet runs.
type gate struct {
	t       *testing.T
	cluster *cluster.Cluster
	admin   *kube.Client
	stop    context.CancelFunc
	done    chan struct{}
	install registration.Installation
}

// openGate starts a gate with values of the chart fleet.
func openGate(t *testing.T, values map[string]any) *gate {
	t.Helper()
	g := &gate{t: t, cluster: harness.Cluster(t, "management")}
	var err error
	if g.admin, err = kube.Connect(kube.Config{REST: g.cluster.REST(), UserAgent: "sandbox-admin", FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	installChart(t, g.admin, "fleet-crd", nil)
	until(t, "the CRDs serve", func() bool {
		_, err := kube.StoreOf[*fleet.Cluster](g.admin).List(t.Context(), "", "")
		_, err2 := kube.StoreOf[*fleet.ClusterRegistration](g.admin).List(t.Context(), "", "")
		return err == nil && err2 == nil
	})
	createNamespace(t, g.admin, fleet.NamespaceSystem)
	createNamespace(t, g.admin, fleet.NamespaceDefault)
	installChart(t, g.admin, "fleet", values)
	g.run()
	t.Cleanup(func() { g.halt() })
	return g
}

// run starts agent management as cmd/fleet-controller does.
func (g *gate) run() {
	g.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	client, err := kube.Connect(kube.Config{
		REST:      g.as(accountToken(g.t, g.cluster.REST(), fleet.NamespaceSystem, "fleet-controller")),
		UserAgent: "fleet-controller/test", FieldManager: fleet.FieldManagerAgentManagement,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	if g.install, err = installation.Ensure(ctx, client, fleet.NamespaceSystem); err != nil {
		g.t.Fatal(err)
	}
	config, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController})
	if err != nil {
		g.t.Fatal(err)
	}
	settings, warnings, err := registration.ParseSettings(config.Data[fleet.KeyConfig])
	if err != nil || len(warnings) > 0 {
		g.t.Fatal(err, warnings)
	}
	cfg := agentmanagement.Config{Namespace: fleet.NamespaceSystem, Settings: settings, Installation: g.install}
	log := logrus.New()
	log.SetOutput(testWriter{g.t})
	report := func(loop string, key kube.Key, err error) { g.t.Logf("loop %s, %s: %v", loop, key, err) }
	parts := append(agentmanagement.New(cfg, client, logrus.NewEntry(log)).Parts(),
		agentmanagement.NewCleanup(cfg, client, logrus.NewEntry(log)).Parts()...)
	g.stop, g.done = stop, make(chan struct{})
	go func() {
		defer close(g.done)
		if err := kube.Run(ctx, report, parts...); err != nil {
			g.t.Errorf("agent management ended: %v", err)
		}
	}()
}

func (g *gate) halt() {
	g.stop()
	<-g.done
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// as is the cluster's address with a bearer token in the place of the
// administrator's certificate.
func (g *gate) as(token string) *rest.Config {
	out := rest.AnonymousClientConfig(g.cluster.REST())
	out.BearerToken = token
	return out
}

// client is a client with a bearer token.
func (g *gate) client(token string) *kube.Client {
	g.t.Helper()
	c, err := kube.Connect(kube.Config{REST: g.as(token), UserAgent: "agent/test", FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// token makes a registration token and returns the values of its Secret.
func (g *gate) token(namespace, name string, ttl time.Duration) map[string]any {
	g.t.Helper()
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	create(g.t, g.admin, t)
	var values map[string]any
	until(g.t, "the token's values", func() bool {
		made, err := kube.StoreOf[*fleet.ClusterRegistrationToken](g.admin).Get(g.t.Context(), kube.KeyOf(t))
		if err != nil || made.Status.SecretName == "" {
			return false
		}
		s, err := kube.StoreOf[*corev1.Secret](g.admin).Get(g.t.Context(), kube.Key{Namespace: namespace, Name: made.Status.SecretName})
		return err == nil && sigsyaml.Unmarshal(s.Data[fleet.KeyValues], &values) == nil
	})
	return values
}

// A member is an agent that has registered: its credential and its place.
type member struct {
	data   map[string]string // of the credential
	client *kube.Client
}

func (m member) namespace() string { return m.data["deploymentNamespace"] }

// register does what an agent does to join: it asks with the token's
// credential and fetches its own with it.
func (g *gate) register(values map[string]any, clientID, random string, labels map[string]string) member {
	g.t.Helper()
	asking := g.client(values["token"].(string))
	_, err := kube.StoreOf[*fleet.ClusterRegistration](asking).Create(g.t.Context(), &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "request-", Namespace: values["clusterNamespace"].(string),
			Labels: map[string]string{fleet.LabelRegistrationToken: values["tokenName"].(string)},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: random, ClusterLabels: labels},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	m := member{data: map[string]string{}}
	key := kube.Key{
		Namespace: values["systemRegistrationNamespace"].(string), Name: naming.RegistrationSecret(clientID, random),
	}
	until(g.t, "the credential of "+clientID, func() bool {
		s, err := kube.StoreOf[*corev1.Secret](asking).Get(g.t.Context(), key)
		if err != nil {
			return false
		}
		for k, v := range s.Data {
			m.data[k] = string(v)
		}
		return true
	})
	m.client = g.client(m.data["token"])
	return m
}

// reads tells whether a member reads its BundleDeployments.
func (m member) reads(ctx context.Context) error {
	_, err := kube.StoreOf[*fleet.BundleDeployment](m.client).List(ctx, m.namespace(), "")
	return err
}

func (g *gate) clusterOf(m member) *fleet.Cluster {
	g.t.Helper()
	c, err := kube.StoreOf[*fleet.Cluster](g.admin).Get(g.t.Context(),
		kube.Key{Namespace: m.data["clusterNamespace"], Name: m.data["clusterName"]})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

func (g *gate) requests(namespace string) []*fleet.ClusterRegistration {
	g.t.Helper()
	all, err := kube.StoreOf[*fleet.ClusterRegistration](g.admin).List(g.t.Context(), namespace, "")
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

// The whole life of a downstream cluster, as far as the manager's side of the
// registration decides it.
func TestRegistration(t *testing.T) {
	g := openGate(t, map[string]any{
		"apiServerURL": "https://fleet.example.com", "apiServerCA": "PEM", "bootstrap": map[string]any{"enabled": false},
	})
	ctx := t.Context()
	values := g.token(fleet.NamespaceDefault, "import-all", 0)

	t.Run("ValuesFitTheAgentChart", func(t *testing.T) {
		if values["apiServerURL"] != "https://fleet.example.com" || values["apiServerCA"] != "PEM" ||
			values["systemRegistrationNamespace"] != fleet.NamespaceRegistration || values["internal"] != nil {
			t.Errorf("not what the manager was told: %v", slices.Sorted(maps.Keys(values)))
		}
	})

	one := g.register(values, "client-one", "r1", map[string]string{
		"env": "prod", "fleet.cattle.io/cluster": "other", "management.cattle.io/cluster-display-name": "other",
	})
	t.Run("AgentJoins", func(t *testing.T) {
		c := g.clusterOf(one)
		if c.Name != naming.RegisteredCluster("client-one") || c.Labels["env"] != "prod" ||
			c.Labels[fleet.LabelCluster] != c.Name || c.Labels[fleet.LabelDisplayName] != "" {
			t.Errorf("want an automatic name and no reserved label of the agent, got %s %v", c.Name, c.Labels)
		}
		if mark, err := registration.ParseMark(c.Annotations[fleet.AnnotationManager]); err != nil || mark != g.install.Mark() {
			t.Errorf("want the manager's mark, got %v %v", mark, err)
		}
		if !condition.IsTrue(c.Status.Conditions, fleet.ConditionProcessed) || !slices.Contains(c.Finalizers, fleet.FinalizerCluster) {
			t.Errorf("not processed: %v", c.Status.Conditions)
		}
		if err := one.reads(ctx); err != nil {
			t.Errorf("the agent reads its deployments: %v", err)
		}
	})

	two := g.register(values, "client-two", "r2", nil)

	t.Run("DeletedNamespaceComesBack", func(t *testing.T) {
		ns := kube.Key{Name: one.namespace()}
		before, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, ns)
		if err != nil {
			t.Fatal(err)
		}
		if err := kube.StoreOf[*corev1.Namespace](g.admin).Delete(ctx, ns, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the namespace is made again", func() bool {
			now, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, ns)
			return err == nil && now.UID != before.UID
		})
		until(t, "the same credential works again", func() bool { return one.reads(ctx) == nil })
		until(t, "the Cluster says so", func() bool {
			return condition.IsTrue(g.clusterOf(one).Status.Conditions, fleet.ConditionProcessed)
		})
	})

	t.Run("StatusDoesNotDecideTheNamespace", func(t *testing.T) {
		c := g.clusterOf(one)
		forged := c.DeepCopy()
		forged.Status.Namespace = two.namespace()
		if _, err := kube.StoreOf[*fleet.Cluster](one.client).PatchRaw(ctx, kube.KeyOf(c), "application/merge-patch+json",
			[]byte(fmt.Sprintf(`{"status":{"namespace":%q}}`, two.namespace())), "status"); err != nil {
			t.Fatalf("an agent may patch the status of its own Cluster: %v", err)
		}
		until(t, "the manager puts it right", func() bool { return g.clusterOf(one).Status.Namespace == one.namespace() })
		bindings, err := kube.StoreOf[*rbacv1.RoleBinding](g.admin).List(ctx, two.namespace(), "")
		if err != nil || len(bindings) != 1 {
			t.Errorf("want one RoleBinding in the other's namespace, got %d, %v", len(bindings), err)
		}
		list := kube.StoreOf[*fleet.BundleDeployment](one.client)
		if _, err := list.List(ctx, two.namespace(), ""); !kube.IsForbidden(err) {
			t.Errorf("the other cluster's namespace must be forbidden, got %v", err)
		}
	})

	t.Run("SameClientSameCluster", func(t *testing.T) {
		again := g.register(values, "client-one", "r1-again", map[string]string{"env": "dev"})
		if c := g.clusterOf(again); c.Name != g.clusterOf(one).Name || c.Labels["env"] != "prod" {
			t.Errorf("want the same Cluster with its labels, got %s %v", c.Name, c.Labels)
		}
		until(t, "the older credential is void", func() bool { return kube.IsUnauthorized(one.reads(ctx)) })
		if err := again.reads(ctx); err != nil {
			t.Errorf("the newer credential works: %v", err)
		}
		one = again
	})

	t.Run("DeletedClusterLosesItsRights", func(t *testing.T) {
		c := g.clusterOf(two)
		if err := kube.StoreOf[*fleet.Cluster](g.admin).Delete(ctx, kube.KeyOf(c), kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the credential is void", func() bool { return kube.IsUnauthorized(two.reads(ctx)) })
		until(t, "the namespace is gone", func() bool {
			_, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, kube.Key{Name: two.namespace()})
			return kube.IsGone(err)
		})
		until(t, "its request is gone", func() bool {
			return !slices.ContainsFunc(g.requests(fleet.NamespaceDefault), func(r *fleet.ClusterRegistration) bool {
				return r.Spec.ClientID == "client-two"
			})
		})
		if err := one.reads(ctx); err != nil {
			t.Errorf("the other cluster goes on: %v", err)
		}
	})

	t.Run("NothingLeftBehind", func(t *testing.T) {
		until(t, "one account for each request", func() bool {
			accounts, err := kube.StoreOf[*corev1.ServiceAccount](g.admin).List(ctx, fleet.NamespaceRegistration, fleet.LabelManaged+"=true")
			bindings, err2 := kube.StoreOf[*rbacv1.ClusterRoleBinding](g.admin).List(ctx, "", fleet.LabelManaged+"=true")
			return err == nil && err2 == nil && len(accounts) == len(g.requests("")) && len(bindings) == len(accounts)
		})
	})

	t.Run("ExpiredTokenGoes", func(t *testing.T) {
		short := g.token(fleet.NamespaceDefault, "short", 2*time.Second)
		until(t, "the token and its account are gone", func() bool {
			_, err := kube.StoreOf[*fleet.ClusterRegistrationToken](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceDefault, Name: "short"})
			_, err2 := kube.StoreOf[*fleet.ClusterRegistration](g.client(short["token"].(string))).List(ctx, fleet.NamespaceDefault, "")
			return kube.IsGone(err) && kube.IsUnauthorized(err2)
		})
	})

	t.Run("TakenNamespaceIsRefused", func(t *testing.T) {
		name := naming.ClusterNamespace(fleet.NamespaceDefault, "squatted")
		createNamespace(t, g.admin, name)
		create(t, g.admin, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "squatted"}})
		until(t, "the Cluster is refused", func() bool {
			c, err := kube.StoreOf[*fleet.Cluster](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceDefault, Name: "squatted"})
			if err != nil {
				return false
			}
			p := condition.Find(c.Status.Conditions, fleet.ConditionProcessed)
			return p != nil && p.Reason == registration.ReasonNamespaceTaken && c.Status.Namespace == ""
		})
	})

	t.Run("AtRestNothingIsWritten", func(t *testing.T) {
		g.restsFor(4 * time.Second)
		g.halt()
		before := len(g.writes())
		g.run()
		g.restsFor(4 * time.Second)
		if after := g.writes(); len(after) != before {
			t.Errorf("a new start wrote: %v", after[before:])
		}
	})
}

// The manager's own cluster joins by itself.
func TestLocalCluster(t *testing.T) {
	g := openGate(t, map[string]any{"bootstrap": map[string]any{"clusterLabels": map[string]any{"env": "mgmt"}}})
	ctx := t.Context()
	key := kube.Key{Namespace: fleet.NamespaceLocal, Name: fleet.ClusterLocal}
	var c *fleet.Cluster
	until(t, "the Cluster is processed and its agent installed", func() bool {
		var err error
		c, err = kube.StoreOf[*fleet.Cluster](g.admin).Get(ctx, key)
		return err == nil && condition.IsTrue(c.Status.Conditions, fleet.ConditionProcessed) &&
			condition.IsTrue(c.Status.Conditions, fleet.ConditionImported)
	})
	if c.Labels["name"] != "local" || c.Labels["env"] != "mgmt" || c.Spec.ClientID == "" ||
		c.Spec.AgentNamespace != fleet.NamespaceLocalAgent {
		t.Errorf("not the local Cluster: %v %+v", c.Labels, c.Spec)
	}
	if _, err := kube.StoreOf[*fleet.ClusterGroup](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceLocal, Name: "default"}); err != nil {
		t.Error(err)
	}
	t.Run("KubeconfigWorks", func(t *testing.T) {
		s, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceLocal, Name: registration.SecretLocalKubeconfig})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("the kubeconfig is an administrator's: %v", err)
		}
	})
	agent := kube.Key{Namespace: fleet.NamespaceLocalAgent, Name: "fleet-agent"}
	t.Run("AgentRegisters", func(t *testing.T) {
		if _, err := kube.StoreOf[*appsv1.Deployment](g.admin).Get(ctx, agent); err != nil {
			t.Fatal(err)
		}
		var b registration.Bootstrapping
		bootstrap := kube.Key{Namespace: fleet.NamespaceLocalAgent, Name: fleet.SecretAgentBootstrap}
		until(t, "the agent may register", func() bool {
			s, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, bootstrap)
			if err == nil {
				b = registration.ReadBootstrapping(s.Data)
			}
			return err == nil
		})
		m := g.register(map[string]any{
			"token": b.Token, "tokenName": b.TokenName, "clusterNamespace": b.ClusterNamespace,
			"systemRegistrationNamespace": b.RegistrationNamespace,
		}, c.Spec.ClientID, "random", nil)
		if got := g.clusterOf(m); got.Name != "local" {
			t.Errorf("want the local Cluster, got %s", got.Name)
		}
		create(t, g.admin, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agent.Namespace, Name: fleet.SecretAgent}})
		if err := kube.StoreOf[*corev1.Secret](g.admin).Delete(ctx, bootstrap, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		g.restsFor(2 * time.Second)
		if _, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, bootstrap); !kube.IsGone(err) {
			t.Errorf("a registered agent gets no bootstrap Secret again: %v", err)
		}
	})
	t.Run("VoidCredentialIsReplaced", func(t *testing.T) {
		for _, r := range g.requests(fleet.NamespaceLocal) {
			if err := kube.StoreOf[*fleet.ClusterRegistration](g.admin).Delete(ctx, kube.KeyOf(r), kube.Precondition{}); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the agent may register again", func() bool {
			_, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, agent)
			_, err2 := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, kube.Key{Namespace: agent.Namespace, Name: fleet.SecretAgentBootstrap})
			return kube.IsGone(err) && err2 == nil
		})
	})
}

// restsFor fails if agent management writes anything within a time, once it
// has had a moment to settle.
func (g *gate) restsFor(d time.Duration) {
	g.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for last, since := len(g.writes()), time.Now(); time.Since(since) < d; {
		if time.Now().After(deadline) {
			all := g.writes()
			g.t.Fatalf("not at rest: %v", all[max(0, len(all)-10):])
		}
		select {
		case <-g.t.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		if n := len(g.writes()); n != last {
			last, since = n, time.Now()
		}
	}
}

// writes are the requests of agent management in the audit log that change
// something.
func (g *gate) writes() []string {
	g.t.Helper()
	f, err := os.Open(g.cluster.AuditLog())
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out
		}
		var e struct {
			Verb, UserAgent, RequestURI string
		}
		if json.Unmarshal(line, &e) != nil || !strings.HasPrefix(e.UserAgent, "fleet-controller/test") {
			continue
		}
		if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) {
			out = append(out, e.UserAgent+" "+e.Verb+" "+e.RequestURI)
		}
	}
}

// create makes an object as the administrator.
func create[P kube.Object](t *testing.T, c *kube.Client, o P) {
	t.Helper()
	if _, err := kube.StoreOf[P](c).Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func createNamespace(t *testing.T, c *kube.Client, name string) {
	t.Helper()
	create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// accountToken is a token of a ServiceAccount, as its pod would have it.
func accountToken(t *testing.T, admin *rest.Config, namespace, name string) string {
	t.Helper()
	r, err := kubernetes.NewForConfigOrDie(admin).CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// installChart applies what a chart renders, but Deployments.
func installChart(t *testing.T, c *kube.Client, name string, values map[string]any) {
	t.Helper()
	ch, err := loader.Load(filepath.Join("..", "charts", name))
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ToRenderValues(ch, values, chartutil.ReleaseOptions{Name: name, Namespace: fleet.NamespaceSystem}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(ch, v)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewBufferString(files[file])))
		for {
			doc, err := docs.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			applyDocument(t, c, doc)
		}
	}
}

func applyDocument(t *testing.T, c *kube.Client, doc []byte) {
	t.Helper()
	var m metav1.TypeMeta
	if err := sigsyaml.Unmarshal(doc, &m); err != nil {
		t.Fatal(err)
	}
	switch m.Kind {
	case "CustomResourceDefinition":
		applyAs(t, c, doc, &apiextensionsv1.CustomResourceDefinition{})
	case "ServiceAccount":
		applyAs(t, c, doc, &corev1.ServiceAccount{})
	case "ConfigMap":
		applyAs(t, c, doc, &corev1.ConfigMap{})
	case "ClusterRole":
		applyAs(t, c, doc, &rbacv1.ClusterRole{})
	case "ClusterRoleBinding":
		applyAs(t, c, doc, &rbacv1.ClusterRoleBinding{})
	case "Role":
		applyAs(t, c, doc, &rbacv1.Role{})
	case "RoleBinding":
		applyAs(t, c, doc, &rbacv1.RoleBinding{})
	case "Deployment", "":
	default:
		t.Fatalf("chart renders a %s", m.Kind)
	}
}

func applyAs[P kube.Object](t *testing.T, c *kube.Client, doc []byte, into P) {
	t.Helper()
	if err := sigsyaml.Unmarshal(doc, into); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.StoreOf[P](c).Apply(t.Context(), into); err != nil {
		t.Fatal(err)
	}
}
