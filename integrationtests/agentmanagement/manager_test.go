// Package agentmanagement_test tests how clusters join and leave, with the rights of the
// chart and no other part of Fleet. API servers are in memory where no test needs the
// admission policies of the chart, or tries rights.
package agentmanagement_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A managerProcess is a management cluster with CRDs and the chart's rights, and agent
// management at work in it with the credential of the chart's account. No
// other part of Fleet runs.
type managerProcess struct {
	t       *testing.T
	cluster harness.ControlPlane
	admin   *kube.Client
	stop    context.CancelFunc
	done    chan struct{}
	install registration.Installation
	ahead   time.Duration // of its clock
	client  *kube.Client  // its own
	cfg     agentmanagement.Config
}

// openManagerProcess starts agent management on an API server, with values of the chart
// fleet.
func openManagerProcess(t *testing.T, c harness.ControlPlane, values map[string]any) *managerProcess {
	t.Helper()
	g := &managerProcess{t: t, cluster: c}
	var err error
	if g.admin, err = kube.Connect(kube.Config{REST: g.cluster.REST(), UserAgent: "sandbox-admin", FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	installChart(t, g.admin, "fleet-crd", nil)
	harness.KindsServed(t, g.admin)
	createNamespace(t, g.admin, fleet.NamespaceSystem)
	createNamespace(t, g.admin, fleet.NamespaceDefault)
	installChart(t, g.admin, "fleet", values)
	g.run()
	t.Cleanup(func() { g.halt() })
	return g
}

// run starts agent management as cmd/fleet-controller does.
func (g *managerProcess) run() {
	g.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	client, err := kube.Connect(kube.Config{
		REST:      g.as(accountToken(g.t, g.cluster.REST(), fleet.NamespaceSystem, "fleet-controller")),
		UserAgent: "fleet-controller/test", FieldManager: fleet.FieldManagerAgentManagement,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.install = harness.Installed(g.t, client)
	config, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController})
	if err != nil {
		g.t.Fatal(err)
	}
	settings, warnings, err := registration.ParseSettings(config.Data[fleet.KeyConfig])
	if err != nil || len(warnings) > 0 {
		g.t.Fatal(err, warnings)
	}
	g.client, g.cfg = client, agentmanagement.Config{
		Addresses: address.WithLoopback(),
		Namespace: fleet.NamespaceSystem, Settings: settings, Installation: g.install,
		Now: func() time.Time { return time.Now().Add(g.ahead) },
	}
	log := logrus.New()
	log.SetOutput(testWriter{g.t})
	report := func(loop string, key kube.Key, err error) { g.t.Logf("loop %s, %s: %v", loop, key, err) }
	parts := append(agentmanagement.New(g.cfg, client, logrus.NewEntry(log)).Runnables(),
		agentmanagement.NewCleanup(g.cfg, client, logrus.NewEntry(log)).Runnables()...)
	g.stop, g.done = stop, make(chan struct{})
	go func() {
		defer close(g.done)
		if err := kube.Run(ctx, report, parts...); err != nil {
			g.t.Errorf("agent management ended: %v", err)
		}
	}()
}

// later restarts agent management with a clock that is ahead by d.
func (g *managerProcess) later(d time.Duration) {
	g.t.Helper()
	g.halt()
	g.ahead = d
	g.run()
}

func (g *managerProcess) halt() {
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
func (g *managerProcess) as(token string) *rest.Config {
	out := rest.AnonymousClientConfig(g.cluster.REST())
	out.BearerToken = token
	return out
}

// with is a client with a bearer token.
func (g *managerProcess) with(token string) *kube.Client {
	g.t.Helper()
	c, err := kube.Connect(kube.Config{REST: g.as(token), UserAgent: "agent/test", FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// token makes a registration token and returns the values of its Secret.
func (g *managerProcess) token(namespace, name string, ttl time.Duration) map[string]any {
	g.t.Helper()
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	return g.tokenOf(t)
}

// A member is an agent that has registered: its credential and its place.
type member struct {
	data   map[string]string // of the credential
	client *kube.Client
}

func (m member) namespace() string { return m.data["deploymentNamespace"] }

// register does what an agent does to join: it asks with the token's
// credential, again where an API server has not heard yet of its rights, and fetches
// its own with it, which it does not use. Its request is granted when it returns: one
// that is not outlives its Cluster and makes it again.
func (g *managerProcess) register(values map[string]any, clientID, random string, labels map[string]string, finalizers ...string) member {
	g.t.Helper()
	asking := g.with(values["token"].(string))
	harness.CreateAllowed(g.t, asking, &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "request-", Namespace: values["clusterNamespace"].(string), Finalizers: finalizers,
			Labels: map[string]string{fleet.LabelRegistrationToken: values["tokenName"].(string)},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: random, ClusterLabels: labels},
	})
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
	until(g.t, "the request of "+clientID+" is granted", func() bool {
		return g.granted(values["clusterNamespace"].(string), clientID, random)
	})
	m.client = g.with(m.data["token"])
	return m
}

// granted reports whether a request with these words is granted.
func (g *managerProcess) granted(namespace, clientID, random string) bool {
	g.t.Helper()
	return slices.ContainsFunc(g.requests(namespace), func(r *fleet.ClusterRegistration) bool {
		return r.Spec.ClientID == clientID && r.Spec.ClientRandom == random && r.Status.Granted
	})
}

// reads reports whether a member reads its BundleDeployments.
func (m member) reads(ctx context.Context) error {
	_, err := kube.StoreOf[*fleet.BundleDeployment](m.client).List(ctx, m.namespace(), "")
	return err
}

// entitled reports whether an API server has heard of all rights of a member.
func (m member) entitled(ctx context.Context) bool {
	_, content := kube.StoreOf[*fleet.Content](m.client).Get(ctx, kube.Key{Name: "none"})
	_, status := kube.StoreOf[*fleet.Cluster](m.client).PatchRaw(ctx,
		kube.Key{Namespace: m.data["clusterNamespace"], Name: m.data["clusterName"]}, types.MergePatchType, []byte(`{"status":{}}`), "status")
	return m.reads(ctx) == nil && kube.IsGone(content) && status == nil
}

func (g *managerProcess) clusterOf(m member) *fleet.Cluster {
	g.t.Helper()
	c, err := kube.StoreOf[*fleet.Cluster](g.admin).Get(g.t.Context(),
		kube.Key{Namespace: m.data["clusterNamespace"], Name: m.data["clusterName"]})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

func (g *managerProcess) requests(namespace string) []*fleet.ClusterRegistration {
	g.t.Helper()
	all, err := kube.StoreOf[*fleet.ClusterRegistration](g.admin).List(g.t.Context(), namespace, "")
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

// until waits for something to become true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	harness.Wait(t, harness.Timeout, what, f)
}

// restsFor fails if agent management writes anything within a time, once it
// has had a moment to settle.
func (g *managerProcess) restsFor(d time.Duration) {
	g.t.Helper()
	deadline := time.Now().Add(harness.Timeout)
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

// writes are the requests of agent management to the API server that change
// something.
func (g *managerProcess) writes() []string {
	g.t.Helper()
	list, err := harness.RequestsOf(g.cluster, time.Time{})
	if err != nil {
		g.t.Fatal(err)
	}
	var out []string
	for _, r := range list {
		if r.Writes() && strings.HasPrefix(r.Agent, "fleet-controller/test") {
			out = append(out, r.Agent+" "+r.Verb+" "+r.What()+" "+r.Namespace+"/"+r.Name)
		}
	}
	return out
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
	ch, err := loader.Load(filepath.Join("..", "..", "charts", name))
	if err != nil {
		t.Fatal(err)
	}
	able := chartutil.DefaultCapabilities.Copy()
	able.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"} // it has admission policies
	v, err := chartutil.ToRenderValues(ch, values, chartutil.ReleaseOptions{Name: name, Namespace: fleet.NamespaceSystem}, able)
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
			if errors.Is(err, io.EOF) {
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
	case "ValidatingAdmissionPolicy":
		applyAs(t, c, doc, &admissionv1.ValidatingAdmissionPolicy{})
	case "ValidatingAdmissionPolicyBinding":
		applyAs(t, c, doc, &admissionv1.ValidatingAdmissionPolicyBinding{})
	case "Deployment", "Service", "":
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
