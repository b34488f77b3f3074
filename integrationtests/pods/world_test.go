package pods

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A site is one cluster on a machine of its own.
type site struct {
	name    string
	network *node.Network
	cluster *cluster.Cluster
	node    *node.Node
	client  *kube.Client         // of the administrator
	core    kubernetes.Interface // of the administrator

	workspace, known string    // its Cluster on the management cluster
	agents           string    // namespace of its agent
	ends             time.Time // when a manager of this cluster begins to be uninstalled, and rights with it
	withoutRoles     period    // from Rancher's first start until the chart is upgraded
}

// A world is all machines, and a git server that all of them reach.
type world struct {
	*testing.T
	root   *testing.T // outlives parts of the test
	dir    string     // with what was built
	charts string
	began  time.Time
	git    *gitserver.Server

	local *site // where the manager is installed
	east  *site // joins by token; the manager's pods cannot reach it
	west  *site // joins by kubeconfig

	rancher *rancher.Rancher // on local, from some part on
}

// open starts everything. It ends with the enclosed process.
func open(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, root: t, dir: os.Getenv(folderEnv), began: time.Now()}
	root, err := source.Root()
	w.must(err)
	w.charts = filepath.Join(root, "charts")
	w.must(node.LayWire(t.Context()))
	w.git, err = gitserver.Start(gitserver.Config{Dir: filepath.Join(w.dir, "git"), Address: node.WireAddress})
	w.must(err)
	var all errgroup.Group
	for i, at := range []struct {
		name string
		site **site
	}{{"local", &w.local}, {"east", &w.east}, {"west", &w.west}} {
		network, err := node.NewNetwork(t.Context(), i+1)
		w.must(err)
		all.Go(func() error {
			*at.site, err = w.start(at.name, network)
			return err
		})
	}
	w.must(all.Wait())
	w.Cleanup(w.close)
	w.Logf("three clusters with real nodes are Ready after %s", w.since(w.began))
	return w
}

func (w *world) start(name string, network *node.Network) (*site, error) {
	s := &site{name: name, network: network, workspace: fleet.NamespaceDefault, known: name, agents: fleet.NamespaceSystem}
	if name == "local" {
		s.workspace, s.agents = fleet.NamespaceLocal, fleet.NamespaceLocalAgent
	}
	var err error
	s.cluster, err = cluster.Start(w.Context(), cluster.Config{
		Name: name, Dir: filepath.Join(w.dir, name), Binary: os.Getenv(kubernetesEnv), Machine: network.Machine(),
	})
	if err != nil {
		return nil, err
	}
	s.node, err = node.Start(w.Context(), node.Config{
		Network: network, Cluster: s.cluster, Dir: filepath.Join(w.dir, name, "node"),
		Kubelet: os.Getenv(kubeletEnv), Pause: filepath.Join(w.dir, pauseFile),
	})
	if err != nil {
		return nil, err
	}
	for _, version := range []string{before, after} {
		images := []string{"fleet-agent.tar"}
		if name == "local" || name == "west" && version == after { // west gets a manager of its own
			images = append(images, "fleet.tar")
		}
		for _, image := range images {
			if err := s.node.Import(w.Context(), filepath.Join(w.dir, version, image)); err != nil {
				return nil, err
			}
		}
	}
	if err := s.node.Import(w.Context(), filepath.Join(w.dir, brokenFile)); err != nil {
		return nil, err
	}
	if s.client, err = kube.Connect(kube.Config{REST: s.cluster.REST(), UserAgent: cluster.AdminUser, FieldManager: "test"}); err != nil {
		return nil, err
	}
	s.core, err = kubernetes.NewForConfig(s.cluster.REST())
	return s, err
}

func (w *world) sites() []*site { return []*site{w.local, w.east, w.west} }

func (w *world) close() {
	if w.Failed() {
		w.dump()
	}
	w.git.Close()
	for _, s := range w.sites() {
		s.node.Stop()
		s.cluster.Stop()
	}
}

