package oci_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// An error says that the proxy fails, and not the registry, without the
// password of the proxy.
func TestProxyFails(t *testing.T) {
	refusing := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	dead := httptest.NewServer(nil)
	gone := dead.Listener.Addr().String()
	dead.Close()
	closed, forbidding := refusing(http.StatusProxyAuthRequired), refusing(http.StatusForbidden)
	cases := map[string]struct{ proxy, reason, text string }{
		"Closed":    {closed, oci.ReasonAuthenticationRefused, "proxy \"" + closed + "\" asks for credentials (407)"},
		"Forbidden": {forbidding, oci.ReasonUnreachable, "proxy \"" + forbidding + "\" does not connect (403 Forbidden)"},
		"Dead":      {gone, oci.ReasonUnreachable, "the proxy cannot be reached: connection refused"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			at := &url.URL{Scheme: "http", Host: c.proxy, User: url.UserPassword("ana", "canary")}
			client := oci.New(oci.Config{Addresses: address.WithLoopback(), Proxy: http.ProxyURL(at)})
			_, _, err := pulled(t, client, oci.Registry{Reference: "registry.invalid:5000/app"}, "1.0.0", 0)
			if err == nil || reconcile.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v (%s), want %s: %s", err, reconcile.ReasonOf(err), c.reason, c.text)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("a credential stands in the error: %v", err)
			}
		})
	}
}
