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
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// shellLimit is how long a command at a Desk may take.
const shellLimit = 2 * Timeout

// A Shell is a person's terminal: a home folder, the programs of this clone and
// kubectl, and whatever clusters there are. Programs of pods run beside it, under
// accounts of their clusters.
type Shell struct {
	testing.TB
	Dir string // the home, in which commands run

	tools string // fleet, kubectl and the programs of pods
	group *process.Group
	root  testing.TB // outlives parts of the test
	runs  *sync.Map  // what ends a program, by cluster and account
}

// OpenShell prepares the programs. The test is skipped where Kubernetes is not
// built.
func OpenShell(t testing.TB) *Shell {
	t.Helper()
	binary := Kubernetes(t)
	d := &Shell{TB: t, root: t, runs: &sync.Map{}, Dir: t.TempDir(), group: process.NewGroup()}
	t.Cleanup(func() { d.group.Close(5 * time.Second) })
	d.tools = filepath.Join(t.TempDir(), "bin")
	must(t, Tools(t.Context(), binary, d.tools))
	return d
}

// On is the same shell for a part of the test.
func (d *Shell) On(t testing.TB) *Shell {
	part := *d
	part.TB = t
	return &part
}

// Clusters starts one control plane for each name, all at once.
func (d *Shell) Clusters(names ...string) []*cluster.Cluster {
	d.Helper()
	binary, out := Kubernetes(d), make([]*cluster.Cluster, len(names))
	var all errgroup.Group
	for i, name := range names {
		dir := d.root.TempDir()
		all.Go(func() (err error) {
			out[i], err = start(d.Context(), cluster.Config{Name: name, Dir: dir, Binary: binary})
			return err
		})
	}
	err := all.Wait()
	for _, c := range out {
		if c != nil {
			d.root.Cleanup(c.Stop)
		}
	}
	must(d.TB, err)
	return out
}

// Said is the output of a command line, and its exit code.
type Said struct {
	Out, Notes string
	Code       int
}

// Tries runs a command line in a shell, with a cluster as the current context. env
// is added to the environment.
func (d *Shell) Tries(at ControlPlane, line string, env ...string) Said {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), shellLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", line)
	cmd.Env = append([]string{"HOME=" + d.Dir, "PATH=" + d.tools + ":/usr/bin:/bin", "KUBECONFIG=" + at.Kubeconfig()}, env...)
	cmd.Dir, cmd.WaitDelay = d.Dir, 10*time.Second
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.Fatalf("%s: %v", line, err)
	}
	return Said{out.String(), notes.String(), cmd.ProcessState.ExitCode()}
}

// Types is Tries, and the command line has to succeed.
func (d *Shell) Types(at ControlPlane, line string, env ...string) Said {
	d.Helper()
	s := d.Tries(at, line, env...)
	if s.Code != 0 {
		d.Fatalf("%s: exit code %d\n%s%s", line, s.Code, s.Out, s.Notes)
	}
	return s
}

// Runs starts a program as a pod of a Deployment would: under an account of the
// cluster's system namespace, and with nothing of this machine's.
func (d *Shell) Runs(at ControlPlane, account, program string, args ...string) {
	d.Helper()
	var token string
	Wait(d, shellLimit, "the account "+account, func() bool {
		s := d.Tries(at, fmt.Sprintf("kubectl -n %s create token %s", fleet.NamespaceSystem, account))
		token = strings.TrimSpace(s.Out)
		return s.Code == 0
	})
	name := at.Name() + "-" + account
	tmp, err := os.MkdirTemp(d.Dir, name)
	must(d.TB, err)
	config, log := filepath.Join(tmp, "kubeconfig"), filepath.Join(tmp, "log")
	must(d.TB, kubeconfig.Write(config, kubeconfig.Entry{Name: at.Name(), Server: at.URL(), CA: at.CA(), Token: token}))
	p, err := d.group.Start(process.Spec{
		Name: name, Path: filepath.Join(d.tools, program), Dir: tmp, Log: log,
		Args: append(args, "--kubeconfig="+config, "--namespace="+fleet.NamespaceSystem),
		Env:  []string{"HOME=" + tmp, "TMPDIR=" + tmp, "POD_UID=" + name, sandbox.AllowLoopback},
	})
	must(d.TB, err)
	d.runs.Store(name, func() { p.Stop(5 * time.Second) })
	d.root.Cleanup(func() {
		if text, err := os.ReadFile(log); err == nil && d.root.Failed() {
			d.root.Logf("log of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
}

// Ends stops a program that Runs has started.
func (d *Shell) Ends(at ControlPlane, account string) {
	if stop, ok := d.runs.LoadAndDelete(at.Name() + "-" + account); ok {
		stop.(func())()
	}
}

// Block is the one fenced block of a document of this clone that opens with
// "```sh step=<name>".
func (d *Shell) Block(document, name string) string {
	d.Helper()
	root, err := source.Root()
	must(d.TB, err)
	data, err := os.ReadFile(filepath.Join(root, document))
	must(d.TB, err)
	_, rest, found := strings.Cut(string(data), "\n```sh step="+name+"\n")
	block, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		d.Fatalf("%s has no step %q", document, name)
	}
	return block
}