// dump prints what a person would look at first.
func (w *world) dump() {
	for _, s := range w.sites() {
		for _, args := range []string{"pods --output=wide", "events --field-selector=type!=Normal", "deployments --output=wide"} {
			out, err := w.kubectl(s, append([]string{"get", "--all-namespaces"}, strings.Fields(args)...)...)
			w.Logf("%s on %s (%v):\n%s", args, s.name, err, tail(out, 30))
		}
		logs, _ := filepath.Glob(filepath.Join(w.dir, s.name, "node", "pods", "*fleet*", "*", "*.log"))
		for _, log := range logs {
			data, _ := os.ReadFile(log)
			w.Logf("%s:\n%s", strings.TrimPrefix(log, w.dir), tail(string(data), 25))
		}
	}
	out, _ := w.kubectl(w.local, "get", "clusters.fleet.cattle.io,gitrepos.fleet.cattle.io,bundles.fleet.cattle.io,bundledeployments.fleet.cattle.io", "-A", "-o", "yaml")
	_ = os.WriteFile(filepath.Join(w.dir, "objects.yaml"), []byte(out), 0o600)
}

// kubectl runs kubectl as the administrator and returns all that it prints.
func (w *world) kubectl(s *site, args ...string) (string, error) {
	cmd := exec.Command(os.Getenv(kubernetesEnv), append([]string{"kubectl", "--kubeconfig=" + s.cluster.Kubeconfig()}, args...)...)
	cmd.Env = []string{"HOME=" + w.dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// fleet runs our command line against the management cluster, and returns what it
// prints.
func (w *world) fleet(args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join(w.dir, fleetFile), append([]string{"--kubeconfig=" + w.local.cluster.Kubeconfig()}, args...)...)
	cmd.Env = []string{"HOME=" + w.dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("fleet %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// timeout is how long a state may take to appear: three clusters of real pods share
// what processors there are.
const timeout = 5 * time.Minute

// until returns when pending says nothing, and fails with what it said last if that
// does not happen in time.
func (w *world) until(what string, pending func(context.Context) string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last := "never looked"
	for {
		if now := pending(ctx); ctx.Err() == nil {
			if last = now; last == "" {
				return
			}
		}
		select {
		case <-ctx.Done():
			w.Fatalf("not within %s: %s: %s", timeout, what, last)
		case <-tick.C:
		}
	}
}

// since is the time since a moment, for people.
func (w *world) since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

// get reads an object of the management cluster, or nil and why there is none.
func get[P kube.Object](w *world, s *site, namespace, name string) (P, string) {
	obj, err := kube.StoreOf[P](s.client).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil {
		return obj, err.Error()
	}
	return obj, ""
}

// change changes an object of a cluster as its administrator, again after each
// conflict.
func change[P kube.Object](w *world, s *site, namespace, name string, f func(P)) {
	w.Helper()
	harness.Revise(w, s.client, kube.Key{Namespace: namespace, Name: name}, f)
}

// create makes an object as the administrator of a cluster.
func create[P kube.Object](w *world, s *site, obj P) {
	w.Helper()
	_, err := kube.StoreOf[P](s.client).Create(w.Context(), obj)
	w.must(err)
}

// pods lists those of a namespace that are not on their way out, by name.
func (w *world) pods(s *site, namespace string) []corev1.Pod {
	w.Helper()
	pods, err := s.pods(w.Context(), namespace)
	w.must(err)
	return pods
}

// pods lists those of a namespace that are not on their way out, by name.
func (s *site) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list, err := s.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// running is empty if the pods of a namespace are the given ones (by the label app)
// and all of them are Ready, with images of a version; and else says what is not so.
func (w *world) running(s *site, namespace, version string, apps ...string) string {
	w.Helper()
	pods, err := s.pods(w.Context(), namespace)
	if err != nil {
		return err.Error()
	}
	var have []string
	for _, p := range pods {
		have = append(have, p.Labels["app"])
		for _, c := range p.Status.ContainerStatuses {
			if !c.Ready {
				return fmt.Sprintf("container %s of pod %s is not ready: %+v", c.Name, p.Name, c.State)
			}
		}
		if len(p.Status.ContainerStatuses) == 0 {
			return "pod " + p.Name + " has not been started"
		}
		for _, c := range p.Spec.Containers {
			if !strings.HasSuffix(c.Image, ":"+version) {
				return fmt.Sprintf("container %s of pod %s has image %s", c.Name, p.Name, c.Image)
			}
		}
	}
	slices.Sort(apps)
	slices.Sort(have)
	if !slices.Equal(apps, have) {
		return fmt.Sprintf("pods in %s: %v instead of %v", namespace, have, apps)
	}
	return ""
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
