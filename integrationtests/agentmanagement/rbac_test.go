package agentmanagement_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/rights"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// everybody lists the rights that Kubernetes gives every authenticated user.
var everybody = []string{
	"cluster: create selfsubjectaccessreviews.authorization.k8s.io",
	"cluster: create selfsubjectreviews.authentication.k8s.io",
	"cluster: create selfsubjectrulesreviews.authorization.k8s.io",
}

// What docs/security.md promises of credentials, tried with every verb on every
// kind.
func TestRightsOfCredentials(t *testing.T) {
	t.Parallel()
	// A real one: it tries what RBAC of a real API server grants.
	g := openManagerProcess(t, harness.Cluster(t, "management"), map[string]any{"apiServerURL": "https://x", "bootstrap": map[string]any{"enabled": false}})
	values := g.token(fleet.NamespaceDefault, "import-all", 0)
	one, two := g.register(values, "client-one", "r1", nil), g.register(values, "client-two", "r2", nil)
	until(t, "both have their rights", func() bool { return one.entitled(t.Context()) && two.entitled(t.Context()) })
	credential := naming.RegistrationSecret("client-one", "r1")
	places := []rights.Place{
		{Label: "cluster"},
		{Label: "own", Namespace: one.namespace()},
		{Label: "other", Namespace: two.namespace()},
		{Label: "workspace", Namespace: fleet.NamespaceDefault, Names: []string{one.data["clusterName"], two.data["clusterName"]}},
		{Label: "registrations", Namespace: fleet.NamespaceRegistration, Names: []string{credential, naming.RegistrationSecret("x", "y")}},
		{Label: "system", Namespace: fleet.NamespaceSystem},
	}
	t.Run("Agent", func(t *testing.T) {
		want := slices.Concat(everybody, []string{
			"cluster: get contents.fleet.cattle.io",
			"own: get bundledeployments.fleet.cattle.io",
			"own: list bundledeployments.fleet.cattle.io",
			"own: watch bundledeployments.fleet.cattle.io",
			"own: patch bundledeployments/status.fleet.cattle.io",
			"own: update bundledeployments/status.fleet.cattle.io",
			"own: get configmaps",
			"own: get secrets",
			"workspace: patch clusters/status.fleet.cattle.io " + one.data["clusterName"],
		})
		compare(t, want, rights.Try(t, g.cluster.REST(), g.as(one.data["token"]), places))
	})
	t.Run("RegistrationToken", func(t *testing.T) {
		// Both credentials were made for requests of this one token.
		want := slices.Concat(everybody, []string{
			"workspace: create clusterregistrations.fleet.cattle.io",
			"registrations: get secrets " + credential,
		})
		compare(t, want, rights.Try(t, g.cluster.REST(), g.as(values["token"].(string)), places))
	})
	t.Run("NoForeignDigestIsReadable", func(t *testing.T) { noForeignDigest(t, g, one, two) })
}

func compare(t *testing.T, want []string, got rights.Granted) {
	t.Helper()
	var all []string
	for _, line := range want {
		all = append(all, line)
		// A cluster-wide right holds in every place; requests for kinds
		// without a namespace cannot be made in one.
		if rest, ok := strings.CutPrefix(line, "cluster: "); ok {
			for _, place := range []string{"own", "other", "workspace", "registrations", "system"} {
				all = append(all, place+": "+rest)
			}
		}
	}
	slices.Sort(all)
	if diff := cmp.Diff(all, got.Said); diff != "" {
		t.Errorf("what the API server says\n-want +got\n%s", diff)
	}
	if diff := cmp.Diff(all, got.Done); diff != "" {
		t.Errorf("what the API server does\n-want +got\n%s", diff)
	}
}

// A client that knows the digest of a content may read it, so an agent must not
// be able to learn another cluster's digest.
func noForeignDigest(t *testing.T, g *managerProcess, one, two member) {
	ctx := t.Context()
	own, foreign := "s-"+strings.Repeat("1", 61), "s-"+strings.Repeat("2", 61)
	for name, m := range map[string]member{own: one, foreign: two} {
		create(t, g.admin, &fleet.Content{ObjectMeta: metav1.ObjectMeta{Name: name}, Content: []byte("x"), SHA256Sum: name[2:]})
		create(t, g.admin, &fleet.BundleDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace(), Name: "app", Labels: map[string]string{fleet.LabelContentName: name}},
			Spec:       fleet.BundleDeploymentSpec{DeploymentID: name + ":options", StagedDeploymentID: name + ":options"},
		})
		create(t, g.admin, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace(), Name: "app"},
			Type:       fleet.SecretTypeBundleDeployment, Data: map[string][]byte{"values": []byte(name)},
		})
	}
	var seen strings.Builder
	read := func(o any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(text)
	}
	read(kube.StoreOf[*fleet.BundleDeployment](one.client).List(ctx, one.namespace(), ""))
	read(kube.StoreOf[*fleet.Content](one.client).Get(ctx, kube.Key{Name: own}))
	read(kube.StoreOf[*fleet.Cluster](one.client).PatchRaw(ctx,
		kube.Key{Namespace: one.data["clusterNamespace"], Name: one.data["clusterName"]}, types.MergePatchType, []byte(`{"status":{}}`), "status"))
	// All names, as if the agent had guessed them.
	secrets, err := kube.StoreOf[*corev1.Secret](g.admin).List(ctx, one.namespace(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		read(kube.StoreOf[*corev1.Secret](one.client).Get(ctx, kube.KeyOf(s)))
	}
	configs, err := kube.StoreOf[*corev1.ConfigMap](g.admin).List(ctx, one.namespace(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range configs {
		read(kube.StoreOf[*corev1.ConfigMap](one.client).Get(ctx, kube.KeyOf(m)))
	}
	if !strings.Contains(seen.String(), own) {
		t.Error("the test reads nothing")
	}
	if strings.Contains(seen.String(), foreign[2:]) {
		t.Error("an agent can read the digest of another cluster's content")
	}
	if _, err := kube.StoreOf[*fleet.Content](one.client).List(ctx, "", ""); !kube.IsForbidden(err) {
		t.Errorf("contents must not be listed by an agent, got %v", err)
	}
}
