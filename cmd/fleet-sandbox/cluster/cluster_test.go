package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// TestMain lets the test binary be the launcher that TestCrash kills: with
// this variable set it starts a cluster in that folder and waits.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CLUSTER_TEST_LAUNCH"); dir != "" {
		c, err := cluster.Start(context.Background(), cluster.Config{
			Name: "crash", Dir: dir, Binary: os.Getenv("CLUSTER_TEST_BINARY"),
		})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println("serving", c.Port())
		<-c.Deaths()
	}
	os.Exit(m.Run())
}

func binary(t *testing.T) string {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	path, err := b.Cached(t.Context())
	if errors.Is(err, kubebin.ErrNotBuilt) {
		t.Skip("needs the sandbox's Kubernetes: run go run ./hack/test, which builds it first")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// inFolder lists the processes whose working directory is dir.
func inFolder(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == dir {
			found = append(found, filepath.Base(filepath.Dir(link)))
		}
	}
	return found
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

// TestWholeLife: a Deployment becomes Available, the audit log says who asked
// for it, and Stop leaves neither a process nor a port.
func TestWholeLife(t *testing.T) {
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Config{Name: "life", Dir: dir, Binary: binary(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if got := len(inFolder(t, dir)); got != 5 {
		t.Errorf("want 5 processes, got %d", got)
	}
	client, err := kubernetes.NewForConfig(c.REST())
	if err != nil {
		t.Fatal(err)
	}
	deploy(t, client)

	audit, err := os.ReadFile(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	found := slices.ContainsFunc(strings.Split(string(audit), "\n"), func(line string) bool {
		return strings.Contains(line, `"username":"sandbox-admin"`) && strings.Contains(line, `"userAgent":"sandbox-admin"`) &&
			strings.Contains(line, `"verb":"create"`) && strings.Contains(line, `"resource":"deployments"`)
	})
	if !found {
		t.Error("the audit log does not name who created the Deployment")
	}

	c.Stop()
	if left := inFolder(t, dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if !portFree(c.Port()) {
		t.Errorf("port %d is still taken", c.Port())
	}
	select {
	case death := <-c.Deaths():
		t.Errorf("a stopped part is no accident: %v", death)
	default:
	}
	if _, err := cluster.Start(t.Context(), cluster.Config{Name: "life", Dir: dir, Binary: binary(t)}); err == nil {
		t.Error("a second cluster started in the folder of the first")
	}
}

// deploy makes a Deployment of an image that does not exist and waits until
// it is Available.
func deploy(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	replicas := int32(2)
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "none.invalid/web:1"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	timeout := int64(180)
	watch, err := client.AppsV1().Deployments("default").Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: &timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if d, ok := event.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas == replicas {
			return
		}
	}
	t.Fatal("the Deployment is not Available after three minutes")
}

// TestEarlyDeath: a cluster that cannot start says which part ended and why,
// and leaves nothing behind.
func TestEarlyDeath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600); err != nil { // where the data would be
		t.Fatal(err)
	}
	_, err := cluster.Start(t.Context(), cluster.Config{Name: "early", Dir: dir, Binary: binary(t)})
	var death *process.Death
	if !errors.As(err, &death) {
		t.Fatalf("want a death, got %v", err)
	}
	if death.Name != "etcd of early" || !strings.Contains(death.LastLine, "not a directory") {
		t.Errorf("want etcd and its reason, got %v %v", death, death.Details())
	}
	if left := inFolder(t, dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// TestPortTaken: a port that another process has is refused before anything
// starts.
func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, err = cluster.Start(t.Context(), cluster.Config{Name: "late", Dir: t.TempDir(), Binary: binary(t), Port: port})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("want the port and that it is in use, got %v", err)
	}
}

// TestCrash: a launcher that is killed takes its cluster with it.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	launcher := exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), "CLUSTER_TEST_LAUNCH="+dir, "CLUSTER_TEST_BINARY="+binary(t))
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	var port int
	line, _ := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscanf(line, "serving %d", &port); err != nil {
		t.Fatalf("launcher says %q", line)
	}
	if err := launcher.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = launcher.Wait()
	deadline := time.Now().Add(90 * time.Second)
	for len(inFolder(t, dir)) > 0 || !portFree(port) {
		if time.Now().After(deadline) {
			t.Fatalf("still there: processes %v, port free %v", inFolder(t, dir), portFree(port))
		}
		time.Sleep(10 * time.Millisecond) // these are not our children: we get no signal when they end
	}
}
