package install

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

var (
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// system is a namespace in which only pods that want nothing may run.
const system = `apiVersion: v1
kind: Namespace
metadata:
  name: cattle-fleet-system
  labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: latest}
`

// agentValues are the values of a registration token.
var agentValues = map[string]any{
	"apiServerURL": "https://fleet.invalid", "token": "t0ken", "tokenName": "new-clusters", "clusterNamespace": "fleet-default",
}

// Our charts come up where nothing is allowed and nothing else is there, and take
// nothing with them when they go.
func TestInstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "install")
	t.Run("Scopes", func(t *testing.T) { w.part(t).knowsScopes() })
	w.apply(system)
	w.install(w.ours("fleet-crd"), nil)
	w.until("the kinds are served", w.serves)
	// With all that adds something to a pod. Helm waits for the pods, so they were
	// admitted.
	w.install(w.ours("fleet"), map[string]any{
		"bootstrap": map[string]any{"enabled": false}, "proxy": "http://proxy.invalid", "proxyCACert": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"extraEnv": []any{map[string]any{"name": "OCI_STORAGE", "value": "false"}}, "gitjob": map[string]any{"replicas": 2},
	})
	w.install(w.ours("fleet-agent"), agentValues)
	t.Run("Restricted", func(t *testing.T) { w.part(t).refusesOthers() })
	t.Run("Ready", func(t *testing.T) { w.part(t).managerIsReady() })
	t.Run("Uninstall", func(t *testing.T) { w.part(t).leavesEverything() })
	t.Run("Again", func(t *testing.T) { w.part(t).installsAgain() })
	t.Run("KindsToo", func(t *testing.T) { w.part(t).removesKindsIfAsked() })
}

// knowsScopes: what is known of kinds without a cluster is what the API server says.
func (w *world) knowsScopes() {
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	w.must(err)
	_, lists, err := client.ServerGroupsAndResources()
	w.must(err)
	seen := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		w.must(err)
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			seen++
			if got := helm.BuiltIn(schema.GroupKind{Group: gv.Group, Kind: r.Kind}); got != r.Namespaced {
				w.Errorf("%s of %q: namespaced is %t there", r.Kind, gv.Group, r.Namespaced)
			}
		}
	}
	if seen < 50 {
		w.Errorf("only %d kinds were looked at", seen)
	}
}

// refusesOthers: the namespace would not have admitted pods with less.
func (w *world) refusesOthers() {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "any"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "any", "image": "none.invalid/any"}}},
	}}
	_, err := w.any.Resource(pods).Namespace(fleet.NamespaceSystem).Create(w.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		w.Errorf("any pod may run here: %v", err)
	}
}

// managerIsReady runs the manager's programs as the chart's Deployments say, with
// the rights of their accounts: both are ready although no user has made
// anything.
func (w *world) managerIsReady() {
	dir := programs(w)
	before := w.objects()
	for _, name := range []string{"fleet-controller", "gitjob"} {
		o, err := w.any.Resource(deployments).Namespace(fleet.NamespaceSystem).Get(w.Context(), name, metav1.GetOptions{})
		w.must(err)
		w.start(dir, o)
	}
	for name := range before {
		if strings.HasPrefix(name, "Cluster ") || strings.HasPrefix(name, "Namespace fleet-") {
			w.Errorf("%s was there before", name)
		}
	}
}

// start runs the one container of a Deployment as a process until its probe
// answers.
func (w *world) start(dir string, deployment *unstructured.Unstructured) {
	w.Helper()
	w.launch(dir, deployment)()
}

