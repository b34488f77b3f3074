package chart_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	privateKey  = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
)

func data(pairs ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return m
}

func TestCredentialsOf(t *testing.T) {
	all := chart.Credentials{
		Username: "u", Password: "p", SSHPrivateKey: []byte(privateKey), KnownHosts: []byte("h ssh-ed25519 AAAA\n"),
		CABundle: []byte(certificate), InsecureSkipVerify: true, BasicHTTP: true,
	}
	tests := map[string]struct {
		data map[string][]byte
		want chart.Credentials
	}{
		"Empty":     {nil, chart.Credentials{}},
		"All":       {data("username", "u", "password", "p", "ssh-privatekey", privateKey, "known_hosts", "h ssh-ed25519 AAAA\n", "cacerts", certificate, "insecureSkipVerify", "true", "basicHTTP", "1"), all},
		"BadFlags":  {data("insecureSkipVerify", "yes please", "basicHTTP", "true\n"), chart.Credentials{}},
		"BothEmpty": {data("username", "", "password", ""), chart.Credentials{}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chart.CredentialsOf(c.data)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v\n-want +got\n%s", err, diff)
			}
		})
	}
	for name, bad := range map[string]map[string][]byte{
		"no key password":   data("username", "canary"),
		"no key username":   data("password", "canary"),
		"line break":        data("username", "u", "password", "canary\n"),
		"user name holds":   data("username", "canary\x00", "password", "p"),
		"colon":             data("username", "canary:", "password", "p"),
		"no certificate":    data("cacerts", "canary"),
		"no private key":    data("ssh-privatekey", "canary"),
		"is no private key": data("ssh-privatekey", certificate),
	} {
		_, err := chart.CredentialsOf(bad)
		if reconcile.ReasonOf(err) != chart.ReasonInvalidCredentials || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestParseByPath(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	text := fmt.Sprintf(`
charts/one: {username: u, password: p, insecureSkipVerify: true, basicHTTP: true}
"charts/*":
  caBundle: %s
  sshPrivateKey: %s
  sshKnownHosts: %s
  unknown: ignored
plain:
  caBundle: |
    %s
  sshKnownHosts: "h ssh-ed25519 AAAA"
none:
`, b64(certificate), b64(privateKey), b64("h ssh-ed25519 AAAA\n"), strings.ReplaceAll(certificate, "\n", "\n    "))
	got, err := chart.ParseByPath([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]chart.Credentials{
		"charts/one": {Username: "u", Password: "p", InsecureSkipVerify: true, BasicHTTP: true},
		"charts/*":   {CABundle: []byte(certificate), SSHPrivateKey: []byte(privateKey), KnownHosts: []byte("h ssh-ed25519 AAAA\n")},
		"plain":      {CABundle: []byte(certificate), KnownHosts: []byte("h ssh-ed25519 AAAA")},
		"none":       {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for name, bad := range map[string]string{
		"NoMap":      "- canary",
		"NoYAML":     "a: [canary",
		"WrongType":  "a: {password: [canary]}",
		"NoBase64":   "a: {caBundle: canary}",
		"NoPEM":      "a: {caBundle: " + b64("canary") + "}",
		"BadPattern": "'a/[b': {username: u, password: canary}",
		"LineBreak":  "a: {username: u, password: \"canary\\n\"}",
		"Large":      strings.Repeat("# canary\n", 200_000),
		"Bomb":       bomb(20),
	} {
		if got, err := chart.ParseByPath([]byte(bad)); reconcile.ReasonOf(err) != chart.ReasonInvalidCredentials || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %d, %v", name, len(got), err)
		}
	}
}

// bomb is YAML whose aliases stand for 2^n texts.
func bomb(n int) string {
	b := "a0: &a0 [canary, canary]\n"
	for i := range n {
		b += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return b
}

func TestFor(t *testing.T) {
	who := func(name string) chart.Credentials { return chart.Credentials{Username: name} }
	byPath := map[string]chart.Credentials{
		"charts/one": who("exact"), "charts/*": who("pattern"), "charts/o*": who("later pattern"), "*/two": who("star"), "/rooted": who("rooted"),
	}
	a := chart.Access{Default: who("default"), ByPath: byPath}
	for dir, want := range map[string]string{
		"charts/one": "exact", "./charts/one/": "exact", "/charts/one": "exact", "charts/other": "pattern", "charts/two": "star",
		"charts/a/b": "", "elsewhere": "", "": "", ".": "", "rooted": "rooted", "../charts/one": "exact",
	} {
		if got := a.For(dir).Username; got != want {
			t.Errorf("%q: got %q, want %q", dir, got, want)
		}
	}
	if got := (chart.Access{Default: who("default")}).For("x").Username; got != "default" {
		t.Errorf("without paths: %q", got)
	}
	if got := (chart.Access{Default: who("default"), ByPath: map[string]chart.Credentials{}}).For("x"); got.Username != "" {
		t.Errorf("a list of paths stands in for the default, also an empty one: %q", got.Username)
	}
}

func TestSend(t *testing.T) {
	c := chart.Credentials{Username: "u", Password: "p", SSHPrivateKey: []byte("k"), KnownHosts: []byte("h"), CABundle: []byte("ca"), InsecureSkipVerify: true, BasicHTTP: true}
	tests := []struct {
		regex, url string
		want       bool
		why        string
	}{
		{"", "https://charts.example.com/", false, "no expression, no credentials"},
		{".*", "https://charts.example.com/", true, ""},
		{"https://charts.example.com/.*", "https://charts.example.com/stable", true, ""},
		{"https://charts.example.com", "https://charts.example.com/stable", true, "the end of the URL need not match"},
		{"https://charts.example.com", "https://charts.example.com", true, ""},
		{"https://charts.example.com", "https://charts.example.com:8443/", true, "the host ends where the port begins"},
		{"https://charts.example.com", "https://charts.example.com.evil.example/", false, "another host that begins alike"},
		{"https://charts.example.com", "https://charts.example.community/", false, "another host that begins alike"},
		{"https://charts.example.com", "https://charts.example.com@evil.example/", false, "a user name that looks like a host"},
		{"https://charts.example.com", "https://charts.example.com:x@evil.example/", false, "a password after it"},
		{"https://charts.example.com/", `https://charts.example.com\@evil.example/`, false, "browsers and Go disagree about it"},
		{"https://charts.example.com/", "https://charts.example.com/\n.evil.example/", false, "no URL"},
		{"https://charts.example.com", "http://charts.example.com/", false, "another scheme"},
		{"https://charts.example.com:443/", "https://charts.example.com:8443/", false, "another port"},
		{"charts.example.com", "https://charts.example.com/", false, "it begins at the first character"},
		{"https://evil.example/|https://charts.example.com/", "https://charts.example.com/", true, "an alternative"},
		{"https://a.example/|https://b.example/", "https://c.example/?https://a.example/", false, "anchored, each alternative too"},
		{"https://", "https://charts.example.com/", false, "it names no host"},
		{"^https://charts.example.com/", "https://charts.example.com/x", true, "as the migration writes it"},
		{"https?://.*", "http://charts.example.com/", true, ""},
		{"https://charts", "https://charts/", true, ""},
		{"https://charts", "https://charts.evil.example/", false, ""},
		{"(?i)HTTPS://CHARTS.EXAMPLE.COM/", "https://charts.example.com/", true, ""},
		{"https://Charts.Example.com/", "https://Charts.Example.com/", true, "as it was written"},
		{"https://charts.example.com/", "https://Charts.Example.com/", true, "as servers see it"},
		{"https://charts.example.com/", "https://u:p@charts.example.com/", true, "user name and password do not count"},
		{"oci://ghcr.io/.*", "oci://ghcr.io/org/app", true, ""},
		{"oci://ghcr.io", "oci://ghcr.io.evil.example/org/app", false, ""},
		{"git::https://github.com/org/.*", "git::https://github.com/org/repo//a?ref=b", true, "as it was written"},
		{"https://github.com/org/.*", "git::https://github.com/org/repo//a?ref=b", true, "as it is fetched"},
		{"https://github.com/org/", "github.com/org/repo/a", true, "as it is fetched"},
		{"github.com/org/", "github.com/org/repo/a", true, "as it was written"},
		{"git@github.com:org/.*", "git@github.com:org/repo", true, "as it was written"},
		{"ssh://git@github.com/org/.*", "git@github.com:org/repo", true, "as it is fetched"},
		{"git@github.com", "git@github.com.evil.example:org/repo", false, ""},
		{"ssh://git@h/", "ssh://git@h/org/repo", true, ""},
		{"ssh://h/", "ssh://git@h/org/repo", true, ""},
		{".*", "charts/app", false, "no URL, nothing to send to"},
	}
	for _, test := range tests {
		got, err := chart.Access{URLs: test.regex}.Send(c, test.url)
		if err != nil {
			t.Error(err)
		}
		want := c
		if !test.want {
			want = chart.Credentials{KnownHosts: c.KnownHosts, CABundle: c.CABundle, InsecureSkipVerify: true, BasicHTTP: true}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s on %s: %s\n-want +got\n%s", test.regex, test.url, test.why, diff)
		}
	}
	for _, bad := range []string{"(", "a{1001}", "((a{100}){100}){100}", strings.Repeat("a", 5000), "(?=a)"} {
		got, err := chart.Access{URLs: bad}.Send(c, "https://h/")
		if reconcile.ReasonOf(err) != chart.ReasonInvalidRegex || got.Password != "" || len(err.Error()) > 300 {
			t.Errorf("%.20s: got %q, %v", bad, got.Password, err)
		}
	}
}

func TestSendOn(t *testing.T) {
	tests := []struct {
		regex, repo, url string
		want             bool
		why              string
	}{
		{".*", "https://h/charts", "https://h/files/a.tgz", true, "the same server"},
		{"https://h/charts", "https://h/charts", "https://h/files/a.tgz", true, "the repository's server, elsewhere on it"},
		{"https://h/charts", "https://h/charts", "https://H:443/files/a.tgz", true, "the same server, written otherwise"},
		{".*", "https://h/charts", "https://evil.example/a.tgz", false, "an expression for everything names no other server"},
		{"https://.*", "https://h/charts", "https://evil.example/a.tgz", false, ""},
		{"http.*", "https://h/charts", "http://h/a.tgz", false, "another scheme"},
		{".*", "https://h/charts", "https://h:8443/a.tgz", false, "another port"},
		{"https://h/|https://files.example.com/", "https://h/charts", "https://files.example.com/a.tgz", true, "the administrator names both"},
		{`https://[a-z]+\.example\.com/`, "https://charts.example.com/", "https://files.example.com/a.tgz", true, "the administrator names a domain"},
		{"https://h/", "https://h/charts", "https://files.example.com/a.tgz", false, ""},
		{"https://other/", "https://h/charts", "https://h/a.tgz", false, "the repository itself gets none"},
		{"", "https://h/", "https://h/a.tgz", false, ""},
	}
	for _, test := range tests {
		got, err := chart.Access{URLs: test.regex}.SendOn(chart.Credentials{Password: "p"}, test.repo, test.url)
		if err != nil || (got.Password != "") != test.want {
			t.Errorf("%q, from %s to %s: got %q, %v: %s", test.regex, test.repo, test.url, got.Password, err, test.why)
		}
	}
}
