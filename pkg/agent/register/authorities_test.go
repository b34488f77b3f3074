package register

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

func TestAuthorities(t *testing.T) {
	private := httptest.NewTLSServer(http.NotFoundHandler()) // the system does not know its authority
	defer private.Close()
	known := httptest.NewServer(http.NotFoundHandler()) // stands for a server that the system trusts
	defer known.Close()
	cases := map[string]struct {
		why, mode, url string
		keep           bool
	}{
		"Strict":          {why: "only the configured authority counts", mode: "strict", url: known.URL, keep: true},
		"SystemDoesNot":   {why: "else the manager could not be reached", mode: "system-store", url: private.URL, keep: true},
		"SystemVouches":   {why: "its certificate may change", mode: "system-store", url: known.URL},
		"UnreachableKeep": {why: "nothing was learned", mode: "system-store", url: "https://127.0.0.1:1", keep: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := authorities(t.Context(), c.mode, registration.Bootstrapping{APIServerURL: c.url, APIServerCA: []byte("ca")})
			if (got != nil) != c.keep {
				t.Errorf("%s: got %q", c.why, got)
			}
		})
	}
}
