// Package terminal_test tests how a fleet is installed and grown from a terminal:
// with the program fleet, kubectl and a shell, on real API servers, with the real
// manager and agents as processes under the accounts that the printed files make.
package terminal_test

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

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// lookEvery is how often a test looks whether something has happened: some look with programs,
// each of which takes a tenth of a second of processor time.
const lookEvery = 100 * time.Millisecond

// timeout is how long anything may take to happen.
const timeout = harness.Timeout

// A shell is a person's terminal, and the clusters that it reaches: one for the
// manager, two that are to join.
type shell struct {
	testing.TB
	dir   string // the home
	tools string // fleet, kubectl and the programs of pods
	group *process.Group
	root  testing.TB // outlives parts of the test
	stop  *sync.Map  // what ends the program that runs on a cluster, by its name
	hubs  *sync.Map  // connections to the clusters, by their names

	hub, east, west harness.ControlPlane
}

// sit prepares the programs, with clusters on which nothing of Fleet's is.
func sit(t *testing.T) *shell {
	t.Helper()
	d := &shell{TB: t, root: t, stop: &sync.Map{}, hubs: &sync.Map{}, dir: t.TempDir(), group: process.NewGroup()}
	t.Cleanup(func() { d.group.Close(5 * time.Second) })
	d.tools = filepath.Join(d.dir, "bin")
	if err := harness.Tools(t.Context(), harness.Kubernetes(t), d.tools); err != nil {
		t.Fatal(err)
	}
	return d
}

// A said is what a command line prints, and how it ends.
type said struct {
	out, notes string
	code       int
}

// tries runs a command line in a shell, with a cluster as the current context.
func (d *shell) tries(at harness.ControlPlane, line string) said {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 2*timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", line)
	cmd.Env = []string{"HOME=" + d.dir, "PATH=" + d.tools + ":/usr/bin:/bin", "KUBECONFIG=" + at.Kubeconfig()}
	cmd.Dir, cmd.WaitDelay = d.dir, 10*time.Second
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.Fatalf("%s: %v", line, err)
	}
	return said{out.String(), notes.String(), cmd.ProcessState.ExitCode()}
}

// types is tries, and the command line has to succeed.
func (d *shell) types(at harness.ControlPlane, line string) said {
	d.Helper()
	s := d.tries(at, line)
	if s.code != 0 {
		d.Fatalf("%s: exit code %d\n%s%s", line, s.code, s.out, s.notes)
	}
	return s
}

// runs starts a program as a pod of a Deployment would: under an account of the
// cluster, and with nothing of this machine's. What ran there before is stopped.
func (d *shell) runs(at harness.ControlPlane, account, program string, args ...string) {
	d.Helper()
	d.ends(at)
	var token string
	d.until("the account "+account, func() bool {
		s := d.tries(at, fmt.Sprintf("kubectl -n %s create token %s", fleet.NamespaceSystem, account))
		token = strings.TrimSpace(s.out)
		return s.code == 0
	})
	name := at.Name() + "-" + account
	tmp, err := os.MkdirTemp(d.dir, name)
	if err != nil {
		d.Fatal(err)
	}
	config := filepath.Join(tmp, "kubeconfig")
	if err := kubeconfig.Write(config, kubeconfig.Entry{Name: at.Name(), Server: at.URL(), CA: at.CA(), Token: token}); err != nil {
		d.Fatal(err)
	}
	log := filepath.Join(tmp, "log")
	p, err := d.group.Start(process.Spec{
		Name: name, Path: filepath.Join(d.tools, program), Dir: tmp, Log: log,
		Args: append(args, "--kubeconfig="+config, "--namespace="+fleet.NamespaceSystem),
		Env:  []string{"HOME=" + tmp, "TMPDIR=" + tmp, "POD_UID=" + name, sandbox.AllowLoopback},
	})
	if err != nil {
		d.Fatal(err)
	}
	d.stop.Store(at.Name(), func() { p.Stop(5 * time.Second) })
	d.root.Cleanup(func() {
		if text, err := os.ReadFile(log); err == nil && d.root.Failed() {
			d.root.Logf("log of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
}

// ends stops what runs on a cluster.
func (d *shell) ends(at harness.ControlPlane) {
	if stop, ok := d.stop.LoadAndDelete(at.Name()); ok {
		stop.(func())()
	}
}

// on is the same shell for a part of the test.
func (d *shell) on(t testing.TB) *shell {
	part := *d
	part.TB = t
	return &part
}

// until returns when f is true.
func (d *shell) until(what string, f func() bool) {
	d.Helper()
	for deadline := time.Now().Add(timeout); !f(); {
		if time.Now().After(deadline) {
			d.Fatalf("not in time: %s", what)
		}
		select {
		case <-d.Context().Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// clusters are the Clusters of fleet-default, by name.
func (d *shell) clusters() map[string]fleet.Cluster {
	d.Helper()
	list, err := kube.StoreOf[*fleet.Cluster](d.connect(d.hub).Admin).List(d.Context(), fleet.NamespaceDefault, "")
	if err != nil {
		d.Fatal(err)
	}
	out := map[string]fleet.Cluster{}
	for _, c := range list {
		out[c.Name] = *c
	}
	return out
}

// connect returns connections to a cluster, for what a test looks at again and again:
// there a program would take most of the processor time.
func (d *shell) connect(at harness.ControlPlane) *harness.Hub {
	d.Helper()
	hub, known := d.hubs.Load(at.Name())
	if !known {
		hub, _ = d.hubs.LoadOrStore(at.Name(), harness.ConnectHub(d.root, at))
	}
	return hub.(*harness.Hub)
}
