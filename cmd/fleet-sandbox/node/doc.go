// Package node gives clusters of the sandbox real pods: each gets a machine, which
// is a network namespace with an address of its own, in which its control plane
// lives (package cluster), and beside that containerd, runc and a kubelet.
//
// Needed are root and Debian's packages containerd, runc,
// containernetworking-plugins and iptables; Missing says what is not there. No
// image is ever pulled: Import brings them in.
//
// Everything runs below one command in namespaces of its own (Enclosed): its
// processes end with it, and its mounts, addresses and packet filters are never
// those of the machine around. What stays are empty control groups, which Sweep
// removes.
//
//	wire     10.250.0.1, a network namespace that all machines are connected to
//	machine  10.250.N.2, its control plane at :6443, its kubelet at :10250
//	pods     10.251.N.0/24, behind their machine
//
// Every machine and every pod reaches every other machine. Services are not
// served but one, the API server's: 10.96.0.1:443 leads to the machine.
package node
