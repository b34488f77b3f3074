package oci

import (
	"net/http"
	"net/url"
	"testing"
)

func TestTrusted(t *testing.T) {
	tests := map[string]struct {
		registry, realm string
		http            bool
		want            bool
		why             string
	}{
		"Own":           {registry: "reg.example.com:5000", realm: "https://reg.example.com:5000/token", want: true, why: "itself"},
		"OwnHTTP":       {registry: "reg:5000", realm: "http://reg:5000/token", http: true, want: true, why: "itself"},
		"DefaultPort":   {registry: "reg.example.com", realm: "https://REG.example.com:443/token", want: true, why: "the port is implied"},
		"DockerHub":     {registry: "registry-1.docker.io", realm: "https://auth.docker.io/token", want: true, why: "Docker Hub"},
		"GitLab":        {registry: "registry.gitlab.com", realm: "https://gitlab.com/jwt/auth", want: true, why: "GitLab"},
		"GitLabPort":    {registry: "git.example.co.uk:5050", realm: "https://git.example.co.uk/jwt/auth", want: true, why: "GitLab on one host"},
		"OneLabel":      {registry: "registry:5000", realm: "https://registry/token", want: true, why: "the same name"},
		"OtherDomain":   {registry: "reg.example.com", realm: "https://reg.example.org/token", why: "another owner"},
		"Suffix":        {registry: "example.com", realm: "https://notexample.com/token", why: "another owner"},
		"PublicSuffix":  {registry: "a.co.uk", realm: "https://b.co.uk/token", why: "anybody gets one"},
		"PrivateSuffix": {registry: "a.github.io", realm: "https://b.github.io/token", why: "anybody gets one"},
		"OtherLabel":    {registry: "registry", realm: "https://evil/token", why: "another host"},
		"OtherPort":     {registry: "reg.example.com", realm: "https://reg.example.com:8443/token", why: "anybody may listen there"},
		"Downgrade":     {registry: "reg.example.com", realm: "http://reg.example.com/token", why: "readable on the way"},
		"HTTPSibling":   {registry: "reg.example.com", realm: "http://auth.example.com/token", http: true, why: "readable on the way"},
		"Address":       {registry: "10.0.0.1", realm: "https://10.0.0.2/token", why: "another host"},
		"Metadata":      {registry: "reg.example.com", realm: "https://169.254.169.254/token", why: "another host"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			g := &requestGuard{registry: origin{"https", c.registry}}
			if c.http {
				g.registry.scheme = "http"
			}
			u, err := url.Parse(c.realm)
			if err != nil {
				t.Fatal(err)
			}
			if g.trusted(u) != c.want {
				t.Errorf("got %v: %s", !c.want, c.why)
			}
		})
	}
}

// Whatever a registry writes into its challenge, and whatever is then sent: no
// request with credentials leaves for a place that is not trusted.
func FuzzChallenge(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="https://auth.docker.io/token",service="registry.docker.io"`, `bearer realm=http://127.0.0.1`, `Basic realm="x"`,
		`Bearer realm="https://reg.example.com\"@evil.org/token"`, `Bearer realm="https://evil.org#@reg.example.com/"`, `Bearer realm="//evil.org"`,
		`Bearer realm="https://reg.example.com:443@evil.org/"`, "Bearer realm=\"https://reg.example.com\\@evil.org/\"", `Bearer realm="https://[::1%25eth0]/"`,
		`Bearer service="realm=x",realm="https://evil.org"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, challenge string) {
		g := &requestGuard{registry: origin{"https", "reg.example.com"}}
		_ = g.noteChallenge(challenge)
		for _, r := range g.realms {
			u := &url.URL{Scheme: r.scheme, Host: r.host, Path: "/token"}
			if !g.trusted(u) {
				t.Fatalf("%q is remembered", u)
			}
		}
		for _, to := range []string{"https://evil.org/token", "http://reg.example.com/", "https://reg.example.com.evil.org/", "https://example.org/"} {
			req, err := http.NewRequest(http.MethodGet, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("user", "password")
			if g.checkRequest(req) == nil {
				t.Fatalf("credentials may leave for %s", to)
			}
		}
	})
}

func FuzzReference(f *testing.F) {
	for _, seed := range []string{"oci://host/path", "host:5000/a/b:1.0", "user:pw@host/x", "host/../../etc", "h/x@sha256:00", "", "/", "h//x", "[::1]:5000/x"} {
		f.Add(seed)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, reference string) {
		_, s, err := c.open(t.Context(), Registry{Reference: reference}, withoutIgnored(reference))
		if err != nil {
			return
		}
		defer s.close()
		u, err := url.Parse("https://" + s.ref.Host() + "/v2/" + s.ref.Repository + "/tags/list")
		if err != nil || u.User != nil || !s.guard.isRegistry(u) {
			t.Fatalf("%q leads to %v, %v", reference, u, err)
		}
	})
}
