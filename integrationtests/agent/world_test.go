// Package agent tests the agent with a test in the place of its manager, on an API server
// in memory.
package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// Names in the world of an agent.
const (
	agentNS   = "cattle-fleet-system"
	workspace = "fleet-default"
	deployNS  = "cluster-c1"
)

// agentWorld is a cluster with one agent, and a test that plays its manager.
// Both sides are the same API server; the agent's credential for the manager
// has the rights of production and no more.
type agentWorld struct {
	*testing.T
	cluster  harness.ControlPlane
	admin    *kube.Client
	client   kubernetes.Interface
	bds      *kube.Store[*fleet.BundleDeployment]
	clusters *kube.Store[*fleet.Cluster]
	root     *testing.T // the whole test; T may be a part of it
	running  *func()    // stops the agent that runs now
}

// stop stops the agent and waits for its end.
func (w *agentWorld) stop() { (*w.running)() }

func newAgentWorld(t *testing.T) *agentWorld {
	t.Helper()
	c := harness.Memory(t, "agent")
	admin, err := kube.Connect(kube.Config{REST: c.REST(), UserAgent: "test/v0", FieldManager: "fleet-controller"})
	must(t, err)
	w := &agentWorld{
		T: t, root: t, running: new(func()), cluster: c, admin: admin, client: kubernetes.NewForConfigOrDie(c.REST()),
		bds: kube.StoreOf[*fleet.BundleDeployment](admin), clusters: kube.StoreOf[*fleet.Cluster](admin),
	}
	harness.InstallCRDs(t, admin)
	for _, ns := range []string{agentNS, workspace, deployNS} {
		_, err := kube.StoreOf[*corev1.Namespace](admin).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		must(t, err)
	}
	_, err = w.clusters.Create(t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: "c1", Annotations: map[string]string{fleet.AnnotationManager: "m1/1/1"},
	}})
	must(t, err)
	w.grant()
	return w
}

// registered writes the credential that a registration would have brought.
func (w *agentWorld) registered() {
	w.Helper()
	w.credential(w.token(deployNS, "request"))
}

// grant gives the agent its credential.
func (w *agentWorld) grant() {
	w.Helper()
	ctx := w.Context()
	sa, err := kube.StoreOf[*corev1.ServiceAccount](w.admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: deployNS, Name: "request"}})
	must(w.T, err)
	who := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: deployNS, Name: sa.Name}}
	roles := w.client.RbacV1()
	_, err = roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fleet-bundle-deployment"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fleet-content"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{fleet.Group}, Resources: []string{"contents"}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = roles.Roles(workspace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{fleet.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{"c1"}, Verbs: []string{"patch"}},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "content"}, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleet-content"},
	}, metav1.CreateOptions{})
	must(w.T, err)
	_, err = roles.RoleBindings(workspace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "c1"},
	}, metav1.CreateOptions{})
	must(w.T, err)
	w.bind()
}

// token makes a token of a service account.
func (w *agentWorld) token(namespace, account string) string {
	w.Helper()
	ctx := w.Context()
	secrets := w.client.CoreV1().Secrets(namespace)
	made, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-token-", Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	must(w.T, err)
	harness.Wait(w.T, harness.Timeout, "token is made", func() bool {
		made, err = secrets.Get(ctx, made.Name, metav1.GetOptions{})
		return err == nil && len(made.Data["token"]) > 0
	})
	return string(made.Data["token"])
}

// bind lets the agent's account read its deployments.
func (w *agentWorld) bind() {
	w.Helper()
	_, err := w.client.RbacV1().RoleBindings(deployNS).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: deployNS, Name: "request"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleet-bundle-deployment"},
	}, metav1.CreateOptions{})
	must(w.T, err)
}

