package harness

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// AgentCLI runs the command fleet-agent on a cluster, as its administrator, and
// returns what it prints on stdout and its exit code. The story fails if it
// cannot be run.
func (w *World) AgentCLI(m *Member, args ...string) (out string, code int) {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(w.bin, "fleet-agent"), append(args, "--kubeconfig="+m.Cluster.Kubeconfig())...)
	cmd.Env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH")}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() == 1 {
		w.t.Fatalf("fleet-agent %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr.Bytes())
	}
	return string(stdout), cmd.ProcessState.ExitCode()
}
