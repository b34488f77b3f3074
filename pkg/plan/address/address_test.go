package address_test

import (
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

func TestCheck(t *testing.T) {
	for host, refused := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fd00:ec2::254": true, "fe80::1%eth0": true, "ff02::1": true, "224.0.0.1": true,
		"0.0.0.0": true, "::": true, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"127.0.0.1": false, "10.0.0.1": false, "192.168.1.1": false, "::1": false, "fd00::1": false, "1.1.1.1": false,
	} {
		endpoint := host + ":443"
		if strings.Contains(host, ":") {
			endpoint = "[" + host + "]:443"
		}
		for what, err := range map[string]error{"host": address.CheckHost(host), "endpoint": address.CheckEndpoint(endpoint)} {
			if (err != nil) != refused || refused && (!fault.IsPermanent(err) || fault.ReasonOf(err) != address.ReasonRefused) {
				t.Errorf("%s %s: got %v", what, host, err)
			}
		}
	}
	for _, name := range []string{"", "charts.example.com", "metadata.google.internal", "169.254", "no:port:at:all"} {
		if err := address.CheckHost(name); err != nil {
			t.Errorf("%q is no address: %v", name, err)
		}
		if err := address.CheckEndpoint(name); err != nil {
			t.Errorf("%q is no endpoint: %v", name, err)
		}
	}
}
