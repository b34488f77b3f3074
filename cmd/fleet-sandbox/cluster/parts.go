package cluster

import (
	"strconv"
)

// A part is one program of the control plane.
type part struct {
	name string // also the name of its log and of its code in the executable
	args func(Config, files) []string
}

// The sockets of etcd, relative to the cluster's folder, which is the working
// directory of all parts: absolute paths may be too long for a socket.
const (
	etcdSocket = "etcd:0"
	etcdURL    = "unix://" + etcdSocket
	peerURL    = "unix://peer:0"
)

var etcd = part{name: "etcd", args: func(Config, files) []string {
	return []string{
		"--data-dir=etcd",
		"--unsafe-no-fsync", // nothing outlives the process
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=default=" + peerURL,
		"--quota-backend-bytes=4294967296",
		"--auto-compaction-retention=10m",
		"--log-level=warn",
	}
}}

var apiServer = part{name: "kube-apiserver", args: func(c Config, f files) []string {
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + c.host(),
		"--secure-port=" + strconv.Itoa(c.Port),
		"--tls-cert-file=" + f.server.cert,
		"--tls-private-key-file=" + f.server.key,
		"--client-ca-file=" + f.ca,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + f.signing.key,
		"--service-account-key-file=" + f.signing.cert,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--audit-policy-file=" + f.auditPolicy,
		"--audit-log-path=" + f.auditLog,
		"--audit-log-maxsize=200", // MiB; older files are removed
		"--audit-log-maxbackup=1",
		"--shutdown-delay-duration=0s",
		"--enable-priority-and-fairness=false", // few clients: 7 % less processor time
		"--profiling=false",
	}
	if c.Machine == nil {
		return append(args, "--permit-port-sharing", // with the socket that holds the port
			"--endpoint-reconciler-type=none") // no pod ever connects to it
	}
	return append(args,
		"--kubelet-preferred-address-types=InternalIP", // nodes have no DNS
		"--admission-control-config-file="+c.admission())
}}

var controllerManager = part{name: "kube-controller-manager", args: func(_ Config, f files) []string {
	return []string{
		"--kubeconfig=" + f.controllerManager,
		"--leader-elect=false",
		"--secure-port=0",
		"--use-service-account-credentials",
		"--kube-api-qps=1000", // the default of 20 costs four seconds at the start
		"--kube-api-burst=2000",
		"--service-account-private-key-file=" + f.signing.key,
		"--root-ca-file=" + f.ca,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--profiling=false",
	}
}}

var scheduler = part{name: "kube-scheduler", args: func(_ Config, f files) []string {
	return []string{
		"--kubeconfig=" + f.scheduler,
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
	}
}}

var kwok = part{name: "kwok", args: func(_ Config, f files) []string {
	return []string{
		"--kubeconfig=" + f.kwok,
		"--manage-all-nodes",
		"--node-lease-duration-seconds=40",
		"--node-ip=10.97.0.1",
		"--cidr=10.98.0.0/16",
	}
}}
