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

// programsEnv, in the environment of tests, is the folder of kubebin.Programs that are up to
// date: hack/test has built them. To ask go whether something has changed takes seconds of
// processor time in each package.
const programsEnv = "FLEET_TEST_PROGRAMS"

// Programs is the folder of kubebin.Programs. They are built where something has
// changed, once for all packages, and stay until something changes again: what runs
// for long takes a copy.
func Programs(ctx context.Context) (string, error) {
	if built := os.Getenv(programsEnv); built != "" {
		return built, nil
	}
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		return "", err
	}
	return builder.Fleet(ctx)
}

// Tools makes a folder with copies of Fleet's programs, and with kubectl, which is
// the executable kubernetes.
func Tools(ctx context.Context, kubernetes, dir string) error {
	built, err := Programs(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(built)); err != nil {
		return fmt.Errorf("copy programs: %w", err)
	}
	return os.Symlink(kubernetes, filepath.Join(dir, "kubectl"))
}

// Program puts a copy of one of Programs into a folder and returns its path.
func Program(ctx context.Context, name, folder string) (string, error) {
	built, err := Programs(ctx)
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
// returns what it prints on stdout and its exit code. The test fails if it
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
