// Package cluster runs one real Kubernetes control plane in one folder: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and kwok in the
// place of nodes. It needs no root, no container and no port but one.
//
// etcd listens on a socket in the folder and keeps nothing safe on disk; the
// API server listens on loopback. All children end with the calling process.
package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// AdminUser is who the administrator's credential is to the API server and
// in its audit log.
const AdminUser = "sandbox-admin"

// stopGrace is how long a child may take to end when it is asked to. Nothing
// it could save is ever read again.
const stopGrace = 300 * time.Millisecond

// Config says which cluster to start, and where.
type Config struct {
	Name   string // a DNS label: name of the cluster, its context and its node
	Dir    string // a folder of its own; made if it is missing
	LogDir string // for one log file per child; Dir/log where empty
	Binary string // the multi-call executable (package kubebin)
	Port   int    // of the API server on 127.0.0.1; any free one where 0

	// GOGC, where not 0, is by how many percent the heaps of its parts may grow before
	// they are collected: the more, the less processor time and the more memory.
	GOGC int

	// Machine, where set, is where the control plane runs and listens, at
	// MachinePort where Port is 0. Real pods may come: there is neither kwok nor
	// a node before a kubelet joins (package node).
	Machine *Machine
}

// A Cluster is a running control plane.
type Cluster struct {
	cfg   Config
	group *process.Group
	port  *os.File // holds the API server's port; nil on a machine of its own
	files files
	rest  *rest.Config
	parts map[string]*process.Process
}

// Start brings a cluster up and returns when it serves: the API server is
// ready, new namespaces get their service account and a node takes pods.
//
// If ctx ends or a child dies before that, everything is stopped again and
// the error is the *process.Death of the child, where there is one.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.LogDir == "" {
		cfg.LogDir = filepath.Join(cfg.Dir, "log")
	}
	if cfg.Port == 0 && cfg.Machine != nil {
		cfg.Port = MachinePort
	}
	c := &Cluster{parts: map[string]*process.Process{}}
	if cfg.Machine == nil {
		var err error
		if cfg.Port, c.port, err = port.Hold(loopback, cfg.Port); err != nil {
			return nil, fmt.Errorf("prepare cluster %s: %w", cfg.Name, err)
		}
	}
	c.cfg = cfg
	if err := c.begin(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// begin writes the cluster's files and brings it up.
func (c *Cluster) begin(ctx context.Context) error {
	files, err := writeFiles(c.cfg)
	if err != nil {
		return fmt.Errorf("prepare cluster %s: %w", c.cfg.Name, err)
	}
	c.files = files
	if c.rest, err = clientcmd.BuildConfigFromFlags("", files.kubeconfig); err != nil {
		return fmt.Errorf("read kubeconfig of %s: %w", c.cfg.Name, err)
	}
	c.rest.UserAgent = AdminUser
	c.rest.QPS = -1 // no limit of the client's own

	c.group = process.NewGroup()
	return c.bringUp(ctx)
}

// bringUp starts the children in the order in which they need each other.
func (c *Cluster) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case death := <-c.group.Deaths():
			cancel(death)
		case <-ctx.Done():
		}
	}()
	if err := c.start(etcd, apiServer); err != nil {
		return err
	}
	if err := c.waitServing(ctx); err != nil {
		return err
	}
	if err := c.start(controllerManager, scheduler); err != nil {
		return err
	}
	if c.cfg.Machine != nil {
		return c.waitAccounts(ctx)
	}
	if err := c.start(kwok); err != nil {
		return err
	}
	if err := c.addNode(ctx); err != nil {
		return err
	}
	return c.waitUsable(ctx)
}

func (c *Cluster) start(parts ...part) error {
	for _, p := range parts {
		child, err := c.group.Start(c.spec(p))
		if err != nil {
			return err
		}
		c.parts[p.name] = child
	}
	return nil
}

// spec says how to run a part of this cluster. HOME is the cluster's folder
// so that nothing of the user's is read.
func (c *Cluster) spec(p part) process.Spec {
	env := []string{"HOME=" + c.cfg.Dir, "PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir()}
	if c.cfg.GOGC != 0 {
		env = append(env, fmt.Sprintf("GOGC=%d", c.cfg.GOGC))
	}
	return c.cfg.Machine.Enter(process.Spec{
		Name: p.name + " of " + c.cfg.Name,
		Path: c.cfg.Binary,
		Args: append([]string{p.name}, p.args(c.cfg, c.files)...),
		Dir:  c.cfg.Dir,
		Env:  env,
		Log:  filepath.Join(c.cfg.LogDir, p.name+".log"),
	})
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.cfg.Name }

// URL is the API server's address.
func (c *Cluster) URL() string { return c.cfg.url() }

// Port is the API server's port on 127.0.0.1.
func (c *Cluster) Port() int { return c.cfg.Port }

// CA is the certificate authority of the API server, PEM.
func (c *Cluster) CA() []byte { return c.files.admin.CA }

// Admin is the administrator's way in, for kubeconfigs of several clusters.
func (c *Cluster) Admin() kubeconfig.Entry { return c.files.admin }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.files.kubeconfig }

// REST returns a copy of the administrator's client configuration.
func (c *Cluster) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// AuditLog is the path of the API server's audit log: one JSON event per line
// and request, at level Metadata.
func (c *Cluster) AuditLog() string { return c.files.auditLog }

// Process returns one child by the name of its part, e.g. "kube-apiserver",
// or nil.
func (c *Cluster) Process(part string) *process.Process { return c.parts[part] }

// A Child is one process of the control plane.
type Child struct {
	Part    string // e.g. "kube-apiserver"
	Process *process.Process
}

// Processes lists the children in the order of their start, ended ones too.
func (c *Cluster) Processes() []Child {
	var list []Child
	for _, p := range []part{etcd, apiServer, controllerManager, scheduler, kwok} {
		if child, ok := c.parts[p.name]; ok {
			list = append(list, Child{Part: p.name, Process: child})
		}
	}
	return list
}

// Deaths delivers each child that ends by itself after Start.
func (c *Cluster) Deaths() <-chan *process.Death { return c.group.Deaths() }

// Running is the number of children that run.
func (c *Cluster) Running() int { return len(c.group.Running()) }

// Stop ends all children and returns when they are gone. The folder stays.
// Any number of calls may be made.
func (c *Cluster) Stop() {
	if c.group != nil {
		c.group.Close(stopGrace)
	}
	if c.port != nil {
		c.port.Close()
	}
}
