// Package address decides which network addresses nothing is read from, whoever
// names them: those at which a machine hears about itself.
package address

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

// ReasonRefused is the reason of all errors, which are fault.Permanent.
const ReasonRefused = "AddressRefused"

var errSelf = errors.New("it is link-local or a metadata service")

// metadata are the addresses outside of the link-local ones at which clouds
// hand out the credentials of the machine that asks.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// CheckHost judges a host that is written as an address: a proxy would connect
// to it for us. Names pass, see CheckEndpoint.
func CheckHost(host string) error {
	ip, err := netip.ParseAddr(host)
	if err != nil || !refused(ip) {
		return nil
	}
	return fault.PermanentError(ReasonRefused, fmt.Errorf("address %q is not asked: %w", host, errSelf))
}

// CheckEndpoint judges the address and port that a connection is about to be
// made to, after the name was resolved: no name can be made to stand for another
// address in between.
func CheckEndpoint(endpoint string) error {
	at, err := netip.ParseAddrPort(endpoint)
	if err != nil {
		return nil
	}
	return CheckHost(at.Addr().String())
}

func refused(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return true
	}
	for _, m := range metadata {
		if ip == m {
			return true
		}
	}
	return false
}
