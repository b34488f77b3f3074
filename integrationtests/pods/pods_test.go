package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A whole fleet of real pods, from helm install to helm uninstall. Each part goes on
// where the one before has ended. After the first step that fails only those run that
// look and change nothing.
func TestPods(t *testing.T) {
	if !node.Inside() {
		if err := node.Missing(); err != nil {
			t.Skip(err)
		}
		t.Skip("needs minutes and the whole machine: run `make e2e`")
	}
	w := open(t)
	const step, look = false, true
	stopped := false
	for _, part := range []struct {
		name  string
		looks bool // and changes nothing
		run   func(*world)
	}{
		{"OnlyRestrictedPods", look, (*world).onlyRestrictedPods},
		{"Install", step, (*world).installManager},
		{"Sockets", look, (*world).sockets},
		{"TokensThatLeadNowhere", step, (*world).badTokens},
		{"JoinByToken", step, (*world).joinByToken},
		{"JoinByKubeconfig", step, (*world).joinByKubeconfig},
		{"DeployToAll", step, (*world).deployToAll},
		{"Scripts", look, (*world).scripts},
		{"Rest", look, (*world).rest},
		{"Upgrade", step, (*world).upgradeManager},
		{"BrokenAgent", step, (*world).brokenAgent},
		{"23_RancherComes", step, (*world).rancherComes},
		{"17_MoveImported", step, (*world).moveImported},
		{"09_Customization", step, (*world).customize},
		{"12_AuthorityChanges", step, (*world).authorityChanges},
		{"22_24_HarvesterDownstream", step, (*world).harvesterDownstream},
		{"23_RancherGoes", step, (*world).rancherGoes},
		{"Uninstall", step, (*world).uninstallAll},
		{"Writers", look, (*world).writers},
	} {
		if stopped && !part.looks {
			continue
		}
		ok := t.Run(part.name, func(t *testing.T) {
			own := *w
			own.T = t
			defer func() { w.rancher = own.rancher }()
			part.run(&own)
		})
		stopped = stopped || !ok && !part.looks
	}
}

// The clusters are what they claim to be: a pod that asks for more than the
// restricted standard is refused.
func (w *world) onlyRestrictedPods() {
	root := int64(0)
	for _, s := range w.sites() {
		_, err := s.core.CoreV1().Pods("default").Create(w.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "root"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "root", Image: node.PauseImage, SecurityContext: &corev1.SecurityContext{RunAsUser: &root},
			}}},
		}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
			w.Errorf("a pod that runs as root on %s: %v", s.name, err)
		}
	}
}

// repository is the one git repository, and shop its one directory.
const repository = "shop"

// webDeployment is a workload as a careful tenant writes it.
const webDeployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: ` + node.PauseImage + `
        securityContext:
          runAsNonRoot: true
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
          seccompProfile: {type: RuntimeDefault}
