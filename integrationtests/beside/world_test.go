// Package beside reports how the manager, as its chart runs it, starts where others
// are: another manager of the same API, and Rancher.
package beside

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// TestMain lets tests run at once: they wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long something may take to happen.
const limit = harness.Timeout

// A world is one cluster in which the chart fleet is installed, but for its pods.
// The manager's own cluster does not join by itself.
type world struct {
	testing.TB
	hub      *harness.Hub
	programs string
	pods     map[string]*corev1.PodSpec // of its Deployments, by their names
}

func newWorld(t testing.TB, server harness.ControlPlane, more ...func(*harness.Hub, map[string]any)) *world {
	t.Helper()
	w := &world{TB: t, hub: harness.ConnectHub(t, server), pods: map[string]*corev1.PodSpec{}}
	harness.InstallCRDs(t, w.hub.Admin)
	w.hub.Namespace(t, fleet.NamespaceSystem)
	root, err := source.Root()
	w.must(err)
	values := map[string]any{
		"bootstrap":      map[string]any{"enabled": false},
		"leaderElection": map[string]any{"leaseDuration": "60s", "renewDeadline": "50s", "retryPeriod": "1s"}, // a process that waits looks often, and the holder does not lose the lease
	}
	for _, f := range more {
		f(w.hub, values)
	}
	w.install(filepath.Join(root, "charts", "fleet"), values)
	w.programs, err = harness.Programs(t.Context())
	w.must(err)
	return w
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) until(what string, f func() bool) {
	w.Helper()
	harness.Wait(w, limit, what, f)
}

// install installs a chart with the rights that it grants and the configuration of
// its processes, and notes how these are run.
func (w *world) install(folder string, values map[string]any) {
	w.Helper()
	c, err := loader.Load(folder)
	w.must(err)
	able := chartutil.DefaultCapabilities.Copy()
	able.KubeVersion = chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	able.APIVersions = append(able.APIVersions, "management.cattle.io/v3")
	render, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "fleet", Namespace: fleet.NamespaceSystem}, able)
	w.must(err)
	files, err := engine.Render(c, render)
	w.must(err)
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		w.hub.Grant(w, text)
		for _, doc := range strings.Split(text, "\n---\n") {
			var config corev1.ConfigMap
			w.must(yaml.Unmarshal([]byte(doc), &config))
			switch config.Kind {
			case "ConfigMap":
				_, err = kube.StoreOf[*corev1.ConfigMap](w.hub.Admin).Apply(w.Context(), &config)
			case "Deployment":
				var d appsv1.Deployment
				err = yaml.Unmarshal([]byte(doc), &d)
				w.pods[d.Name] = &d.Spec.Template.Spec
			}
			w.must(err)
		}
	}
}

// A run is a program at work.
type run struct {
	*world
	cmd    *exec.Cmd
	health string
	log    *lines
	done   chan struct{}
}

// lines collects the output of a program.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs the one container of a Deployment as a process, with the account, the
// arguments and the environment that the chart gives it, and more.
func (w *world) start(deployment, identity string, more ...string) *run {
	w.Helper()
	pod := w.pods[deployment]
	token := w.hub.Account(w, fleet.NamespaceSystem, pod.ServiceAccountName).BearerToken
	return w.begin(pod.Containers[0], w.hub.Kubeconfig(token), identity, more...)
}

// begin runs a container with a kubeconfig.
func (w *world) begin(c corev1.Container, kubeconfig []byte, identity string, more ...string) *run {
	w.Helper()
	tmp := w.TempDir()
	path := filepath.Join(tmp, "kubeconfig")
	w.must(os.WriteFile(path, kubeconfig, 0o600))
	r := &run{world: w, health: harness.FreeAddress(w), log: &lines{}, done: make(chan struct{})}
	args := append(append([]string{}, c.Args...), "--kubeconfig="+path, "--metrics-address=0", "--health-address="+r.health)
	r.cmd = exec.Command(filepath.Join(w.programs, c.Command[0]), append(args, more...)...)
	r.cmd.Env = []string{"HOME=" + tmp, "TMPDIR=" + tmp, "POD_UID=" + identity, sandbox.AllowLoopback}
	for _, e := range c.Env {
		if e.Value != "" && !strings.HasSuffix(e.Name, "_BIND_ADDRESS") {
			r.cmd.Env = append(r.cmd.Env, e.Name+"="+e.Value)
		}
	}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	w.must(r.cmd.Start())
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
	}()
	w.Cleanup(func() {
		r.stop()
		if w.Failed() {
			text := r.log.String()
			w.Logf("%s printed:\n%s", identity, text[max(0, len(text)-4000):])
		}
	})
	return r
}

// stop asks the program to end, as a node does, and waits. A program that ends with another
// exit code than 0 fails the test.
func (r *run) stop() {
	r.Helper()
	if r.ended() {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	<-r.done
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		r.Errorf("exit code %d after SIGTERM", code)
	}
}

// refused waits for the end of the program, which must have said all of these.
func (r *run) refused(texts ...string) {
	r.Helper()
	select {
	case <-r.done:
	case <-time.After(limit):
		r.stop()
		r.Fatal("it did not refuse to start")
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 1 {
		r.Errorf("exit code %d", code)
	}
	for _, text := range texts {
		if !strings.Contains(r.log.String(), text) {
			r.Errorf("it does not say %q:\n%s", text, r.log)
		}
	}
}

// says waits until the program has logged a text.
func (r *run) says(text string) {
	r.Helper()
	r.until("it says "+text, func() bool { return r.ended() || strings.Contains(r.log.String(), text) })
	if r.ended() {
		r.Fatalf("it ended, before it said %q:\n%s", text, r.log)
	}
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// ready reports whether its probe answers.
func (r *run) ready() bool {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.health+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// writes are the requests by which an account of the chart has changed something
// since a moment.
func (w *world) writes(account string, since time.Time) []harness.Request {
	w.Helper()
	list, err := w.hub.Requests(since)
	w.must(err)
	var out []harness.Request
	for _, r := range list {
		if r.User == "system:serviceaccount:"+fleet.NamespaceSystem+":"+account && r.Writes() {
			out = append(out, r)
		}
	}
	return out
}

// forbidden are the requests of an account of the chart that the API server did not
// allow.
func (w *world) forbidden(account string) []harness.Request {
	w.Helper()
	list, err := w.hub.Requests(time.Time{})
	w.must(err)
	var out []harness.Request
	for _, r := range list {
		if r.User == "system:serviceaccount:"+fleet.NamespaceSystem+":"+account && r.Code == http.StatusForbidden {
			out = append(out, r)
		}
	}
	return out
}
