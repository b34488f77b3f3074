// Package pods tests a whole fleet of real pods: three machines with containerd,
// runc and a kubelet each, the charts as Helm installs them, images of our own
// programs, and nothing pulled from anywhere.
//
// It needs root and some of Debian's packages (package node). `make e2e` runs it;
// everywhere else it is skipped.
package pods

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// Variables of the environment: wanted asks for the test, and the others give the
// enclosed process the paths of what was built for it.
const (
	wanted        = "FLEET_TEST_PODS"
	folderEnv     = "FLEET_PODS_FOLDER"
	kubernetesEnv = "FLEET_PODS_KUBERNETES"
	kubeletEnv    = "FLEET_PODS_KUBELET"
	keepEnv       = "FLEET_TEST_PODS_KEEP"   // for people: keep the folder with all logs
	imagesEnv     = "FLEET_TEST_PODS_IMAGES" // for people: a folder in which images are built once
)

// The versions of our images: what is installed, what it is upgraded to, and an
// agent that is none: no program of that name is in it.
const (
	before = "v0.1.0-before"
	after  = "v0.1.0-after"
	broken = "v0.2.0-broken"
)

// Files with what was built, besides the images of a version.
const (
	pauseFile  = "pause.tar"
	brokenFile = "broken.tar"
	fleetFile  = "fleet" // the command line
)

// The test runs in namespaces of its own, in this program called again: there
// all that is built is at hand, and nothing else can be reached.
func TestMain(m *testing.M) {
	if node.Inside() || os.Getenv(wanted) == "" || node.Missing() != nil {
		os.Exit(m.Run()) // the test itself says why it is skipped
	}
	code, err := enclose()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		code = 1
	}
	os.Exit(code)
}

// enclose builds what the test needs, runs it, and cleans up.
func enclose() (int, error) {
	runtime.LockOSThread() // the child ends with this thread
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "fleet-pods-")
	if err != nil {
		return 0, err
	}
	defer func() {
		node.Sweep()
		if os.Getenv(keepEnv) == "" {
			_ = os.RemoveAll(dir)
			return
		}
		fmt.Println("pods: logs are in", dir)
	}()
	root, err := source.Root()
	if err != nil {
		return 0, err
	}
	kubernetes, kubelet, err := build(ctx, root, dir)
	if err != nil {
		return 0, err
	}
	cmd := node.Enclosed(ctx, os.Args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), node.InsideEnv(), folderEnv+"="+dir, "HOME="+dir,
		kubernetesEnv+"="+kubernetes, kubeletEnv+"="+kubelet)
	if err := cmd.Run(); err != nil {
		if code := cmd.ProcessState.ExitCode(); code > 0 {
			return code, nil
		}
		return 0, fmt.Errorf("run enclosed: %w", err)
	}
	return 0, nil
}

// build makes the executables of Kubernetes and all images.
func build(ctx context.Context, root, dir string) (kubernetes, kubelet string, err error) {
	b, err := kubebin.Default(root)
	if err != nil {
		return "", "", err
	}
	say := func(line string) { fmt.Println("pods: build", line) }
	if kubernetes, err = kubebin.Ensure(ctx, os.Stdout); err != nil {
		return "", "", err
	}
	if kubelet, err = b.NarratedNode(ctx, say); err != nil {
		return "", "", err
	}
	pause := filepath.Join(dir, "pause")
	if err := b.Static(ctx, "./cmd/fleet-sandbox/node/pause", pause); err != nil {
		return "", "", err
	}
	for file, name := range map[string]string{pauseFile: node.PauseImage, brokenFile: "docker.io/fleetworkspace/fleet-agent:" + broken} {
		if err := (node.Image{Name: name, Program: pause}).Save(filepath.Join(dir, file)); err != nil {
			return "", "", err
		}
	}
	say("the command line")
	if err := b.Static(ctx, "./cmd/fleet", filepath.Join(dir, fleetFile)); err != nil {
		return "", "", err
	}
	for _, version := range []string{before, after} {
		say("images " + version)
		if err := images(ctx, root, dir, version); err != nil {
			return "", "", err
		}
	}
	return kubernetes, kubelet, nil
}

// images builds our images with a version into a folder of that name in dir.
func images(ctx context.Context, root, dir, version string) error {
	into := filepath.Join(dir, version)
	if kept := os.Getenv(imagesEnv); kept != "" {
		if err := os.Symlink(filepath.Join(kept, version), into); err != nil {
			return err
		}
		into = filepath.Join(kept, version)
		if _, err := os.Stat(into); err == nil {
			return nil
		}
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/image", "-version="+version, "-out="+into)
	cmd.Dir = root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, os.Stdout), &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build images: %w: %s", err, out.Bytes())
	}
	return nil
}
