package helm4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// version is the Helm that the reference's newest agents have inside.
const version = "v4.2.3"

// downloadLimit bounds a download of Helm's modules that hangs. The build has no limit of
// its own: how long it takes says how busy the machine is, and nothing about Helm.
const downloadLimit = 15 * time.Minute

// errDownload is why the test is skipped: Helm's modules are not to be had.
var errDownload = errors.New("download the modules")

// helm4 is Helm's own program.
type helm4 struct {
	testing.TB
	path       string
	kubeconfig string
}

// source is a program that is Helm's but for the field manager: Helm's own program
// names itself, the reference's agent has Helm inside and is named after its
// binary.
var source = map[string]string{
	"go.mod": "module helm4\n\ngo 1.26.0\n\nrequire helm.sh/helm/v4 " + version + "\n",
	"main.go": `package main

import (
	"fmt"
	"os"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "` + fleet.FieldManagerRelease + `"
	cmd, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err == nil {
		err = cmd.Execute()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`,
}

// program returns Helm's program as the reference has it, built into the user's
// cache folder the first time. The test is skipped where its modules cannot be
// downloaded.
func program(t testing.TB, kubeconfig string) helm4 {
	t.Helper()
	path, err := build(t.Context())
	switch {
	case errors.Is(err, errDownload):
		t.Skipf("needs Helm %s, whose modules the Go module proxy does not give: %v", version, err)
	case err != nil:
		t.Fatalf("build Helm %s: %v", version, err)
	}
	return helm4{TB: t, path: path, kubeconfig: kubeconfig}
}

func build(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "fleet-sandbox", "helm4-"+version+"-"+digest())
	path := filepath.Join(dir, "helm4")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	for name, text := range source {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	limited, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	if err := goTool(limited, dir, "list", "-deps", "."); err != nil {
		return "", fmt.Errorf("%w: %w", errDownload, err)
	}
	return path, goTool(ctx, dir, "build", "-o", path, ".")
}

// goTool runs the go command in a folder. The error has the last line that it printed.
func goTool(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return errors.Join(err, errors.New(lines[len(lines)-1]))
	}
	return nil
}

// digest is short for what the program is built from.
func digest() string {
	sum := sha256.Sum256([]byte(source["go.mod"] + source["main.go"]))
	return hex.EncodeToString(sum[:4])
}

// run runs a command of Helm's, which must succeed.
func (h helm4) run(args ...string) {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), h.path, args...)
	home := h.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "KUBECONFIG=" + h.kubeconfig}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		h.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
}

// folder writes files, by name and text in turns, and returns where.
func (h helm4) folder(files []string) string {
	h.Helper()
	dir := h.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(files[i+1]), 0o600)
		}
		if err != nil {
			h.Fatal(fmt.Errorf("write chart: %w", err))
		}
	}
	return dir
}