`

// publish commits to the repository: the shop, with a greeting, and what only one
// workspace deploys.
func (w *world) publish(greeting string) {
	w.Helper()
	tree := filepath.Join(w.dir, "tree")
	for name, content := range map[string]string{
		"shop/fleet.yaml": "defaultNamespace: shop\n",
		"shop/web.yaml":   webDeployment,
		"shop/texts.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: texts\ndata:\n  greeting: " + greeting + "\n",
		"only/fleet.yaml": "defaultNamespace: only\n",
		"only/web.yaml":   webDeployment,
		"kept/fleet.yaml": "defaultNamespace: kept\n",
		"kept/web.yaml":   webDeployment,
	} {
		path := filepath.Join(tree, name)
		w.must(os.MkdirAll(filepath.Dir(path), 0o700))
		w.must(os.WriteFile(path, []byte(content), 0o600))
	}
	if _, err := os.Stat(filepath.Join(tree, ".git")); err != nil {
		w.must(w.git.Create(repository))
		_, err = gitserver.Git(tree, "init", "--quiet", "--initial-branch="+gitserver.Branch)
		w.must(err)
	}
	for _, args := range [][]string{
		{"add", "--all"}, {"commit", "--quiet", "--message", greeting}, {"push", "--quiet", w.git.Path(repository), gitserver.Branch},
	} {
		_, err := gitserver.Git(tree, args...)
		w.must(err)
	}
}

// greets returns when a greeting has reached a cluster.
func (w *world) greets(s *site, greeting string) {
	w.Helper()
	w.until("the greeting reaches "+s.name, func(ctx context.Context) string {
		m, err := s.core.CoreV1().ConfigMaps("shop").Get(ctx, "texts", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if m.Data["greeting"] != greeting {
			return m.Data["greeting"]
		}
		return ""
	})
}

// The charts are installed with Helm. The local agent comes up by itself, and a
// repository that the chart names is deployed.
func (w *world) installManager() {
	w.publish("hello")
	// From now on no pod of the manager's cluster reaches the API server of east.
	w.must(w.local.network.Drop(w.Context(), w.east.network))
	began := time.Now()
	w.install(w.local, "fleet-crd", nil)
	w.install(w.local, "fleet", w.managerValues())
	installed := w.since(began)
	w.until("the manager's pods run", func(context.Context) string {
		return w.running(w.local, fleet.NamespaceSystem, before, "fleet-controller", "gitjob", "helmops")
	})
	w.until("the local agent runs", func(context.Context) string {
		return w.running(w.local, fleet.NamespaceLocalAgent, before, "fleet-agent")
	})
	agent := w.since(began)
	w.ready(fleet.NamespaceLocal, fleet.ClusterLocal, 2) // the repository's, and its agent
	w.Logf("NUMBER helm install returned after %s, local agent ready after %s, local cluster Ready with a bundle deployed after %s",
		installed, agent, w.since(began))
	w.shopRuns(w.local)
}

// ready returns when a Cluster is Ready with that many bundles.
func (w *world) ready(workspace, name string, bundles int) {
	w.Helper()
	w.until("cluster "+name+" is Ready", func(context.Context) string {
		c, gone := get[*fleet.Cluster](w, w.local, workspace, name)
		if gone != "" {
			return gone
		}
		condition := "no condition"
		for _, one := range c.Status.Conditions {
			if one.Type == fleet.ConditionReady {
				condition = text(one.Status) + " " + one.Message
			}
		}
		have := fmt.Sprintf("Ready %s, %d of %d", condition, c.Status.Summary.Ready, c.Status.Summary.DesiredReady)
		if want := fmt.Sprintf("Ready True , %d of %d", bundles, bundles); have != want {
			return have
		}
		return ""
	})
}

// shopRuns returns when the workload runs in a cluster, as what the kubelet says.
func (w *world) shopRuns(s *site) {
	w.Helper()
	w.webRuns(s, "shop")
}

// webRuns returns when the workload runs in a namespace.
func (w *world) webRuns(s *site, namespace string) {
	w.Helper()
	w.until("the workload of "+namespace+" runs on "+s.name, func(context.Context) string {
		return w.running(s, namespace, "1", "web")
	})
}

// The pods of the manager listen for nothing but metrics, health and webhooks, by the
// sockets that the kernel knows. They run without root and cannot write where they run.
func (w *world) sockets() {
	want := map[string][]string{
		"fleet-controller": {"tcp 8080", "tcp 8081"},             // metrics, health
		"gitjob":           {"tcp 8080", "tcp 8081", "tcp 8082"}, // webhooks besides
		"helmops":          {"tcp 8081", "tcp 8082"},
		"fleet-agent":      nil,
	}
	got := map[string][]string{}
	for _, p := range slices.Concat(w.pods(w.local, fleet.NamespaceSystem), w.pods(w.local, fleet.NamespaceLocalAgent)) {
		got[p.Labels["app"]] = w.listening(w.processOf(p, program(p)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("what pods listen on\n-want +got\n%s", diff)
	}
	manager := w.processOf(w.pods(w.local, fleet.NamespaceSystem)[0], "fleet-controller")
	port := text(cluster.MachinePort)
	w.until("the manager's pod reaches the API server of west", func(context.Context) string {
		if !w.reaches(manager, w.west.network.Address(), port) {
			return "no connection within 3 seconds"
		}
		return ""
	})
	if w.reaches(manager, w.east.network.Address(), port) {
		w.Errorf("the manager's pod reaches the API server of east, which the packet filter should prevent")
	}
}

// program is the executable of a pod of ours.
func program(p corev1.Pod) string {
	if p.Labels["app"] == "fleet-agent" {
		return "fleet-agent"
	}
	return "fleet-controller"
}

// A repository for the workspace of downstream clusters.
func (w *world) deployToAll() {
	w.repo(fleet.NamespaceDefault, "shop", fleet.GitTarget{ClusterSelector: &metav1.LabelSelector{}}, false)
	for _, s := range []*site{w.east, w.west} {
		w.shopRuns(s)
	}
}

// repo makes a GitRepo of one folder, whose name it has.
func (w *world) repo(workspace, folder string, target fleet.GitTarget, keep bool) {
	w.Helper()
	create(w, w.local, &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: folder},
		Spec: fleet.GitRepoSpec{
			Repo: w.git.URL(repository), Branch: "main", Paths: []string{folder}, KeepResources: keep, Targets: []fleet.GitTarget{target},
		},
	})
}

// rest measures the agents' memory when there is nothing to do.
func (w *world) rest() {
	time.Sleep(restBefore) // what is measured is how little happens meanwhile
	for _, at := range []struct {
		site      *site
		namespace string
	}{{w.local, fleet.NamespaceSystem}, {w.local, fleet.NamespaceLocalAgent}, {w.east, fleet.NamespaceSystem}, {w.west, fleet.NamespaceSystem}} {
		for _, p := range w.pods(at.site, at.namespace) {
			m := w.memory(w.processOf(p, program(p)))
			w.Logf("NUMBER %s on %s at rest: %s", p.Labels["app"], at.site.name, m)
			if app := p.Labels["app"]; app == "fleet-agent" && m.resident > agentLimit {
				w.Errorf("%s on %s takes %s, at most %d KiB are wanted", app, at.site.name, m, agentLimit)
			}
		}
	}
}

const (
	restBefore = 10 * time.Second
	agentLimit = 80 << 10 // KiB resident
)

// lives identifies the running containers of pods, of a whole namespace or of some
// apps (by the label app): it changes when one of them restarts.
func (w *world) lives(s *site, namespace string, apps ...string) []string {
	w.Helper()
	var lives []string
	for _, p := range w.pods(s, namespace) {
		if len(apps) > 0 && !slices.Contains(apps, p.Labels["app"]) {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			lives = append(lives, fmt.Sprintf("%s %s %s restarts=%d", s.name, p.UID, c.ContainerID, c.RestartCount))
		}
	}
	return lives
}

// The manager's chart is upgraded to another image. The agents follow, and no
// workload is started again.
func (w *world) upgradeManager() {
	lives := w.allLives()
	began := time.Now()
	w.upgrade(w.local, "fleet", map[string]any{"image": imageOf(after), "agentImage": imageOf(after)})
	w.until("the manager's pods run with the new image", func(context.Context) string {
		return w.running(w.local, fleet.NamespaceSystem, after, "fleet-controller", "gitjob", "helmops")
	})
	manager := w.since(began)
	for _, at := range w.agents() {
		w.until("the agent of "+at.site.name+" runs with the new image", func(context.Context) string {
			return w.running(at.site, at.namespace, after, "fleet-agent")
		})
		w.until("the agent of "+at.site.name+" has checked in with the new version", func(context.Context) string {
			c, gone := get[*fleet.Cluster](w, w.local, at.workspace, at.cluster)
			if gone == "" && c.Status.Agent.Version != after {
				return c.Status.Agent.Version
			}
			return gone
		})
		w.Logf("agent of %s runs %s after %s", at.site.name, after, w.since(began))
	}
	w.unharmed("workloads through the upgrade", lives, w.allLives())
	w.Logf("NUMBER upgrade: manager after %s, all agents after %s", manager, w.since(began))
}

// An agent is where one runs, and its Cluster.
type agent struct {
	site               *site
	namespace          string
	workspace, cluster string
}

func (w *world) agents() []agent {
	var all []agent
	for _, s := range w.sites() {
		all = append(all, agent{s, s.agents, s.workspace, s.known})
	}
	return all
}

// Uninstalling the charts removes neither a workload nor a kind.
func (w *world) uninstallAll() {
	lives := w.allLives()
	for _, s := range w.sites() {
		if s.ends.IsZero() {
			s.ends = time.Now()
		}
	}
	w.uninstall(w.east, "fleet-agent")
	w.uninstall(w.local, "fleet")
	w.uninstall(w.local, "fleet-crd")
	w.unharmed("workloads when the charts are uninstalled", lives, w.allLives())
	for _, kind := range fleet.Kinds() {
		out, err := w.kubectl(w.local, "get", strings.ToLower(kind.Kind)+".fleet.cattle.io", "--all-namespaces")
		if err != nil {
			w.Errorf("kind %s after the charts are uninstalled: %s", kind.Kind, out)
		}
	}
}
