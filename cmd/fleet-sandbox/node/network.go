package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
)

// WireAddress is an address of the enclosed command itself that every machine and
// every pod reaches.
const WireAddress = "10.250.0.1"

// A Network is the network of one machine. Its namespace lasts as long as the
// enclosed command.
type Network struct {
	index int
	name  string // of the namespace
}

// LayWire prepares the network of the enclosed command, to which machines are
// connected. It is called once, before NewNetwork.
func LayWire(ctx context.Context) error {
	if !Inside() {
		return fmt.Errorf("lay the wire: only inside an enclosed command")
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("lay the wire: %w", err)
	}
	return run(ctx, "ip", "address", "add", WireAddress+"/32", "dev", "lo")
}

// NewNetwork connects machine number index (1 to 200) to the wire.
func NewNetwork(ctx context.Context, index int) (*Network, error) {
	n := &Network{index: index, name: fmt.Sprintf("m%d", index)}
	outer, inner := fmt.Sprintf("wire%d", index), fmt.Sprintf("eth%d", index)
	within := []string{"nsenter", "--net=" + n.path()}
	for _, words := range [][]string{
		{"ip", "netns", "add", n.name},
		{"ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", n.name},
		{"ip", "address", "add", n.gateway() + "/24", "dev", outer},
		{"ip", "link", "set", outer, "up"},
		{"ip", "route", "add", n.pods(), "via", n.Address()},
		append(within, "ip", "link", "set", "lo", "up"),
		append(within, "ip", "address", "add", n.Address()+"/24", "dev", inner),
		append(within, "ip", "link", "set", inner, "up"),
		append(within, "ip", "route", "add", "default", "via", n.gateway()),
		append(within, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
		append(within, "iptables", "--wait", "--table", "nat", "--append", "PREROUTING",
			"--destination", cluster.ServiceIP, "--protocol", "tcp", "--dport", "443",
			"--jump", "DNAT", "--to-destination", fmt.Sprintf("%s:%d", n.Address(), cluster.MachinePort)),
	} {
		if err := run(ctx, words...); err != nil {
			return nil, fmt.Errorf("connect machine %d: %w", index, err)
		}
	}
	return n, nil
}

// Address is the machine's.
func (n *Network) Address() string { return fmt.Sprintf("10.250.%d.2", n.index) }

func (n *Network) gateway() string { return fmt.Sprintf("10.250.%d.1", n.index) }

func (n *Network) pods() string { return fmt.Sprintf("10.251.%d.0/24", n.index) }

func (n *Network) path() string { return "/run/netns/" + n.name }

// Machine is the network as a cluster needs it.
func (n *Network) Machine() *cluster.Machine {
	return &cluster.Machine{Network: n.path(), Address: n.Address()}
}

// Drop lets packets of this machine's pods to another machine vanish, as behind a
// firewall that answers nothing. The machine itself still reaches it.
func (n *Network) Drop(ctx context.Context, other *Network) error {
	return n.filter(ctx, "--insert", other)
}

// Undrop takes Drop back.
func (n *Network) Undrop(ctx context.Context, other *Network) error {
	return n.filter(ctx, "--delete", other)
}

func (n *Network) filter(ctx context.Context, verb string, other *Network) error {
	return run(ctx, "nsenter", "--net="+n.path(), "iptables", "--wait", verb, "FORWARD",
		"--source", n.pods(), "--destination", other.Address(), "--jump", "DROP")
}

// run runs a program, with what it says in the error.
func run(ctx context.Context, words ...string) error {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
