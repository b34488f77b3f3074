package fleet

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// What stands in helm.values and in a credential is found in no object but
// Secrets, on no cluster, in no event and in no log, also when the deployment
// fails.
func TestSecretsStayInSecrets(t *testing.T) {
	const inValues, forProd, inFile, password = "canary-5f2d", "canary-9a41", "canary-c37e", "canary-e80b"
	w := harness.Open(t)
	repo := w.Repository("canary")
	repo.Write("app/fleet.yaml", `defaultNamespace: canary
helm:
  chart: chart
  values: {password: `+inValues+`, fail: false}
  valuesFiles: [more.yaml]
targetCustomizations:
- name: prod
  clusterSelector: {matchLabels: {env: prod}}
  helm: {values: {password: `+forProd+`}}
`)
	repo.Write("app/more.yaml", "token: "+inFile+"\n")
	repo.Write("app/chart/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n")
	repo.Write("app/chart/templates/secret.yaml", `apiVersion: v1
kind: Secret
metadata:
  name: app
  {{- if .Values.fail }}
  labels: {refused: "{{ .Values.password }}!"}
  {{- end }}
stringData:
  password: {{ .Values.password }}
  token: {{ .Values.token }}
`)
	server := gittest.ServeTLS(t, repo.Root())
	ask := gittest.BasicAuth("robot", password)
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool { return ask(rw, r) })
	credential := harness.Create(w, w.Local, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "canary-credential"},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{"username": []byte("robot"), "password": []byte(password)},
	})
	t.Cleanup(func() { harness.Delete(w, w.Local, credential) })
	repo.DeployReady("with secrets", 2, func(s *fleet.GitRepoSpec) {
		s.Repo, s.CABundle, s.ClientSecretName = server.URL+"/canary.git", server.PEM(), credential.Name
	})
	for m, want := range map[*harness.Member]string{w.C1: inValues, w.C2: forProd} {
		secret, ok := harness.Get[*corev1.Secret](w, m, "canary", "app")
		if !ok || string(secret.Data["password"]) != want || string(secret.Data["token"]) != inFile {
			t.Errorf("the values did not reach %s: %t, %q", m.Name, ok, secret.Data)
		}
	}
	search := func(when string) {
		for _, m := range w.Members() {
			for name, text := range w.Everything(m) {
				for _, canary := range []string{inValues, forProd, inFile, password} {
					if harness.HoldsSecret(text, canary) {
						t.Errorf("%s: %s on %s holds the secret %s", when, name, m.Name, canary)
					}
				}
			}
		}
		for path, text := range w.Logs() {
			for _, canary := range []string{inValues, forProd, inFile, password} {
				if harness.HoldsSecret(text, canary) {
					t.Errorf("%s: log %s holds the secret %s", when, path, canary)
				}
			}
		}
	}
	search("deployed")

	failing := strings.Replace(`defaultNamespace: canary
helm:
  chart: chart
  values: {password: VALUE, fail: true}
  valuesFiles: [more.yaml]
`, "VALUE", inValues, 1)
	repo.Write("app/fleet.yaml", failing)
	commit := repo.Commit("a label that the API server refuses, and repeats in its answer")
	harness.Eventually(w, "it fails", repo.State, harness.State{Commit: commit, Counts: "0/2"})
	w.Until("the agent says so", func() string {
		d := repo.Deployment(w.C1, "canary-app")
		c := condition.Find(d.Status.Conditions, fleet.ConditionReady)
		if c == nil || c.Status != corev1.ConditionFalse || c.ObservedGeneration != d.Generation {
			return "nothing yet"
		}
		return harness.Missing(c.Message, "metadata.labels")
	})
	search("failed")

	// Helm writes values that do not fit a chart, and what lookup does not find, to a
	// log of its own; both begin with a value here.
	repo.Write("app/chart/values.yaml", "password: {a: table}\n")
	repo.Write("app/chart/templates/look.yaml", `{{ lookup (printf "%s.example/v1" .Values.token) "Thing" "" "" }}`)
	repo.Write("app/fleet.yaml", strings.Replace(failing, "fail: true", "fail: false", 1))
	repo.Commit("a template that asks for a kind whose name is a secret")
	w.Until("the agent says that, too", func() string {
		d := repo.Deployment(w.C1, "canary-app")
		c := condition.Find(d.Status.Conditions, fleet.ConditionReady)
		if c == nil || c.Status != corev1.ConditionFalse || c.ObservedGeneration != d.Generation {
			return "nothing yet"
		}
		return harness.Missing(c.Message, "lookup")
	})
	search("looked up")

	server.Intercept(gittest.BasicAuth("robot", "another"))
	w.Until("the password is refused", func() string {
		return harness.Missing(repo.Message(fleet.ConditionReady, corev1.ConditionFalse), "refuses the credentials")
	})
	search("refused")
}

