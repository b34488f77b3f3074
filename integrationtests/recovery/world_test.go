// Package recovery reports how a fleet lives on after its management cluster is
// lost. The commands are those of docs/recovery.md, typed at a terminal; the
// manager and the agents are real. So are the management clusters, which validate
// what is restored; those of the agents are API servers in memory.
package recovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// document is the page whose steps the test runs.
const document = "docs/recovery.md"

// checkIn is how often an agent checks in.
const checkIn = 10 * time.Second

// A world is a person at a shell, a management cluster, and another one for when
// that is lost.
type world struct {
	*harness.Shell
	git             *gitserver.Server
	since           *time.Time // the management cluster was lost then
	hub             *cluster.Cluster
	spare           *cluster.Cluster
	east, imp, late harness.ControlPlane // east joins by a token, imp by its kubeconfig, late after the copy
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Shell: harness.OpenShell(t), since: &time.Time{}}
	management := w.Clusters("hub", "spare")
	w.hub, w.spare = management[0], management[1]
	w.east, w.imp, w.late = harness.Memory(t, "east"), harness.Memory(t, "imp"), harness.Memory(t, "late")
	var err error
	w.git, err = gitserver.Start(gitserver.Config{Dir: filepath.Join(w.Dir, "git")})
	w.must(err)
	t.Cleanup(w.git.Close)
	w.file("shop/web/fleet.yaml", "defaultNamespace: web\nhelm: {releaseName: web}\n")
	w.file("shop/web/app.yaml", app("one"))
	for _, name := range []string{"extra", "old", "new"} {
		w.file("shop/"+name+"/fleet.yaml", "defaultNamespace: "+name+"\n")
		w.file("shop/"+name+"/a.yaml", harness.ConfigMap("a", name))
	}
	w.gits("init", "--quiet", "--initial-branch="+gitserver.Branch)
	w.must(w.git.Create("shop"))
	w.git.Protect("shop", "ann", "secret")
	w.commit("first")
	return w
}

