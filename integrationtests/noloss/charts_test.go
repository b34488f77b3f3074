package noloss

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Uninstalling a manager's chart leaves the agent alone by which another manager
// deploys to the same cluster, although both charts live in one namespace. The
// twin uninstalls the agent's own chart.
func chartsSideBySide(t *testing.T, hub *harness.Hub) {
	install(t, hub, "fleet", map[string]any{})
	install(t, hub, "fleet-agent", map[string]any{
		"apiServerURL": "https://upper.example", "token": "t", "tokenName": "n", "clusterNamespace": "fleet-default",
	})
	key := kube.Key{Namespace: fleet.NamespaceSystem, Name: "fleet-agent"}
	role := kube.Key{Name: key.Namespace + "-fleet-agent-role"}
	look := func() map[string]string {
		out := map[string]string{}
		uid(t, hub, out, key, &appsv1.Deployment{})
		uid(t, hub, out, key, &corev1.ServiceAccount{})
		uid(t, hub, out, key, &corev1.ConfigMap{})
		uid(t, hub, out, role, &rbacv1.ClusterRole{})
		uid(t, hub, out, kube.Key{Name: role.Name + "-binding"}, &rbacv1.ClusterRoleBinding{})
		return out
	}
	before := look()
	if len(before) != 5 {
		t.Fatalf("the agent is not installed: %v", before)
	}
	uninstall(t, hub, "fleet")
	if _, err := kube.StoreOf[*appsv1.Deployment](hub.Admin).Get(t.Context(), kube.Key{Namespace: key.Namespace, Name: "fleet-controller"}); !kube.IsGone(err) {
		t.Errorf("the manager is still there: %v", err)
	}
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("the other manager's agent was touched: -before +after\n%s", diff)
	}
	uninstall(t, hub, "fleet-agent")
	if left := look(); len(left) > 0 {
		t.Errorf("left of the agent: %v", left)
	}
}

// uid writes down the UID of an object, if there is one.
func uid[P kube.Object](t *testing.T, hub *harness.Hub, to map[string]string, key kube.Key, _ P) {
	t.Helper()
	obj, err := kube.StoreOf[P](hub.Admin).Get(t.Context(), key)
	if kube.IsGone(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	to[filepath.Base(obj.GetName())+" "+string(obj.GetUID())] = "there"
}

// helmAt is Helm in the namespace of both charts.
func helmAt(t *testing.T, hub *harness.Hub) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	path, namespace, cache := hub.Cluster.Kubeconfig(), fleet.NamespaceSystem, t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &path, &namespace, &cache
	var cfg action.Configuration
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return &cfg
}

func install(t *testing.T, hub *harness.Hub, name string, values map[string]any) {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	chart, err := loader.Load(filepath.Join(root, "charts", name))
	if err != nil {
		t.Fatal(err)
	}
	in := action.NewInstall(helmAt(t, hub))
	in.ReleaseName, in.Namespace, in.CreateNamespace = name, fleet.NamespaceSystem, true
	if _, err := in.RunWithContext(t.Context(), chart, values); err != nil {
		t.Fatal(err)
	}
}

func uninstall(t *testing.T, hub *harness.Hub, name string) {
	t.Helper()
	if _, err := action.NewUninstall(helmAt(t, hub)).Run(name); err != nil {
		t.Fatal(err)
	}
}