// The credential of one cluster's agent opens nothing of another cluster's:
// neither its deployments nor their values, nor its Cluster.
func TestCredentialOpensNothingOfOthers(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("neighbour")
	repo.Write("app/fleet.yaml", harness.FleetYAML("neighbour")+"helm: {values: {a: b}}\n")
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.DeployReady("one", 2)
	thief := agentClient(t, w, w.C1)
	own, other := w.Namespace(w.C1), w.Namespace(w.C2)
	ctx := t.Context()

	if _, err := kube.StoreOf[*fleet.BundleDeployment](thief).List(ctx, own, ""); err != nil {
		t.Fatalf("the credential does not even open its own deployments: %v", err)
	}
	if _, err := kube.StoreOf[*corev1.Secret](w.C1.Client).Get(ctx, kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.SecretAgentBootstrap}); !kube.IsGone(err) {
		t.Errorf("the agent of c1 has kept its registration token: %v", err)
	}
	deployments, secrets := kube.StoreOf[*fleet.BundleDeployment](thief), kube.StoreOf[*corev1.Secret](thief)
	clusters, contents := kube.StoreOf[*fleet.Cluster](thief), kube.StoreOf[*fleet.Content](thief)
	theirs := repo.Deployment(w.C2, "neighbour-app")
	tries := map[string]func() error{
		"list deployments":        func() error { _, err := deployments.List(ctx, other, ""); return err },
		"list all deployments":    func() error { _, err := deployments.List(ctx, "", ""); return err },
		"get a deployment":        func() error { _, err := deployments.Get(ctx, kube.KeyOf(theirs)); return err },
		"write a deployment":      func() error { _, err := deployments.Update(ctx, theirs); return err },
		"write its status":        func() error { _, err := deployments.UpdateStatus(ctx, theirs); return err },
		"delete a deployment":     func() error { return deployments.Delete(ctx, kube.KeyOf(theirs), kube.Precondition{}) },
		"get its values":          func() error { _, err := secrets.Get(ctx, kube.KeyOf(theirs)); return err },
		"list secrets":            func() error { _, err := secrets.List(ctx, other, ""); return err },
		"list all secrets":        func() error { _, err := secrets.List(ctx, "", ""); return err },
		"get secrets of the user": func() error { _, err := secrets.List(ctx, fleet.NamespaceDefault, ""); return err },
		"get the Cluster": func() error {
			_, err := clusters.Get(ctx, kube.Key{Namespace: w.C2.Workspace, Name: w.C2.Name})
			return err
		},
		"list Clusters":         func() error { _, err := clusters.List(ctx, w.C2.Workspace, ""); return err },
		"write its status, too": func() error { _, err := clusters.UpdateStatus(ctx, w.Cluster(w.C2)); return err },
		"list contents":         func() error { _, err := contents.List(ctx, "", ""); return err },
	}
	for what, try := range tries {
		if err := try(); !kube.IsForbidden(err) {
			t.Errorf("%s: want forbidden, got %v", what, err)
		}
	}
}

// agentClient is a connection to the management cluster with the credential
// that the agent of a cluster got.
func agentClient(t *testing.T, w *harness.World, m *harness.Member) *kube.Client {
	t.Helper()
	secret, ok := harness.Get[*corev1.Secret](w, m, fleet.NamespaceSystem, fleet.SecretAgent)
	if !ok {
		t.Fatalf("the agent of %s has no credential", m.Name)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Connect(kube.Config{REST: rest, UserAgent: "thief", FieldManager: "thief"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
