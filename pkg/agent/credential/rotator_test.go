package credential

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// endedToken is a token of an account that has ended long ago.
func endedToken() string {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"iat":1000,"exp":2000}`))
	return "header." + claims + ".signature"
}

// ended is a Rotator whose credential has ended, and may be renewed.
func ended(t *testing.T, s *kubetest.Server) *Rotator {
	t.Helper()
	client, token := s.Connect("test"), endedToken()
	kept, err := json.Marshal(record{Offer: offerHour(), Token: "renewal", For: tokenDigest(token)})
	if err != nil {
		t.Fatal(err)
	}
	given(t, client, token, kept)
	k, err := rotatorFor(t.Context(), client, "test", func(_, _, _ string) {})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A credential has ended for good where the manager refuses another one. Where admission
// denies the token, it is asked for again at the next check-in.
func TestRecoverRefused(t *testing.T) {
	tokens := kubetest.Match{Verb: "create", Resource: "serviceaccounts", Subresource: "token"}
	for name, c := range map[string]struct {
		why   string
		fault func(*kubetest.Server) *kubetest.Fault
		ended bool
		says  string
	}{
		"Denied":    {"a webhook is in the way", func(s *kubetest.Server) *kubetest.Fault { return s.Deny(kubetest.Always, tokens) }, false, kubetest.DeniedText},
		"Refused":   {"the token for renewal has ended", func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(kubetest.Always, tokens) }, true, "Unauthorized"},
		"Forbidden": {"its rights were taken away", func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(kubetest.Always, tokens) }, true, "forbidden"},
		"Broken":    {"the manager is broken", func(s *kubetest.Server) *kubetest.Fault { return s.Broken(kubetest.Always, tokens) }, false, "etcdserver"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t)
			k := ended(t, s)
			fault := c.fault(s)
			if done, err := k.Recover(t.Context()); done || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s: got %t, %v", c.why, done, err)
			}
			if k.Ended() != c.ended {
				t.Errorf("%s: has it ended for good: %t", c.why, k.Ended())
			}
			fault.Lift()
			if done, err := k.Recover(t.Context()); done == c.ended || err != nil {
				t.Errorf("%s: at the next check-in: %t, %v", c.why, done, err)
			}
		})
	}
}
