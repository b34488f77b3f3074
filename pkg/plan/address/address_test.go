package address_test

import (
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func endpointOf(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:443"
	}
	return host + ":443"
}

func parsed(t *testing.T, cidrs ...string) address.Policy {
	t.Helper()
	p, err := address.Parse(cidrs)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReservedAddressesAreRefused(t *testing.T) {
	for host, refused := range map[string]bool{
		"127.0.0.1": true, "127.255.0.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fe80::1%eth0": true, "ff02::1": true, "224.0.0.1": true,
		"0.0.0.0": true, "0.1.2.3": true, "::": true, "::ffff:0.0.0.0": true, "255.255.255.255": true,
		"fd00:ec2::254": true, "fd00:ec2::23": true, "fd20:ce::254": true,
		"100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b:1::a9fe:a9fe": true, // NAT64
		"2002:7f00:1::": true, "2002:a9fe:a9fe::1": true, // 6to4
		"::7f00:1": true, "::ffff:0:7f00:1": true, // IPv4-compatible and -translated
		"10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "100.64.0.1": false, "fd00::1": false, "1.1.1.1": false,
		"2001:db8::1": false, "64:ff9b::a00:1": false, "2002:a00:1::1": false,
	} {
		var p address.Policy
		for what, err := range map[string]error{"host": p.CheckHost(host), "endpoint": p.CheckEndpoint(endpointOf(host))} {
			if (err != nil) != refused || refused && (!reconcile.IsTerminal(err) || reconcile.ReasonOf(err) != address.ReasonRefused) {
				t.Errorf("%s %s: got %v", what, host, err)
			}
		}
	}
}

func TestNamesAreNoAddresses(t *testing.T) {
	var p address.Policy
	for _, name := range []string{"", "localhost", "charts.example.com", "metadata.google.internal", "no:port:at:all", "3com.com", "10.example", "0xab.example", "xn--p1ai"} {
		if err := p.CheckHost(name); err != nil {
			t.Errorf("%q is no address: %v", name, err)
		}
		if err := p.CheckEndpoint(name); err != nil {
			t.Errorf("%q is no endpoint: %v", name, err)
		}
	}
	for _, name := range []string{"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "169.254", "0x7f.0.0.1", "0x"} {
		if err := p.CheckHost(name); reconcile.ReasonOf(err) != address.ReasonRefused {
			t.Errorf("%q may be read as an address: got %v", name, err)
		}
	}
}

func TestAllowed(t *testing.T) {
	cases := map[string]struct {
		why     string
		policy  address.Policy
		host    string
		refused bool
	}{
		"Loopback":       {why: "the value says so", policy: parsed(t, "127.0.0.0/8"), host: "127.0.0.1"},
		"OneAddress":     {why: "nothing but that address", policy: parsed(t, " 127.0.0.1/32"), host: "127.0.0.2", refused: true},
		"Mapped":         {why: "it is the same address", policy: parsed(t, "127.0.0.0/8"), host: "::ffff:127.0.0.1"},
		"NAT64":          {why: "it leads to the same address", policy: parsed(t, "127.0.0.0/8"), host: "64:ff9b::7f00:1"},
		"OtherFamily":    {why: "only IPv4 was allowed", policy: parsed(t, "127.0.0.0/8"), host: "::1", refused: true},
		"Unmasked":       {why: "host bits do not matter", policy: parsed(t, "127.0.0.9/8"), host: "127.0.0.1"},
		"Metadata":       {why: "the value may allow that, too", policy: parsed(t, "169.254.169.254/32"), host: "169.254.169.254"},
		"Local":          {why: "a user may ask their own machine", policy: address.WithLoopback(), host: "127.0.0.1"},
		"Local6":         {why: "a user may ask their own machine", policy: address.WithLoopback(), host: "::1"},
		"LocalMetadata":  {why: "that is not the user's", policy: address.WithLoopback(), host: "169.254.169.254", refused: true},
		"LocalUnnamed":   {why: "no host has that address", policy: address.WithLoopback(), host: "0.0.0.0", refused: true},
		"PrivateNetwork": {why: "most clusters stand there", policy: parsed(t), host: "10.1.2.3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := c.policy.CheckEndpoint(endpointOf(c.host)); (err != nil) != c.refused {
				t.Errorf("%s: got %v", c.why, err)
			}
		})
	}
}

func TestRefusalSaysWhatToSet(t *testing.T) {
	err := address.Policy{}.CheckHost("127.0.0.1")
	if want := `address "127.0.0.1" is not dialled: it is a loopback address; chart value allowedReservedCIDRs can allow it`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = address.WithLoopback().CheckHost("169.254.1.1")
	if want := `address "169.254.1.1" is not dialled: it is link-local or a metadata service`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestParseNamesAllThatAreNone(t *testing.T) {
	_, err := address.Parse([]string{"127.0.0.0/8", "localhost", "10.0.0.1"})
	if err == nil || !strings.Contains(err.Error(), `"localhost"`) || !strings.Contains(err.Error(), `"10.0.0.1"`) || strings.Contains(err.Error(), `"127.0.0.0/8"`) {
		t.Errorf("got %v", err)
	}
}
