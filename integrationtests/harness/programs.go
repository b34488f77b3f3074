package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// Program puts one of kubebin.Programs into a folder and returns its path. It is
// built where something has changed, once for all packages; what is built
// meanwhile does not change the copy.
func Program(ctx context.Context, name, folder string) (string, error) {
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		return "", err
	}
	built, err := builder.Fleet(ctx)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(built, name))
	if err != nil {
		return "", fmt.Errorf("copy program: %w", err)
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, text, 0o700); err != nil {
		return "", fmt.Errorf("copy program: %w", err)
	}
	return path, nil
}

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