// app is a workload that would be started again if its version changed.
func app(version string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "none.invalid/web:` + version + `"}]}
`
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) on(t testing.TB) *world {
	part := *w
	part.Shell = w.On(t)
	return &part
}

// file writes a file in the home.
func (w *world) file(name, text string) {
	w.Helper()
	path := filepath.Join(w.Dir, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o700))
	w.must(os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) gits(args ...string) {
	w.Helper()
	if _, err := gitserver.Git(filepath.Join(w.Dir, "shop"), args...); err != nil {
		w.Fatal(err)
	}
}

// commit publishes the working copy.
func (w *world) commit(message string) {
	w.Helper()
	w.gits("add", "--all")
	w.gits("commit", "--quiet", "--allow-empty", "--message", message)
	w.gits("push", "--quiet", w.git.Path("shop"), gitserver.Branch)
}

// step types a step of the document.
func (w *world) step(name string, at harness.ControlPlane, env ...string) string {
	w.Helper()
	return w.Types(at, w.Block(document, name), env...).Out
}

// repo makes a GitRepo for folders of the repository "shop".
func (w *world) repo(name string, at harness.ControlPlane, paths ...string) {
	w.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": fleet.GroupVersion.String(), "kind": "GitRepo", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"repo": w.git.URL("shop"), "branch": gitserver.Branch, "paths": paths, "clientSecretName": "git", "pollingInterval": "1s",
			"targets": []any{map[string]any{"clusterSelector": map[string]any{"matchLabels": map[string]string{"shop": "yes"}}}},
		},
	})
	w.must(err)
	w.Types(at, fmt.Sprintf("kubectl -n fleet-default create -f - <<'EOF'\n%s\nEOF", text))
}

// manages runs the manager of a cluster.
func (w *world) manages(at harness.ControlPlane) {
	w.Helper()
	w.Runs(at, "fleet-controller", "fleet-controller", "--roles=controller,agentmanagement,cleanup")
	w.Runs(at, "gitjob", "fleet-controller", "--roles=gitjob")
}

// addresses writes the manager's address into its settings, as the values of its
// chart would.
func (w *world) addresses(at harness.ControlPlane) {
	w.Helper()
	config := w.Types(at, "kubectl -n cattle-fleet-system get configmap fleet-controller -o jsonpath='{.data.config}'").Out
	var settings map[string]any
	w.must(json.Unmarshal([]byte(config), &settings))
	settings["apiServerURL"], settings["apiServerCA"] = at.URL(), at.CA() // bytes are base64 in JSON
	settings["agentCheckinInterval"] = checkIn.String()
	settings["manageAgent"] = false // agents are processes here: there is no Deployment to update
	text, err := json.Marshal(settings)
	w.must(err)
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"config": string(text)}})
	w.must(err)
	w.Types(at, fmt.Sprintf("kubectl -n cattle-fleet-system patch configmap fleet-controller --type=merge -p '%s'", patch))
}

// A standing is how a Cluster says that it is.
type standing struct {
	Ready, Desired int
	Orphans        string
	Seen           bool
}

// standings are the Clusters of fleet-default, by the label "site" of their agents.
func (w *world) standings(at harness.ControlPlane) map[string]standing {
	w.Helper()
	var list fleet.ClusterList
	w.must(json.Unmarshal([]byte(w.Types(at, "kubectl -n fleet-default get clusters.fleet.cattle.io -o json").Out), &list))
	out := map[string]standing{}
	for _, c := range list.Items {
		s := standing{Ready: c.Status.Summary.Ready, Desired: c.Status.Summary.DesiredReady, Seen: !c.Status.Agent.LastSeen.IsZero()}
		if o := c.Status.Agent.Orphans; o != nil {
			s.Orphans = strings.Join(o.Names, " ")
		}
		out[c.Labels["site"]] = s
	}
	return out
}

// sees waits until the Clusters stand as they should.
func (w *world) sees(at harness.ControlPlane, limit time.Duration, want map[string]standing) time.Duration {
	w.Helper()
	began := time.Now()
	var got map[string]standing
	for ; !maps.Equal(got, want); time.Sleep(100 * time.Millisecond) { // how often it looks
		if time.Since(began) > limit {
			all := w.Tries(at, "kubectl get bundles,bundledeployments -A; fleet status -A; fleet get repos -A").Out
			w.Fatalf("not in %s\n got %v\nwant %v\n%s", limit, got, want, all)
		}
		got = w.standings(at)
	}
	return time.Since(began)
}

// sites are the clusters with agents.
func (w *world) sites() []harness.ControlPlane { return []harness.ControlPlane{w.east, w.imp, w.late} }

// runsAgent runs the agent of a site, as its Deployment would.
func (w *world) runsAgent(at harness.ControlPlane) {
	w.Helper()
	w.Runs(at, "fleet-agent", "fleet-agent")
}

// joins lets a site join by a token, with labels that its agent asks for.
func (w *world) joins(site harness.ControlPlane) {
	w.Helper()
	w.Types(site, "fleet install agent-config -l shop=yes,site="+site.Name()+" | kubectl apply -f -")
	w.Types(w.hub, "fleet install agent-token -n fleet-default --server-url "+w.hub.URL()+" > join.yaml")
	w.Types(site, "kubectl apply -f join.yaml")
	w.runsAgent(site)
}

// imports lets the manager install the agent of a site.
func (w *world) imports(site harness.ControlPlane) {
	w.Helper()
	text, err := json.Marshal(&fleet.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: site.Name(), Labels: map[string]string{"site": site.Name(), "shop": "yes"}},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"},
	})
	w.must(err)
	w.file("import.yaml", string(text))
	w.Types(w.hub, "kubectl -n fleet-default create secret generic kubeconfig --from-file=value="+site.Kubeconfig()+
		"\nkubectl -n fleet-default create -f import.yaml")
	w.runsAgent(site) // as soon as the manager has made its account
}

// runs is the version of the workload on a site; empty: there is none.
func (w *world) runs(site harness.ControlPlane) string {
	w.Helper()
	image := w.Tries(site, "kubectl -n web get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'").Out
	return strings.TrimPrefix(image, "none.invalid/web:")
}

// has reports whether the ConfigMap of a folder of the repository is on a site.
func (w *world) has(site harness.ControlPlane, folder string) bool {
	w.Helper()
	return w.Tries(site, "kubectl -n "+folder+" get configmap a").Code == 0
}

// runsVersion checks that every site runs a version of the workload.
func (w *world) runsVersion(want string) {
	w.Helper()
	for _, site := range w.sites() {
		if v := w.runs(site); v != want {
			w.Errorf("%s runs version %q, want %q", site.Name(), v, want)
		}
	}
}

// written lists what Fleet has changed at the sites since a moment, but for what
// agents keep for themselves.
func (w *world) written(since time.Time) []harness.Request {
	w.Helper()
	var out []harness.Request
	for _, site := range w.sites() {
		list, err := harness.RequestsOf(site, since)
		w.must(err)
		for _, r := range list {
			if r.Ours() && r.Writes() && r.Code < 300 && !private(r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// private reports whether a request is about an agent's own objects or about
// rights.
func private(r harness.Request) bool {
	own := []string{"secrets", "configmaps", "events", "leases"}
	return r.Namespace == fleet.NamespaceSystem && slices.Contains(own, r.Resource) || strings.HasSuffix(r.Resource, "reviews")
}
