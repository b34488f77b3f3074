package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"

	_ "embed" // for the configuration files
)

// Config says which node to start, and where.
type Config struct {
	Network *Network
	Cluster *cluster.Cluster // on the machine of that network
	Dir     string           // a folder of its own; made if it is missing
	Kubelet string           // the executable (package kubebin)
	Pause   string           // archive of the image that holds a pod together, named PauseImage
}

// PauseImage is the name of the image that holds a pod together.
const PauseImage = "docker.io/fleetworkspace/pause:1"

// A Node is a running node.
type Node struct {
	cfg   Config
	group *process.Group
}

//go:embed containerd.toml
var containerdConfig string

//go:embed kubelet.yaml
var kubeletConfig string

//go:embed pods.conflist
var podNetwork string

// Start brings a node up and returns when it is Ready. If ctx ends or a part of it
// dies before that, the error says so.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{cfg: cfg, group: process.NewGroup()}
	if err := n.bringUp(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

func (n *Node) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case death := <-n.group.Deaths():
			cancel(death)
		case <-ctx.Done():
		}
	}()
	if err := n.writeFiles(); err != nil {
		return fmt.Errorf("prepare node of %s: %w", n.cfg.Cluster.Name(), err)
	}
	if err := n.start("containerd", "/usr/bin/containerd", "--config="+n.file("containerd.toml")); err != nil {
		return err
	}
	if err := n.waitContainerd(ctx); err != nil {
		return err
	}
	if err := n.Import(ctx, n.cfg.Pause); err != nil {
		return err
	}
	err := n.start("kubelet", n.cfg.Kubelet,
		"--config="+n.file("kubelet.yaml"),
		"--kubeconfig="+n.cfg.Cluster.NodeKubeconfig(),
		"--root-dir="+n.file("kubelet"),
		"--cert-dir="+n.file("pki"),
		"--hostname-override="+n.cfg.Cluster.NodeName(),
		"--node-ip="+n.cfg.Network.Address())
	if err != nil {
		return err
	}
	return n.cfg.Cluster.WaitNode(ctx)
}

// writeFiles writes what containerd and the kubelet read.
func (n *Node) writeFiles() error {
	if err := os.MkdirAll(n.state(), 0o700); err != nil {
		return err
	}
	values := map[string]string{
		"Dir": n.cfg.Dir, "State": n.state(), "Socket": n.socket(), "Plugins": plugins,
		"Pods": n.cfg.Network.pods(), "Pause": PauseImage,
	}
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "cni/pods.conflist": podNetwork,
	} {
		var out bytes.Buffer
		if err := template.Must(template.New(name).Parse(text)).Execute(&out, values); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(n.file(name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(n.file(name), out.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// start runs a program on the machine.
func (n *Node) start(name, path string, args ...string) error {
	_, err := n.group.Start(n.cfg.Network.Machine().Enter(process.Spec{
		Name: name + " of " + n.cfg.Cluster.Name(), Path: path, Args: args, Dir: n.cfg.Dir,
		Env: []string{"HOME=" + n.cfg.Dir, "PATH=" + searchPath}, Log: n.Log(name),
	}))
	return err
}

// Log is the log of "containerd" or "kubelet".
func (n *Node) Log(name string) string { return n.file("log/" + name + ".log") }

func (n *Node) file(name string) string { return filepath.Join(n.cfg.Dir, name) }

// state is the folder of sockets, whose paths must be short.
func (n *Node) state() string { return "/run/" + n.cfg.Network.name }

func (n *Node) socket() string { return n.state() + "/containerd.sock" }

// pollInterval is how often a starting containerd is asked whether it answers.
const pollInterval = 100 * time.Millisecond

func (n *Node) waitContainerd(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := n.ctr(ctx, "version")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for containerd: %w", context.Cause(ctx)), err)
		case <-tick.C:
		}
	}
}

// Import makes the images of an archive known to the node: as docker save writes it,
// or an OCI layout.
func (n *Node) Import(ctx context.Context, archive string) error {
	return n.ctr(ctx, "images", "import", archive)
}

// ctr runs a command of containerd's own client.
func (n *Node) ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address=" + n.socket(), "--namespace=k8s.io"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}

// Deaths delivers what ended by itself.
func (n *Node) Deaths() <-chan *process.Death { return n.group.Deaths() }

// Stop ends the kubelet and containerd. Containers go on until the enclosed command
// ends.
func (n *Node) Stop() { n.group.Close(0) }
