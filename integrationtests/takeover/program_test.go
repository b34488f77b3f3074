package takeover_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// referenceEnv are the variables that the reference's chart sets, with the values of the
// chart. Its manager does not start without the times of its lease.
func referenceEnv() []string {
	out := []string{
		"CATTLE_ELECTION_LEASE_DURATION=30s", "CATTLE_ELECTION_RENEW_DEADLINE=25s", "CATTLE_ELECTION_RETRY_PERIOD=10s",
	}
	for _, kind := range []string{"GITREPO", "BUNDLE", "BUNDLEDEPLOYMENT", "CLUSTER", "CLUSTERGROUP", "IMAGESCAN", "SCHEDULE", "CONTENT"} {
		out = append(out, kind+"_RECONCILER_WORKERS=50")
	}
	return out
}

// program runs a manager that is given by its path, until the end of the test.
// What it says is shown if the test fails.
func (w *world) program(t *testing.T, name, path string) {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	w.must(err)
	cmd := exec.Command(path, "--kubeconfig="+w.hub.Kubeconfig(), "--namespace="+fleet.NamespaceSystem)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append([]string{
		"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin", "POD_UID=" + name, "NAMESPACE=" + fleet.NamespaceSystem,
		"FLEET_METRICS_BIND_ADDRESS=0", "FLEET_HEALTHPROBE_BIND_ADDRESS=0", sandbox.AllowLoopback,
	}, referenceEnv()...)
	w.must(cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("what %s said:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
}
