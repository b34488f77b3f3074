package oci_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
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
		"Dead":      {gone, oci.ReasonUnreachable, "proxy \"" + gone + "\" cannot be reached: connection refused"},
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

// A chart is pulled with the credentials of a registry through proxies that want
// credentials of their own, and an error names a proxy that refuses its own.
func TestProxyCredentials(t *testing.T) {
	connect, socks := webtest.StartProxyWithLogin(t, "ana", "right"), webtest.StartSOCKS(t, "ana", "right")
	connects := map[string]func() int{
		"CONNECT": func() int { return len(connect.Targets()) },
		"SOCKS":   func() int { return int(socks.Connects.Load()) },
	}
	proxies := map[string]*url.URL{"CONNECT": connect.URL, "SOCKS": socks.URL}
	for _, kind := range []string{"TLSBasic", "TLSToken"} {
		s := ocitest.Start(t, kinds[kind])
		s.PushChart(t, "app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", nil))
		for name, proxy := range proxies {
			t.Run(kind+name, func(t *testing.T) {
				before := connects[name]()
				client := oci.New(oci.Config{Addresses: address.WithLoopback(), Proxy: http.ProxyURL(proxy)})
				if _, _, err := pulled(t, client, s.Registry("app"), "1.0.0", 0); err != nil {
					t.Fatal(err)
				}
				if connects[name]() == before {
					t.Error("the chart was pulled past the proxy")
				}
			})
		}
	}
	s := ocitest.Start(t, kinds["TLSBasic"])
	wrong := &url.URL{Scheme: "socks5", Host: socks.URL.Host, User: url.UserPassword("ana", "canary")}
	client := oci.New(oci.Config{Addresses: address.WithLoopback(), Proxy: http.ProxyURL(wrong)})
	_, _, err := pulled(t, client, s.Registry("app"), "1.0.0", 0)
	want := "SOCKS proxy \"" + socks.URL.Host + "\" does not connect: username/password authentication failed"
	if err == nil || reconcile.ReasonOf(err) != oci.ReasonUnreachable || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want %s", err, want)
	}
}
