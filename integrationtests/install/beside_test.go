package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The manifest of docs/takeover.md, step 2, runs beside the reference's manager:
// nothing of that is changed, and with the accounts of the manifest alone a
// repository of the shard is read and deployed.
func TestBesideTheReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "aside")
	w.install(referenceKinds(), nil)
	w.until("the kinds are served", w.serves)
	w.install(referenceManager(), map[string]any{"apiServerURL": "https://fleet.invalid", "apiServerCA": "PEM"})
	before := w.objects()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "takeover.yaml"))
	w.must(err)
	w.apply(string(text))
	dir := programs(w)
	for _, name := range []string{"fleet-controller-shard-takeover", "gitjob-shard-takeover", "helmops-shard-takeover"} {
		o, err := w.any.Resource(deployments).Namespace(fleet.NamespaceSystem).Get(w.Context(), name, metav1.GetOptions{})
		w.must(err)
		w.launch(dir, o)
	}
	w.ofShard()
	after := w.objects()
	for name, o := range before {
		if o.GetNamespace() != fleet.NamespaceSystem || strings.HasPrefix(name, "ReplicaSet ") || strings.HasPrefix(name, "Pod ") {
			continue
		}
		switch now, ok := after[name]; {
		case !ok:
			t.Errorf("%s is gone", name)
		case now.GetGeneration() != o.GetGeneration() || now.GetGeneration() == 0 && now.GetResourceVersion() != o.GetResourceVersion():
			t.Errorf("%s was written", name)
		}
	}
}

// ofShard waits until a GitRepo and a HelmOp of the shard are deployed to a Cluster as the
// reference leaves it.
func (w *world) ofShard() {
	w.Helper()
	repo := gittest.NewRepo(w)
	repo.Commit("first", map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"})
	server := gittest.ServeHTTP(w, filepath.Dir(repo.Dir))
	client, err := kube.Connect(kube.Config{REST: w.config, UserAgent: "test", FieldManager: "test"})
	w.must(err)
	space := naming.ClusterNamespace("fleet-default", "one")
	typed := kubernetes.NewForConfigOrDie(w.config)
	for _, ns := range []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "fleet-default"}},
		{ObjectMeta: metav1.ObjectMeta{
			Name: space, Labels: map[string]string{fleet.LabelManaged: registration.True},
			Annotations: map[string]string{fleet.AnnotationCluster: "one", fleet.AnnotationClusterNamespace: "fleet-default"},
		}},
	} {
		_, err = typed.CoreV1().Namespaces().Create(w.Context(), ns, metav1.CreateOptions{})
		w.must(err)
	}
	clusters := kube.StoreOf[*fleet.Cluster](client)
	one, err := clusters.Create(w.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "one"}})
	w.must(err)
	changed := one.DeepCopy()
	changed.Status.Namespace = space
	_, err = clusters.PatchStatus(w.Context(), one, changed)
	w.must(err)
	_, err = kube.StoreOf[*fleet.GitRepo](client).Create(w.Context(), &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "apps", Labels: map[string]string{fleet.LabelShardRef: "takeover"}},
		Spec: fleet.GitRepoSpec{
			Repo: server.URL + "/repo", Branch: "main", Targets: []fleet.GitTarget{{ClusterSelector: &metav1.LabelSelector{}}},
		},
	})
	w.must(err)
	op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "redis", Labels: map[string]string{fleet.LabelShardRef: "takeover"}}}
	op.Spec.Helm = &fleet.HelmOptions{Repo: "https://charts.example.com", Chart: "redis", Version: "1.4.0"}
	op.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	_, err = kube.StoreOf[*fleet.HelmOp](client).Create(w.Context(), op)
	w.must(err)
	w.until("the repository and the chart are deployed", func(ctx context.Context) bool {
		list, err := kube.StoreOf[*fleet.BundleDeployment](client).List(ctx, space, "")
		w.must(err)
		return len(list) == 2 && !slices.ContainsFunc(list, func(bd *fleet.BundleDeployment) bool {
			return bd.Labels[fleet.LabelShardRef] != "takeover" || bd.Spec.DeploymentID == ""
		})
	})
}
