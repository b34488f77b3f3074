package cluster

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// loopback is where a control plane without a machine listens.
const loopback = port.Loopback

// ServiceIP is the address under which pods find the API server, and
// MachinePort is its port on a machine.
const (
	ServiceIP   = "10.96.0.1"
	MachinePort = 6443
)

// A Machine is a network of its own with one address (package node).
type Machine struct {
	Network string // path of the network namespace
	Address string // IPv4, reachable for the caller and from pods
}

// host is the address of the API server.
func (c Config) host() string {
	if c.Machine == nil {
		return loopback
	}
	return c.Machine.Address
}

// url is the URL of the API server.
func (c Config) url() string {
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(c.host(), strconv.Itoa(c.Port))}
	return u.String()
}

// addresses are what the API server's certificate holds for.
func (c Config) addresses() []net.IP {
	list := []net.IP{net.ParseIP(loopback), net.ParseIP(ServiceIP)}
	if c.Machine != nil {
		list = append(list, net.ParseIP(c.Machine.Address))
	}
	return list
}

// Enter is spec run in the machine's network.
func (m *Machine) Enter(spec process.Spec) process.Spec {
	if m == nil {
		return spec
	}
	// Not "ip netns exec": that one makes a mount namespace too, in which the
	// mounts of containers would be lost.
	spec.Args = append([]string{"--net=" + m.Network, spec.Path}, spec.Args...)
	spec.Path = "/usr/bin/nsenter"
	return spec
}

// NodeName is the name of the cluster's one node.
func (c *Cluster) NodeName() string { return c.nodeName() }

// NodeKubeconfig is the path of the kubelet's kubeconfig. There is one only on
// a machine.
func (c *Cluster) NodeKubeconfig() string { return c.cfg.nodeKubeconfig() }

func (c Config) nodeKubeconfig() string { return filepath.Join(c.Dir, "kubelet.kubeconfig") }

// admission asks of every pod what the restricted Pod Security Standard asks,
// in namespaces without labels too.
const admission = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: restricted, enforce-version: latest}
`

func (c Config) admission() string { return filepath.Join(c.Dir, "admission.yaml") }

// writeMachineFiles makes what only a cluster on a machine needs: the credential of
// the kubelet, and rules for pods.
func (f *files) writeMachineFiles(cfg Config, ca *pki.Authority) error {
	if cfg.Machine == nil {
		return nil
	}
	if err := os.WriteFile(cfg.admission(), []byte(admission), 0o600); err != nil {
		return fmt.Errorf("write rules for pods: %w", err)
	}
	return f.writeNodeKubeconfig(cfg, ca)
}

// writeNodeKubeconfig makes the credential of the kubelet.
func (*files) writeNodeKubeconfig(cfg Config, ca *pki.Authority) error {
	pair, err := ca.Client("system:node:"+cfg.nodeName(), "system:nodes")
	if err != nil {
		return fmt.Errorf("make credential of the kubelet: %w", err)
	}
	return kubeconfig.Write(cfg.nodeKubeconfig(), kubeconfig.Entry{
		Name: cfg.Name, Server: cfg.url(), CA: ca.Cert, ClientCert: pair.Cert, ClientKey: pair.Key,
	})
}
