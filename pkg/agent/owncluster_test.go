package agent

import (
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// A write that admission in the agent's own cluster denies with 401 says nothing about the
// agent's account.
func TestOwnClusterDenies(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		want         int
	}{
		"Denied":  {http.MethodPatch, `{"message":"admission webhook \"w\" denied the request: Unauthorized"}`, 0},
		"Refused": {http.MethodPatch, `{"message":"Unauthorized"}`, http.StatusUnauthorized},
		"Read":    {http.MethodGet, `{"message":"admission webhook \"w\" denied the request: Unauthorized"}`, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			o := &ownCluster{namespace: "fleet"}
			next := answers(func(*http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(strings.NewReader(c.body))}
			})
			r, _ := http.NewRequestWithContext(t.Context(), c.method, "https://own/api/v1/namespaces/shop", nil)
			resp, err := answerJudge{o, next}.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if left, _ := io.ReadAll(resp.Body); o.refusal() != c.want || string(left) != c.body {
				t.Errorf("want %d, got %d; the client reads %q", c.want, o.refusal(), left)
			}
		})
	}
}

// answers answer requests.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// What the agent's own API server answers says whether the agent may work there.
func TestOwnCluster(t *testing.T) {
	type answer struct {
		path  string
		code  int
		as    string
		write bool
	}
	const home = "/api/v1/namespaces/fleet/secrets/x"
	cases := map[string]struct {
		why     string
		answers []answer
		want    string
	}{
		"Works":      {why: "nothing is wrong", answers: []answer{{path: home, code: 200}}},
		"Unknown":    {why: "the account was deleted with its namespace", answers: []answer{{path: "/apis", code: 401}}, want: "Unauthorized"},
		"NoRights":   {why: "its rights were deleted", answers: []answer{{path: home, code: 403}}, want: "Forbidden"},
		"Elsewhere":  {why: "the agent may have fewer rights than all", answers: []answer{{path: "/api/v1/namespaces/shop/secrets", code: 403}}},
		"Similar":    {why: "another namespace with the same beginning", answers: []answer{{path: "/api/v1/namespaces/fleet-b/secrets", code: 403}}},
		"Quota":      {why: "a quota may refuse an object", answers: []answer{{path: home, code: 403, write: true}}},
		"OfABundle":  {why: "what a bundle's account may not do is the bundle's trouble", answers: []answer{{path: home, code: 403, as: "x"}}},
		"Back":       {why: "the account was made again", answers: []answer{{path: "/apis", code: 401}, {path: "/apis", code: 200}}},
		"StillNot":   {why: "what works elsewhere does not make up for the own namespace", answers: []answer{{path: home, code: 403}, {path: "/apis", code: 200}}, want: "Forbidden"},
		"RightsBack": {why: "the rights were given back", answers: []answer{{path: home, code: 403}, {path: home, code: 200}}},
		"NotFound":   {why: "an object that is missing says nothing", answers: []answer{{path: "/apis", code: 401}, {path: home, code: 404}}, want: "Unauthorized"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reported := 0
			o := &ownCluster{namespace: "fleet"}
			o.connected(func() { reported++ })
			for _, a := range c.answers {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://own"+a.path, nil)
				if a.write {
					r.Method = http.MethodPost
				}
				if a.as != "" {
					r.Header.Set(authenticationv1.ImpersonateUserHeader, a.as)
				}
				before := o.refusal()
				changed := reported
				o.onAnswer(r, a.code)
				if (o.refusal() != before) != (reported != changed) {
					t.Errorf("%s: the manager is told of a change, and of nothing else", c.why)
				}
			}
			got := o.trouble()
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: got %q", c.why, got)
			}
		})
	}
}
