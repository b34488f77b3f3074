package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metrics "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// CheckIn is how often the agents of the shared fleet say that they live. A
// cluster counts as offline after three times this.
const CheckIn = 10 * time.Second

// startLimit is how long the shared fleet may take to come up.
const startLimit = 5 * time.Minute

// A World is the fleet that all tests of a package share, as one test sees
// it: a management cluster and two downstream clusters, c1 (env=dev) and c2
// (env=prod), with the programs, credentials and rights of production.
//
// A test sets up and looks as administrator. It uses names and labels of its
// own and leaves the fleet as it found it.
type World struct {
	Local, C1, C2 *Member

	t     testing.TB
	fleet *sandbox.Fleet
	dir   string // of the fleet
	bin   string // of its programs
	start time.Time
}

// A Member is one cluster of the World.
type Member struct {
	*sandbox.Member
	Client *kube.Client // the administrator's
}

// shared is the one fleet of this process. It starts with the first test.
var shared struct {
	once   sync.Once
	fleet  *sandbox.Fleet
	folder folder
	bin    string
	start  time.Time
	err    error
	memory bool // its API servers are in memory
	scans  bool // it scans images

	metrics map[string]string // addresses, by the names of the manager's Deployments
}

// ScanImages switches image scanning on in the shared fleet of a package, before Main.
func ScanImages() { shared.scans = true }

// ServeMetrics lets the manager of the shared fleet of a package serve metrics, before Main.
func ServeMetrics() {
	first, _, err := port.Block(3)
	if err != nil {
		panic(err)
	}
	shared.metrics = map[string]string{}
	for i, name := range []string{"fleet-controller", "gitjob", "helmops"} {
		shared.metrics[name] = net.JoinHostPort(port.Loopback, strconv.Itoa(first+i))
	}
}

// Metrics returns the metrics that a process of the manager serves, by the names of their
// families. ServeMetrics was called.
func (w *World) Metrics(deployment string) map[string]*metrics.MetricFamily {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+shared.metrics[deployment]+"/metrics", nil)
	w.must(err)
	answer, err := http.DefaultClient.Do(req)
	w.must(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("metrics of %s: %s", deployment, answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	w.must(err)
	return families
}

// MainInMemory is Main for a package whose shared fleet has API servers in memory.
func MainInMemory(m *testing.M) int {
	shared.memory = true
	return Main(m)
}

// Main runs the tests of a package and then stops the shared fleet, if one of
// them has started it. Its logs stay where a test has failed.
func Main(m *testing.M) int {
	code := Parallel(m)
	if shared.fleet != nil {
		shared.fleet.Stop()
	}
	switch {
	case shared.folder.path == "":
	case code != 0:
		fmt.Fprintln(os.Stderr, "logs and audit logs of the fleet:", shared.folder.keep())
	default:
		shared.folder.remove()
	}
	return code
}

// Open returns the shared fleet for one test, and starts it first where that
// has not happened. The test is skipped where Kubernetes is not built.
func Open(t testing.TB) *World {
	t.Helper()
	binary := ""
	if !shared.memory {
		binary = Kubernetes(t)
	}
	shared.once.Do(func() { shared.err = startShared(binary) })
	if shared.err != nil {
		t.Fatalf("the shared fleet did not start: %v\n%s", shared.err, logTails(shared.folder.path, time.Time{}))
	}
	if err := shared.fleet.Err(); err != nil {
		t.Fatalf("the shared fleet has ended: %v", err)
	}
	w := &World{t: t, fleet: shared.fleet, dir: shared.folder.path, bin: shared.bin, start: time.Now()}
	w.Local = w.member(w.fleet.Local)
	for i, m := range []**Member{&w.C1, &w.C2} {
		*m = w.member(w.fleet.Downstream[i])
	}
	t.Cleanup(w.explain)
	return w
}

// For is the same fleet for a part of the test that t runs.
func (w *World) For(t testing.TB) *World {
	part := *w
	part.t = t
	return &part
}

func startShared(binary string) error {
	root, err := source.Root()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startLimit, errors.New("not in time"))
	defer cancel()
	built, err := Programs(ctx)
	if err != nil {
		return err
	}
	if shared.folder, err = newFolder(); err != nil {
		return err
	}
	// A copy, so that what is built meanwhile is not what a test restarts.
	shared.bin = filepath.Join(shared.folder.path, "bin")
	if err := os.CopyFS(shared.bin, os.DirFS(built)); err != nil {
		return fmt.Errorf("copy programs: %w", err)
	}
	shared.start = time.Now()
	cfg := sandbox.Config{
		Dir:        shared.folder.path,
		Kubernetes: binary,
		Programs:   shared.bin,
		Charts:     filepath.Join(root, "charts"),
		Downstream: []sandbox.Downstream{
			{Name: "c1", Labels: map[string]string{"env": "dev"}},
			{Name: "c2", Labels: map[string]string{"env": "prod"}},
		},
		CheckIn: CheckIn,
		GOGC:    GOGC,

		Metrics:    shared.metrics,
		ImageScans: shared.scans,
		Debug:      true, // what not even a debug message shows, no message shows
	}
	if shared.memory {
		cfg.ControlPlane = memoryControlPlane
	}
	shared.fleet, err = sandbox.Start(ctx, cfg)
	return err
}

