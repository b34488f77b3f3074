package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// timeout is how long a real API server may take for what it does at once.
const timeout = 2 * time.Minute

// real is a real API server that holds the fleet of examples.yaml.
type real struct {
	t          *testing.T
	kubeconfig string
	client     dynamic.Interface
}

func newReal(t *testing.T) *real {
	c := harness.Cluster(t, "cli")
	client, err := dynamic.NewForConfig(c.REST())
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, kubeconfig: c.Kubeconfig(), client: client}
	r.installCRDs()
	_, steps := readScenario(t, "testdata/fleets/examples.yaml")
	spaces := map[string]bool{"default": true}
	for _, o := range steps[0].objects {
		if ns := o.GetNamespace(); !spaces[ns] {
			spaces[ns] = true
			r.create(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns},
			}})
		}
		r.create(o)
	}
	return r
}

// resource is the collection that an object belongs to.
func (r *real) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	gvr := schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: resourceOf(gvk.Kind)}
	return r.client.Resource(gvr).Namespace(o.GetNamespace())
}

// create makes an object with its status.
func (r *real) create(o *unstructured.Unstructured) {
	r.t.Helper()
	status := o.Object["status"]
	made, err := r.resource(o).Create(r.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatalf("create %s: %v", objectKey(o), err)
	}
	if _, ours, ok := fleet.Resource(o.GetKind()); ok && ours && status != nil {
		made.Object["status"] = status
		if _, err := r.resource(o).UpdateStatus(r.t.Context(), made, metav1.UpdateOptions{}); err != nil {
			r.t.Fatalf("status of %s: %v", objectKey(o), err)
		}
	}
}