// credential writes the Secret fleet-agent.
func (w *agentWorld) credential(token string) {
	w.Helper()
	r := w.cluster.REST()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"m",
"clusters":[{"name":"m","cluster":{"server":%q,"certificate-authority-data":%q}}],
"users":[{"name":"m","user":{"token":%q}}],"contexts":[{"name":"m","context":{"cluster":"m","user":"m"}}]}`,
		r.Host, base64.StdEncoding.EncodeToString(caOf(w.T, r)), token)
	_, err := kube.StoreOf[*corev1.Secret](w.admin).Apply(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: fleet.SecretAgent},
		Data: map[string][]byte{
			"kubeconfig": []byte(config), "deploymentNamespace": []byte(deployNS), "clusterNamespace": []byte(workspace), "clusterName": []byte("c1"),
		},
	})
	must(w.T, err)
}

func caOf(t *testing.T, r *rest.Config) []byte {
	t.Helper()
	if len(r.CAData) > 0 {
		return r.CAData
	}
	data, err := os.ReadFile(r.CAFile)
	must(t, err)
	return data
}

// start runs the agent until stop, or the end of the test.
func (w *agentWorld) start() {
	w.Helper()
	cfg := agent.Default()
	cfg.CheckinInterval, cfg.Version = time.Second, "v0.1.0-test"
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(os.Stderr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, cfg, w.cluster.REST(), logrus.NewEntry(log)) }()
	stopped := false
	*w.running = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			w.Errorf("the agent ended with %v", err)
		}
	}
	w.root.Cleanup(*w.running)
}

// spec is a deployment as the test's manager orders it.
type spec struct {
	files   []string // names and texts in turns
	options fleet.BundleDeploymentOptions
	values  map[string]any
	repo    string
	change  func(*fleet.BundleDeployment)
}

// order writes content, values and deployment, as a manager does.
func (w *agentWorld) order(name string, s spec) *fleet.BundleDeployment {
	w.Helper()
	ctx := w.Context()
	m := content.Manifest{}
	for i := 0; i < len(s.files); i += 2 {
		m.Resources = append(m.Resources, fleet.BundleResource{Name: s.files[i], Content: s.files[i+1]})
	}
	c, err := content.New(m)
	must(w.T, err)
	if _, err := kube.StoreOf[*fleet.Content](w.admin).Create(ctx, c); err != nil && !kube.IsExists(err) {
		w.Fatal(err)
	}
	if s.options.DefaultNamespace == "" && s.options.TargetNamespace == "" {
		s.options.DefaultNamespace = name
	}
	if s.values != nil {
		s.options.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: s.values}}
	}
	id, err := options.DeploymentID(content.ID(m), s.options)
	must(w.T, err)
	stripped, values, err := options.SplitValues(s.options)
	must(w.T, err)
	repo := s.repo
	if repo == "" {
		repo = "repo-" + name
	}
	if values != nil {
		_, err := kube.StoreOf[*corev1.Secret](w.admin).Apply(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: deployNS, Name: name}, Type: fleet.SecretTypeBundleDeployment,
			Data: map[string][]byte{fleet.KeyValues: values, fleet.KeyStagedValues: values},
		})
		must(w.T, err)
	}
	blank := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployNS, Name: name, Labels: map[string]string{
		fleet.LabelBundleName: name, fleet.LabelBundleNamespace: workspace, fleet.LabelRepoName: repo, fleet.LabelCommit: "0123456789abcdef",
	}}}
	return harness.CreateOrPatch(w.T, w.admin, blank, func(bd *fleet.BundleDeployment) {
		harness.Want(bd, id, stripped, values)
		if s.change != nil {
			s.change(bd)
		}
	})
}

func (w *agentWorld) get(name string) *fleet.BundleDeployment {
	w.Helper()
	bd, err := w.bds.Get(w.Context(), kube.Key{Namespace: deployNS, Name: name})
	must(w.T, err)
	return bd
}

// state waits for a deployment to be in a state, and returns it.
func (w *agentWorld) state(name string, want fleet.BundleState) *fleet.BundleDeployment {
	w.Helper()
	var bd *fleet.BundleDeployment
	deadline := time.Now().Add(harness.Timeout)
	for {
		bd = w.get(name)
		c := condition.Find(bd.Status.Conditions, fleet.ConditionReady)
		if c != nil && c.ObservedGeneration == bd.Generation && summary.State(bd, "") == want {
			return bd
		}
		if time.Now().After(deadline) {
			text, _ := yaml.Marshal(bd.Status)
			w.Fatalf("%s is %s, want %s:\n%s", name, summary.State(bd, ""), want, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// data is key k of a ConfigMap, "" if there is none.
func (w *agentWorld) data(namespace, name string) string {
	w.Helper()
	cm, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil {
		return ""
	}
	return cm.Data["k"]
}

// edit changes key k of a ConfigMap.
func (w *agentWorld) edit(namespace, name, value string) {
	w.Helper()
	harness.Revise(w.T, w.admin, kube.Key{Namespace: namespace, Name: name}, func(cm *corev1.ConfigMap) { cm.Data["k"] = value })
}

// mark changes the annotations of a deployment.
func (w *agentWorld) mark(name string, f func(map[string]string)) {
	w.Helper()
	harness.Revise(w.T, w.admin, kube.Key{Namespace: deployNS, Name: name}, func(bd *fleet.BundleDeployment) {
		if bd.Annotations == nil {
			bd.Annotations = map[string]string{}
		}
		f(bd.Annotations)
	})
}

// writes lists the agent's requests about a deployment since a moment, from the
// requests of the API server: those that name it. Dry runs, leases and check-ins do not count.
func (w *agentWorld) writes(name string, since time.Time) []string {
	w.Helper()
	all, err := harness.RequestsOf(w.cluster, since)
	must(w.T, err)
	var out []string
	for _, r := range all {
		if r.Writes() && strings.HasPrefix(r.Agent, "fleet-agent/") && !strings.Contains(r.Agent, "(checkin)") &&
			!strings.Contains(r.Query, "dryRun=All") && strings.Contains(r.Namespace+" "+r.Name, name) {
			out = append(out, r.String())
		}
	}
	return out
}

// rebindCluster is the binding that lets the agent patch its Cluster's status.
func (w *agentWorld) rebindCluster() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: deployNS, Name: "request"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "c1"},
	}
}

// cm is the manifest of a ConfigMap whose key k has a value.
func cm(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  k: %s\n", name, value)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
