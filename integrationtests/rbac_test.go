package integrationtests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/rights"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// agentAccess is the credential that a running agent uses, taken from its
// cluster, without the link that the sandbox puts in between.
func agentAccess(t *testing.T, w *harness.World, m *harness.Member) kube.Access {
	t.Helper()
	s, ok := harness.Get[*corev1.Secret](w, m, fleet.NamespaceSystem, fleet.SecretAgent)
	if !ok {
		t.Fatalf("the agent of %s has no credential", m.Name)
	}
	cfg, err := kube.ParseKubeconfig(s.Data[registration.KeyKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	return kube.Access{URL: w.Local.Cluster.URL(), CA: w.Local.Cluster.CA(), Token: cfg.BearerToken}
}

// One agent's credential can neither read nor write anything of the other's:
// every verb on every kind, with the credential of an agent that is at work.
func TestAgentsCredential(t *testing.T) {
	w := harness.Open(t)
	own, other := w.Namespace(w.C1), w.Namespace(w.C2)
	access := agentAccess(t, w, w.C1)
	got := rights.Try(t, w.Local.Cluster.REST(), access.REST(), []rights.Place{
		{Label: "own", Namespace: own},
		{Label: "other", Namespace: other},
		{Label: "workspace", Namespace: w.C1.Workspace, Names: []string{w.C1.Name, w.C2.Name}},
	})
	var want []string
	for _, place := range []string{"other", "own", "workspace"} {
		for _, right := range []string{ // everybody's, and what has no namespace
			"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectreviews.authentication.k8s.io",
			"create selfsubjectrulesreviews.authorization.k8s.io", "get contents.fleet.cattle.io",
		} {
			want = append(want, place+": "+right)
		}
	}
	want = append(want,
		"own: get bundledeployments.fleet.cattle.io", "own: list bundledeployments.fleet.cattle.io",
		"own: watch bundledeployments.fleet.cattle.io", "own: patch bundledeployments/status.fleet.cattle.io",
		"own: update bundledeployments/status.fleet.cattle.io", "own: get configmaps", "own: get secrets",
		"workspace: patch clusters/status.fleet.cattle.io "+w.C1.Name,
	)
	slices.Sort(want)
	if diff := cmp.Diff(want, got.Said); diff != "" {
		t.Errorf("what the API server says\n-want +got\n%s", diff)
	}
	if diff := cmp.Diff(want, got.Done); diff != "" {
		t.Errorf("what the API server does\n-want +got\n%s", diff)
	}
}

// Nothing that an agent may read names the digest of another cluster's
// content, with contents and deployments as the manager makes them.
func TestForeignDigestStaysUnknown(t *testing.T) {
	w := harness.Open(t)
	only := func(m *harness.Member) func(*fleet.GitRepoSpec) {
		return func(s *fleet.GitRepoSpec) { s.Targets = []fleet.GitTarget{{Name: "one", ClusterName: m.Name}} }
	}
	digests := map[string]string{}
	for _, m := range w.Downstream() {
		repo := w.Repository("digest-" + m.Name)
		repo.Write("app/fleet.yaml", harness.FleetYAML(repo.Name))
		repo.Write("app/app.yaml", harness.ConfigMapYAML("app", "only for "+m.Name))
		repo.DeployReady("for one cluster", 1, only(m))
		for _, bd := range repo.Deployments(m) {
			digests[m.Name], _, _ = strings.Cut(bd.Spec.DeploymentID, ":")
		}
	}
	if digests["c1"] == "" || digests["c2"] == "" || digests["c1"] == digests["c2"] {
		t.Fatalf("want a content of each cluster's own, got %v", digests)
	}
	text := readable(t, w, w.C1)
	if !strings.Contains(text, digests["c1"]) {
		t.Error("the test reads nothing")
	}
	if strings.Contains(text, strings.TrimPrefix(digests["c2"], "s-")) {
		t.Error("the agent of c1 can read the digest of a content of c2")
	}
}

// readable is all that an agent may read on the manager, as one text: also
// what it would have to guess the names of.
func readable(t *testing.T, w *harness.World, m *harness.Member) string {
	t.Helper()
	ctx, namespace := t.Context(), w.Namespace(m)
	c, err := kube.Connect(kube.Config{REST: agentAccess(t, w, m).REST(), UserAgent: "rbac-test", FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	read := func(o any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	deployments, err := kube.StoreOf[*fleet.BundleDeployment](c).List(ctx, namespace, "")
	read(deployments, err)
	for _, bd := range deployments {
		if id, _, _ := strings.Cut(bd.Spec.DeploymentID, ":"); id != "" {
			read(kube.StoreOf[*fleet.Content](c).Get(ctx, kube.Key{Name: id}))
		}
	}
	read(kube.StoreOf[*fleet.Cluster](c).PatchRaw(ctx, kube.Key{Namespace: m.Workspace, Name: m.Name},
		types.MergePatchType, []byte(`{"status":{}}`), "status"))
	for _, s := range harness.List[*corev1.Secret](w, w.Local, namespace, "") {
		got, err := kube.StoreOf[*corev1.Secret](c).Get(ctx, kube.KeyOf(s))
		if kube.IsGone(err) {
			continue // of a deployment that went a moment ago
		}
		read(got, err)
		for _, value := range got.Data {
			out.Write(value)
		}
	}
	for _, m := range harness.List[*corev1.ConfigMap](w, w.Local, namespace, "") {
		read(kube.StoreOf[*corev1.ConfigMap](c).Get(ctx, kube.KeyOf(m)))
	}
	return out.String()
}