// update changes the status of an object.
func (r *real) update(kind, namespace, name string, change func(status map[string]any)) {
	r.t.Helper()
	at := r.client.Resource(fleet.GroupVersion.WithResource(resourceOf(kind))).Namespace(namespace)
	o, err := at.Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	change(o.Object["status"].(map[string]any))
	if _, err := at.UpdateStatus(r.t.Context(), o, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) installCRDs() {
	r.t.Helper()
	files, err := filepath.Glob("../../charts/fleet-crd/templates/*.yaml")
	if err != nil || len(files) == 0 {
		r.t.Fatalf("no CRDs: %v", err)
	}
	crds := r.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096).Decode(&doc); err != nil {
			r.t.Fatal(err)
		}
		if _, err := crds.Create(r.t.Context(), &unstructured.Unstructured{Object: normal(r.t, doc)}, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, k := range cli.Kinds {
		r.eventually(k.Plural+" are served", func() bool {
			_, err := r.client.Resource(k.Resource()).List(r.t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

func (r *real) eventually(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(timeout); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not in time: %s", what)
		}
	}
}

// fleet runs a command to its end.
func (r *real) fleet(args ...string) (out, notes string, err error) {
	var o, n bytes.Buffer
	err = r.start(r.t.Context(), &o, &n, args...)
	return o.String(), n.String(), err
}

func (r *real) start(ctx context.Context, out, notes io.Writer, args ...string) error {
	root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: out, Err: notes})
	root.SetArgs(append(args, "--kubeconfig", r.kubeconfig))
	return root.ExecuteContext(ctx)
}

// kubectl is the sandbox's.
func (r *real) kubectl(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), harness.Kubernetes(r.t), append([]string{"kubectl", "--kubeconfig", r.kubeconfig}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("kubectl %v: %v", args, err)
	}
	return string(out)
}

// TestRealServer runs the commands against a real API server. Explain is the last: it adds
// another fleet, which the parts before it would list.
func TestRealServer(t *testing.T) {
	r := newReal(t)
	t.Run("SameAsKubectl", r.sameAsKubectl)
	t.Run("Pages", r.pages)
	t.Run("WatchesClusters", r.watchesClusters)
	t.Run("WaitsForAPush", r.waitsForAPush)
	t.Run("Suspends", r.suspends)
	t.Run("Brake", r.brake)
	t.Run("FewRights", r.fewRights)
	t.Run("Explain", r.explains)
}

// Objects are what kubectl prints, to the byte.
func (r *real) sameAsKubectl(t *testing.T) {
	for ours, theirs := range map[string]string{
		"get clusters -o json":                              "get clusters.fleet.cattle.io -A -o json",
		"get clusters -o yaml":                              "get clusters.fleet.cattle.io -A -o yaml",
		"get clusters -n fleet-default -l env=dev -o json":  "get clusters.fleet.cattle.io -n fleet-default -l env=dev -o json",
		"get bundles examples-web -n fleet-default -o json": "get bundles.fleet.cattle.io examples-web -n fleet-default -o json",
		"get bundles examples-web -n fleet-default -o yaml": "get bundles.fleet.cattle.io examples-web -n fleet-default -o yaml",
		"get repos -l nothing=here -o json":                 "get gitrepos.fleet.cattle.io -A -l nothing=here -o json",
		"get tokens -n fleet-default -o name":               "get clusterregistrationtokens.fleet.cattle.io -n fleet-default -o name",
		"events cluster/c2 -o json":                         "get events -n fleet-default --field-selector involvedObject.kind=Cluster,involvedObject.name=c2 -o json",
	} {
		got, _, err := r.fleet(strings.Fields(ours)...)
		if err != nil {
			t.Errorf("fleet %s: %v", ours, err)
			continue
		}
		if diff := cmp.Diff(r.kubectl(strings.Fields(theirs)...), got); diff != "" {
			t.Errorf("fleet %s: -kubectl +fleet\n%s", ours, diff)
		}
	}
}

// --limit is the server's page, and its token goes on where it ended.
func (r *real) pages(t *testing.T) {
	first, notes, err := r.fleet("get", "clusters", "--limit", "3", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if want := "3 of 4 shown; next page: --continue "; !strings.HasPrefix(notes, want) {
		t.Fatalf("want %q, got %q", want, notes)
	}
	token := strings.TrimSpace(notes[strings.Index(notes, "--continue ")+len("--continue "):])
	second, notes, err := r.fleet("get", "clusters", "--limit", "3", "--continue", token, "-o", "name")
	if err != nil || notes != "" {
		t.Fatalf("second page: %v, %q", err, notes)
	}
	all, _, _ := r.fleet("get", "clusters", "-o", "name")
	if first+second != all {
		t.Errorf("want both pages to be all\n%s%s---\n%s", first, second, all)
	}
}

// lines collects what a command prints while it runs.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) has(text string) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.buf.String(), text)
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A change of state is a new line; a sign of life is none.
func (r *real) watchesClusters(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out lines
	ended := make(chan error, 1)
	go func() { ended <- r.start(ctx, &out, io.Discard, "get", "clusters", "-n", "fleet-default", "-w") }()
	r.eventually("the table", out.has("c3 "))
	r.update("Cluster", "fleet-default", "c2", func(status map[string]any) {
		status["agent"].(map[string]any)["lastSeen"] = time.Now().UTC().Format(time.RFC3339)
	})
	r.update("Cluster", "fleet-default", "c2", func(status map[string]any) {
		status["display"].(map[string]any)["state"] = "Offline"
	})
	r.eventually("c2 is Offline", out.has("Offline"))
	r.update("Cluster", "fleet-default", "c2", func(status map[string]any) {
		delete(status["display"].(map[string]any), "state")
	})
	r.eventually("c2 is back", func() bool { return strings.Count(out.String(), "c2 ") == 3 })
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// waitsForAPush sees a push that another process rolls out.
func (r *real) waitsForAPush(t *testing.T) {
	const commit = "d77a0c2000000000000000000000000000000000"
	var out, notes lines
	ended := make(chan error, 1)
	go func() {
		ended <- r.start(t.Context(), &out, &notes, "wait", "repo/examples", "-n", "fleet-local", "--commit", "d77a0c2", "--timeout", timeout.String())
	}()
	ns := "cluster-fleet-local-local-1a3d67d0a899"
	for _, o := range []struct{ kind, namespace string }{{"Bundle", "fleet-local"}, {"BundleDeployment", ns}} {
		at := r.client.Resource(fleet.GroupVersion.WithResource(resourceOf(o.kind))).Namespace(o.namespace)
		u, err := at.Get(t.Context(), "examples-settings", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		labels := u.GetLabels()
		labels[fleet.LabelCommit] = commit
		u.SetLabels(labels)
		if _, err := at.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.update("GitRepo", "fleet-local", "examples", func(status map[string]any) { status["commit"] = commit })
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, notes.String())
	}
	if want := "1 of 1 clusters is at d77a0c2\n"; out.String() != want {
		t.Errorf("want %q, got %q", want, out.String())
	}
	if !notes.has("seen    d77a0c2: 1 of 1 bundle changed (settings)")() {
		t.Errorf("the scenario lacks what was seen:\n%s", notes.String())
	}
}

// suspends sets spec.paused as the commands suspend and resume of rancher/fleet do.
func (r *real) suspends(t *testing.T) {
	for _, verb := range []string{"suspend", "resume"} {
		if _, _, err := r.fleet(verb, "repo/examples", "-n", "fleet-default"); err != nil {
			t.Fatal(err)
		}
		got := r.kubectl("get", "gitrepos.fleet.cattle.io", "examples", "-n", "fleet-default", "-o", "jsonpath={.spec.paused}")
		if want := map[string]string{"suspend": "true", "resume": "false"}[verb]; got != want {
			t.Errorf("%s: want paused %s, got %s", verb, want, got)
		}
	}
}

// The brake is one ConfigMap, which every command mentions while it is there.
func (r *real) brake(t *testing.T) {
	if _, _, err := r.fleet("suspend", "--all", "--reason", "a drill"); err != nil {
		t.Fatal(err)
	}
	got := r.kubectl("get", "configmap", "fleet-brake", "-n", "cattle-fleet-system", "-o", "jsonpath={.data.suspended} {.data.reason} {.data.by}")
	if want := "true a drill sandbox-admin"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	_, notes, err := r.fleet("get", "groups")
	if err != nil || !strings.Contains(notes, "warning: rollouts are suspended since ") {
		t.Errorf("no warning: %v, %q", err, notes)
	}
	if _, _, err := r.fleet("resume", "--all"); err != nil {
		t.Fatal(err)
	}
	if _, notes, _ = r.fleet("get", "groups"); notes != "" {
		t.Errorf("want no warning, got %q", notes)
	}
}

// Who may list one workspace sees that one.
func (r *real) fewRights(t *testing.T) {
	admin, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r.grant("look", "fleet-default", policyRule(fleet.Group, "*", "get", "list", "watch"))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, path, admin, "ana")
	ana := &real{t: t, kubeconfig: path, client: r.client}
	r.eventually("ana's rights", func() bool {
		_, _, err := ana.fleet("get", "clusters", "-n", "fleet-default")
		return err == nil
	})
	out, notes, err := ana.fleet("get", "clusters", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(out, "\n") != 3 || !strings.Contains(notes, "only fleet-default") {
		t.Errorf("want the three clusters of fleet-default and a note, got %q and %q", out, notes)
	}
	if _, _, err := ana.fleet("get", "clusters", "-n", "fleet-local"); err == nil || cli.ExitCode(err, false) != 1 {
		t.Errorf("want exit 1 for a workspace without rights, got %v", err)
	}
	ana.adviceForWriters(t)
}

// policyRule is a rule of a Role about one resource.
func policyRule(group, resource string, verbs ...any) map[string]any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}

// grant gives ana the rights of a new Role in a namespace.
func (r *real) grant(name, namespace string, rules ...any) {
	r.t.Helper()
	for _, doc := range []map[string]any{
		{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": map[string]any{"name": name, "namespace": namespace}, "rules": rules,
		},
		{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
			"metadata": map[string]any{"name": name, "namespace": namespace},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ana"}},
		},
	} {
		r.create(&unstructured.Unstructured{Object: doc})
	}
}

// adviceForWriters checks, for a user who may only read, that each command that writes names
// the missing right and how an administrator grants it.
func (r *real) adviceForWriters(t *testing.T) {
	t.Chdir("../../examples")
	const ofManager, ofWorkspace = "with a RoleBinding in namespace cattle-fleet-system to", "with a RoleBinding in namespace fleet-default to"
	for line, advice := range map[string]string{
		"suspend -n fleet-default repo/examples": "with a RoleBinding in the workspace to",
		"suspend --all --reason drill":           ofManager,
		"resume --all":                           ofManager,
		"cluster agents":                         ofManager,
		"apply -n fleet-default copy settings":   ofWorkspace,
		"workspace create team-a":                "with a ClusterRoleBinding to",
		"cluster rotate -n fleet-default c1":     "with a RoleBinding in the workspace to",
	} {
		_, _, err := r.fleet(strings.Fields(line)...)
		var text strings.Builder
		if err != nil {
			client.ReportError(&text, err, func(string) string { return "" })
		}
		want := "an administrator grants it " + advice + " a ClusterRole"
		if cli.ExitCode(err, false) != 1 || !strings.Contains(text.String(), " is forbidden: ") || !strings.Contains(text.String(), want) {
			t.Errorf("fleet %s: want %q, got %s", line, want, text.String())
		}
	}

	// What docs/rights.md says is enough.
	brake := policyRule("", "configmaps", "get", "patch", "delete")
	brake["resourceNames"] = []any{fleet.ConfigMapBrake}
	r.grant("brake", fleet.NamespaceSystem, policyRule("", "configmaps", "create"), brake)
	r.grant("apply", "fleet-default", policyRule("", "secrets", "get", "list", "create", "patch", "delete"),
		policyRule(fleet.Group, "bundles", "get", "list", "create", "patch", "delete"))
	for _, line := range []string{
		"suspend --all --reason drill", "resume --all", "apply -n fleet-default copy settings web", "apply -n fleet-default copy settings",
	} {
		r.eventually("fleet "+line, func() bool {
			_, _, err := r.fleet(strings.Fields(line)...)
			return err == nil
		})
	}
}

// writeKubeconfig writes a kubeconfig for a user whom the admin impersonates.
func writeKubeconfig(t *testing.T, path string, admin *rest.Config, user string) {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["x"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	cfg.AuthInfos["x"] = &clientcmdapi.AuthInfo{
		ClientCertificate: admin.CertFile, ClientCertificateData: admin.CertData,
		ClientKey: admin.KeyFile, ClientKeyData: admin.KeyData, Token: admin.BearerToken, Impersonate: user,
	}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "x", AuthInfo: "x"}
	cfg.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
}
