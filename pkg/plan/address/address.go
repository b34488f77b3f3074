// Package address decides which network addresses are not dialled, whatever
// names lead to them: those at which a machine reaches itself, its own link or
// the metadata service of its cloud.
package address

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonRefused is the reason of all errors, which are reconcile.Terminal.
const ReasonRefused = "AddressRefused"

// ChartValue is the value of the chart fleet that allows reserved addresses.
const ChartValue = "allowedReservedCIDRs"

var errNotation = errors.New("its last part is a number, and it is no IPv4 address in four decimal numbers")

// reserved are the ranges that are refused besides multicast addresses.
var reserved = []struct {
	what   string
	ranges []netip.Prefix
}{
	{"a loopback address", prefixes("127.0.0.0/8", "::1/128")},
	{"no address of a host", prefixes("0.0.0.0/8", "::/128", "255.255.255.255/32")},
	{"link-local or a metadata service", prefixes("169.254.0.0/16", "fe80::/10",
		"fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128",
		"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")},
}

// embedding are IPv6 ranges whose addresses hold an IPv4 address that packets
// may be sent to, and at which byte.
var embedding = []struct {
	in netip.Prefix
	at int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // NAT64 of a network of its own
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2}, // 6to4
}

// A Policy says to which addresses a program may connect. The zero Policy refuses every
// reserved address; addresses of private networks are not reserved.
type Policy struct {
	allowed []netip.Prefix
	local   bool // made by WithLoopback: no value of a chart changes it
}

// Parse reads the CIDRs of reserved addresses to which connections are allowed
// nevertheless. The error names every text that is no CIDR.
func Parse(cidrs []string) (Policy, error) {
	var p Policy
	var errs []error
	for _, text := range cidrs {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is no CIDR such as 127.0.0.0/8", text))
			continue
		}
		p.allowed = append(p.allowed, prefix.Masked())
	}
	return p, errors.Join(errs...)
}

// WithLoopback returns the Policy of programs that run on behalf of the machine's own user
// or cluster: it allows loopback addresses and no other reserved one.
func WithLoopback() Policy {
	return Policy{allowed: reserved[0].ranges, local: true}
}

// CheckHost judges a host that is written as an address: a proxy would connect to it on
// behalf of the program. Names pass, see CheckEndpoint.
func (p Policy) CheckHost(host string) error {
	ip, err := netip.ParseAddr(host)
	if err == nil {
		if what := p.reservedKind(ip); what != "" {
			return p.refusal(host, fmt.Errorf("it is %s", what))
		}
		return nil
	}
	// Some resolvers and proxies read "127.1", "2130706433" and "0x7f.0.0.1" as
	// addresses. No name of a host ends in a number.
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if isNumber(labels[len(labels)-1]) {
		return reconcile.TerminalError(ReasonRefused, fmt.Errorf("address %q is not dialled: %w", host, errNotation))
	}
	return nil
}

// CheckEndpoint judges the address and port that a connection is about to be made to, after
// the name was resolved, so that the name cannot change its address in between.
func (p Policy) CheckEndpoint(endpoint string) error {
	at, err := netip.ParseAddrPort(endpoint)
	if err != nil {
		return nil
	}
	return p.CheckHost(at.Addr().String())
}

func (p Policy) refusal(host string, why error) error {
	hint := ""
	if !p.local {
		hint = "; chart value " + ChartValue + " can allow it"
	}
	return reconcile.TerminalError(ReasonRefused, fmt.Errorf("address %q is not dialled: %w%s", host, why, hint))
}

// reservedKind names the kind of a reserved address; empty if it may be dialled.
func (p Policy) reservedKind(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	for _, prefix := range p.allowed {
		if prefix.Contains(ip) {
			return ""
		}
	}
	if ip.IsMulticast() {
		return "a multicast address"
	}
	for _, r := range reserved {
		for _, prefix := range r.ranges {
			if prefix.Contains(ip) {
				return r.what
			}
		}
	}
	if inner, ok := embedded(ip); ok {
		return p.reservedKind(inner)
	}
	return ""
}

// embedded is the IPv4 address in an IPv6 address of an embedding range.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	raw := ip.As16()
	for _, e := range embedding {
		if e.in.Contains(ip) {
			return netip.AddrFrom4([4]byte(raw[e.at : e.at+4])), true
		}
	}
	return netip.Addr{}, false
}

// isNumber reports whether a label is a decimal, octal or hexadecimal number.
func isNumber(label string) bool {
	lower := strings.ToLower(label)
	if digits, hex := strings.CutPrefix(lower, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return lower != "" && strings.Trim(lower, "0123456789") == ""
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}