// launch runs the one container of a Deployment as a process, waits until its
// probe answers, and returns what ends it.
func (w *world) launch(dir string, deployment *unstructured.Unstructured) (stop func()) {
	w.Helper()
	account, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "serviceAccountName")
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	container := containers[0].(map[string]any)
	command, _, _ := unstructured.NestedStringSlice(container, "command")
	args, _, _ := unstructured.NestedStringSlice(container, "args")
	ready, _, _ := unstructured.NestedString(container, "readinessProbe", "httpGet", "path")
	health := harness.FreeAddress(w)
	args = append(args, "--kubeconfig="+w.kubeconfigOf(account), "--metrics-address="+harness.FreeAddress(w), "--health-address="+health)
	ctx, cancel := context.WithCancel(w.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(dir, command[0]), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	tmp := w.TempDir()
	cmd.Env = []string{"TMPDIR=" + tmp, "HOME=" + tmp, "POD_UID=" + account, sandbox.AllowLoopback}
	env, _, _ := unstructured.NestedSlice(container, "env")
	for _, e := range env {
		v := e.(map[string]any)
		if text, ok := v["value"].(string); ok && !strings.HasSuffix(v["name"].(string), "_BIND_ADDRESS") && !strings.HasSuffix(v["name"].(string), "_PROXY") {
			cmd.Env = append(cmd.Env, v["name"].(string)+"="+text)
		}
	}
	log, err := os.Create(filepath.Join(tmp, "log"))
	w.must(err)
	cmd.Stdout, cmd.Stderr = log, log
	w.must(cmd.Start())
	stop = sync.OnceFunc(func() {
		cancel()
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 || w.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.Errorf("%s: %v\n%s", account, err, text)
		}
	})
	w.Cleanup(stop)
	begin := time.Now()
	w.until(account+" is ready", func(ctx context.Context) bool { return answers(ctx, "http://"+health+ready) })
	w.Logf("%s was ready after %s", account, time.Since(begin).Round(time.Millisecond))
	return stop
}

func answers(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// kubeconfigOf writes a kubeconfig of an account of the chart.
func (w *world) kubeconfigOf(account string) string {
	w.Helper()
	made, err := kubernetes.NewForConfigOrDie(w.config).CoreV1().ServiceAccounts(fleet.NamespaceSystem).
		CreateToken(w.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	text, err := kube.Access{URL: w.cluster.URL(), CA: w.cluster.CA(), Token: made.Status.Token}.Kubeconfig()
	w.must(err)
	path := filepath.Join(w.TempDir(), "kubeconfig")
	w.must(os.WriteFile(path, text, 0o600))
	return path
}

// programs is the folder of Fleet's own, built where something changed.
func programs(w *world) string {
	w.Helper()
	dir, err := harness.Programs(w.Context())
	w.must(err)
	return dir
}

// leavesEverything: all three charts go, and only they.
func (w *world) leavesEverything() {
	w.apply(possessions)
	w.until("the workload is ready", func(ctx context.Context) bool { return w.ready(ctx, "shop", "web") })
	before, since := w.objects(), time.Now()
	for _, name := range []string{"fleet-agent", "fleet", "fleet-crd"} {
		w.uninstall(name)
	}
	after := w.objects()
	for _, name := range missing(before, after) {
		o := before[strings.TrimSuffix(name, " (created again)")]
		if o == nil || o.GetAnnotations()["meta.helm.sh/release-namespace"] != fleet.NamespaceSystem || o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			w.Errorf("%s is gone and was not of the charts", name)
		}
	}
	kinds := 0
	for name, o := range after {
		if o.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(name, "."+fleet.Group) {
			kinds++
		}
		if o.GetAnnotations()["meta.helm.sh/release-namespace"] == fleet.NamespaceSystem && o.GetKind() != "CustomResourceDefinition" {
			w.Errorf("%s is left", name)
		}
	}
	if kinds != len(fleet.Kinds()) {
		w.Errorf("%d kinds are left of %d", kinds, len(fleet.Kinds()))
	}
	for _, d := range w.deletions(since) {
		if strings.Contains(d, "customresourcedefinitions") || strings.Contains(d, "shop") || strings.Contains(d, "fleet-default") {
			w.Errorf("deleted: %s", d)
		}
	}
}

// installsAgain: what stayed belongs to the charts again.
func (w *world) installsAgain() {
	before := w.objects()
	w.install(w.ours("fleet-crd"), nil)
	w.install(w.ours("fleet"), nil)
	if diff := cmp.Diff([]string(nil), missing(before, w.objects())); diff != "" {
		w.Errorf("gone\n%s", diff)
	}
}

// removesKindsIfAsked: the value keep is for those who want to be rid of all.
func (w *world) removesKindsIfAsked() {
	w.must(w.upgrade(w.ours("fleet-crd"), map[string]any{"keep": false}))
	w.uninstall("fleet-crd")
	for name, o := range w.objects() {
		if o.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(name, "."+fleet.Group) {
			w.Errorf("%s is left", name)
		}
	}
	if !w.ready(w.Context(), "shop", "web") {
		w.Error("the workload went with them")
	}
}