// memoryControlPlane starts an API server in memory for the shared fleet. It has one node.
func memoryControlPlane(name string, port int) (sandbox.ControlPlane, error) {
	m := &memory{Server: kubetest.NewDistinct(processTB{}), name: name}
	if err := m.start(shared.folder.path, port); err != nil {
		return nil, err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	_, err := kube.StoreOf[*corev1.Node](m.Connect("harness")).Create(context.Background(), node)
	return m, err
}

func (w *World) member(m *sandbox.Member) *Member {
	client, err := kube.Connect(kube.Config{REST: m.Cluster.REST(), UserAgent: m.Cluster.REST().UserAgent, FieldManager: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	return &Member{Member: m, Client: client}
}

// Downstream lists the downstream clusters.
func (w *World) Downstream() []*Member { return []*Member{w.C1, w.C2} }

// Members lists all clusters, the management cluster first.
func (w *World) Members() []*Member { return []*Member{w.Local, w.C1, w.C2} }

// Started is when the shared fleet was started.
func (w *World) Started() time.Time { return shared.start }

// Cleanup calls f after the test, before what was registered earlier.
func (w *World) Cleanup(f func()) { w.t.Cleanup(f) }

// StopAgent stops the agent of a cluster. It runs again after the test at
// the latest.
func (w *World) StopAgent(m *Member) {
	w.t.Helper()
	if !w.fleet.StopAgent(m.Member) {
		w.t.Fatalf("the agent of %s does not run", m.Name)
	}
	w.t.Cleanup(func() { w.StartAgent(m) })
}

// StartAgent starts the agent of a cluster; nothing happens if it runs.
func (w *World) StartAgent(m *Member) {
	w.t.Helper()
	w.must(w.fleet.StartAgent(m.Member))
}

// KillManager ends the manager's processes with SIGKILL. They run again after
// the test at the latest.
func (w *World) KillManager() {
	w.t.Helper()
	if !w.fleet.KillManager() {
		w.t.Fatal("the manager does not run")
	}
	w.t.Cleanup(w.StartManager)
}

// StartManager starts the manager's processes; nothing happens to those that
// run.
func (w *World) StartManager() {
	w.t.Helper()
	w.must(w.fleet.StartManager())
}

// Cut takes the agent of a downstream cluster off the net. It is back after
// the test at the latest.
func (w *World) Cut(m *Member) {
	w.t.Helper()
	w.must(w.fleet.Cut(m.Member))
	w.t.Cleanup(func() { w.Heal(m) })
}

// Heal undoes Cut.
func (w *World) Heal(m *Member) {
	w.t.Helper()
	w.must(w.fleet.Heal(m.Member))
}

// CLI runs the command fleet as administrator of the management cluster, and
// returns what it prints on stdout. The test fails if the command does.
func (w *World) CLI(args ...string) string {
	w.t.Helper()
	out, notes, err := w.TryCLI(args...)
	if err != nil {
		w.t.Fatalf("fleet %s: %v\n%s%s", strings.Join(args, " "), err, out, notes)
	}
	return out
}

// TryCLI is CLI for a command that may fail: it returns stdout, stderr and how the
// command ended. It may be called in several goroutines.
func (w *World) TryCLI(args ...string) (out, notes string, err error) {
	cmd := exec.Command(filepath.Join(w.bin, "fleet"), append(args, "--kubeconfig="+w.Local.Cluster.Kubeconfig())...)
	cmd.Env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// explain logs, after a failed test, what the programs have logged since it
// began.
func (w *World) explain() {
	if !w.t.Failed() {
		return
	}
	w.t.Logf("what Fleet's processes have said since:\n%s", logTails(w.dir, w.start))
}
