package git

import (
	"bytes"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestParseURL(t *testing.T) {
	cases := map[string]struct {
		want endpoint
		bad  bool
	}{
		"https://git.example/org/repo.git":       {want: endpoint{scheme: "https", host: "git.example", path: "/org/repo.git"}},
		"https://ana:pw@git.example:8443/r":      {want: endpoint{scheme: "https", user: "ana", password: "pw", host: "git.example", port: "8443", path: "/r"}},
		"http://[::1]:3000/r":                    {want: endpoint{scheme: "http", host: "::1", port: "3000", path: "/r"}},
		"ssh://git@git.example:2222/org/repo":    {want: endpoint{scheme: "ssh", user: "git", host: "git.example", port: "2222", path: "/org/repo"}},
		"git@github.com:org/repo.git":            {want: endpoint{scheme: "ssh", user: "git", host: "github.com", path: "org/repo.git"}},
		"git.example:repo":                       {want: endpoint{scheme: "ssh", host: "git.example", path: "repo"}},
		"":                                       {bad: true},
		"/etc":                                   {bad: true},
		"./repo":                                 {bad: true},
		"file:///etc":                            {bad: true},
		"ext::sh -c touch":                       {bad: true},
		"git://git.example/r":                    {bad: true},
		"https://git.example":                    {bad: true},
		"https:///r":                             {bad: true},
		"https://git.example/r?x=1":              {bad: true},
		"https://git.example/r#x":                {bad: true},
		"ssh://-oProxyCommand=touch/r":           {bad: true},
		"-oProxyCommand=touch:r":                 {bad: true},
		"ssh://git@host/\nr":                     {bad: true},
		"https://git.example/%0a":                {bad: true},
		"git@host:-r":                            {bad: true},
		"https://canary%zz@git.example/org/repo": {bad: true},
	}
	for raw, c := range cases {
		got, err := parseURL(raw)
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%q: got %+v, %v", raw, got, err)
		}
		if err != nil && (reconcile.ReasonOf(err) != ReasonInvalidURL || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestCommand(t *testing.T) {
	for path, want := range map[string]string{
		"/org/repo":  `git-upload-pack '/org/repo'`,
		"/~ana/repo": `git-upload-pack '~ana/repo'`,
		"/a'b":       `git-upload-pack '/a'\''b'`,
	} {
		if got := (endpoint{path: path}).command(serviceUpload); got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	}
}

// What is accepted is spoken to at the host it names, and its form for
// messages shows no credential.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://u:p@h:1/r", "git@h:r", "ssh://h/r", "http://[::1]/x", "h:r", "https://h/%2e%2e/r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		ep, err := parseURL(raw)
		if err != nil {
			if !reconcile.IsTerminal(err) {
				t.Fatalf("%q: %v is not permanent", raw, err)
			}
			return
		}
		if ep.scheme != "ssh" {
			again, err := url.Parse(ep.baseURL().String())
			if err != nil || again.User != nil || again.Hostname() != ep.host {
				t.Fatalf("%q: base %q: %v", raw, ep.baseURL(), err)
			}
		}
		if strings.ContainsAny(ep.command(serviceUpload), "\n\r\x00") {
			t.Fatalf("%q: command %q", raw, ep.command(serviceUpload))
		}
	})
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{"main", "feature/x", "-x", "a..b", "a.lock", "@", "a@{1}", ".a", "a/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := Reference{Branch: name, Revision: name}.Validate()
		if err != nil {
			if reconcile.ReasonOf(err) != ReasonInvalidReference {
				t.Fatal(err)
			}
			return
		}
		if strings.HasPrefix(name, "-") || strings.Contains(name, "..") || strings.ContainsAny(name, "\n\x00 ~^:?*[\\") {
			t.Fatalf("%q was accepted", name)
		}
	})
}

func FuzzCredentialsOf(f *testing.F) {
	f.Add("kubernetes.io/basic-auth", []byte("ana"), []byte("pw"), []byte("host key"))
	f.Add("kubernetes.io/ssh-auth", []byte(""), []byte("-----BEGIN"), []byte("|1|x|y ssh-rsa"))
	f.Add("Opaque", []byte("12"), []byte("-----BEGIN"), []byte("34"))
	f.Fuzz(func(t *testing.T, kind string, a, b, c []byte) {
		got, err := CredentialsOf(kind, map[string][]byte{
			"username": a, "password": b, "ssh-privatekey": b, "known_hosts": c,
			keyAppID: a, keyAppInstallation: c, keyAppPrivateKey: b,
		})
		if err != nil && !reconcile.IsTerminal(err) {
			t.Fatal(err)
		}
		e := &sourceEntry{dir: t.TempDir(), ep: endpoint{scheme: "ssh", host: "h"}, src: Source{Credentials: got}}
		if _, _, err := e.hostKeys(); err != nil && !reconcile.IsTerminal(err) {
			t.Fatal(err)
		}
	})
}

// No pack makes us write or keep more than the limits say.
func FuzzReceivePack(f *testing.F) {
	repo := gittest.NewRepo(f)
	repo.Commit("first", map[string]string{"a": "1", "b": strings.Repeat("x\n", 1000)})
	repo.Commit("second", map[string]string{"b": strings.Repeat("x\n", 1001)})
	repo.Git("gc", "--quiet")
	packs, err := filepath.Glob(filepath.Join(repo.Dir, ".git", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		f.Fatal(packs, err)
	}
	data, err := os.ReadFile(packs[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
	limits := Limits{PackBytes: 1 << 16, InflatedBytes: 1 << 20, FileBytes: 1 << 16}
	f.Fuzz(func(t *testing.T, pack []byte) {
		var out bytes.Buffer
		n, err := receivePack(bytes.NewReader(pack), &out, limits, errDamaged)
		if err == nil && (n > limits.PackBytes || int64(out.Len()) != n) {
			t.Fatalf("%d bytes said, %d kept", n, out.Len())
		}
		_, _ = io.Copy(io.Discard, &out)
	})
}
