package git

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestSSH(t *testing.T) {
	repo := gittest.NewRepo(t)
	want := Commit(repo.Commit("first", map[string]string{"a": "1"}))
	server := gittest.ServeSSH(t, filepath.Dir(repo.Dir))
	other := gittest.ServeSSH(t, filepath.Dir(repo.Dir))
	remotes, ref := newRemotes(t, Limits{}), Reference{Branch: "main"}
	url := "ssh://git@" + server.Addr + "/repo"
	good := Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: server.KnownHosts}
	src := Source{URL: url, Credentials: good}
	got, err := remotes.Resolve(t.Context(), src, ref)
	if err != nil || got != want {
		t.Fatal(got, err)
	}
	fetch(t, remotes, src, ref, got)
	next := Commit(repo.Commit("second", map[string]string{"a": "2"}))
	fetch(t, remotes, src, ref, next)

	foreign := strings.Replace(string(other.KnownHosts), other.Addr[strings.LastIndex(other.Addr, ":"):], server.Addr[strings.LastIndex(server.Addr, ":"):], 1)
	cases := map[string]struct {
		src          Source
		reason, text string
	}{
		"NoKey": {Source{URL: url}, ReasonInvalidCredentials, ""},
		"NoKnownHosts": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey}}, ReasonHostKeyRefused,
			fmt.Sprintf("no host key of git host %q is known: add it to known_hosts of the secret", server.Addr),
		},
		"UnknownHost": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: other.KnownHosts}}, ReasonHostKeyRefused,
			fmt.Sprintf("no host key of git host %q is known: add it to known_hosts of the secret", server.Addr),
		},
		"AnotherHostKey": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: []byte(foreign)}}, ReasonHostKeyRefused, "",
		},
		"WrongKey": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: gittest.NewKey(t), KnownHosts: server.KnownHosts}}, ReasonAuthenticationRefused,
			fmt.Sprintf("git host %q refuses the SSH key", server.Addr),
		},
		"NoSuchRepository": {Source{URL: url + "-none", Credentials: good}, ReasonRepositoryNotFound, ""},
		"Injection":        {Source{URL: "ssh://git@" + server.Addr + "/x';touch$IFS'pwned", Credentials: good}, ReasonRepositoryNotFound, ""},
		"ConnectionRefused": {Source{URL: "ssh://git@127.0.0.1:1/repo", Credentials: good}, ReasonUnreachable,
			`git host "127.0.0.1:1" cannot be reached: connection refused`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := remotes.Resolve(t.Context(), c.src, ref)
			wantFault(t, err, c.reason, c.text)
		})
	}
}

// With UnknownHost an SSH host is accepted whose key is not known, and reported with its
// fingerprint. One that shows another key than the known one stays refused.
func TestUnknownHostsAccepted(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("first", map[string]string{"a": "1"})
	server := gittest.ServeSSH(t, filepath.Dir(repo.Dir))
	other := gittest.ServeSSH(t, filepath.Dir(repo.Dir))
	var reported []string
	remotes, err := New(Config{
		Addresses: address.WithLoopback(), Dir: t.TempDir(),
		UnknownHost: func(host, fingerprint string) { reported = append(reported, host+" "+fingerprint) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer remotes.Close()
	url := "ssh://git@" + server.Addr + "/repo"
	foreign := strings.ReplaceAll(string(other.KnownHosts), other.Addr[strings.LastIndex(other.Addr, ":")+1:], server.Addr[strings.LastIndex(server.Addr, ":")+1:])
	for name, c := range map[string]struct {
		known    []byte
		reported bool
		reason   string
	}{
		"None":    {nil, true, ""},
		"Others":  {other.KnownHosts, true, ""},
		"Known":   {server.KnownHosts, false, ""},
		"Another": {[]byte(foreign), false, ReasonHostKeyRefused},
	} {
		t.Run(name, func(t *testing.T) {
			reported = nil
			_, err := remotes.Resolve(t.Context(), Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: c.known}}, Reference{Branch: "main"})
			if reconcile.ReasonOf(err) != c.reason && (c.reason != "" || err != nil) {
				t.Errorf("got %v", err)
			}
			if got := len(reported) > 0 && strings.HasPrefix(reported[0], server.Addr+" SHA256:"); got != c.reported {
				t.Errorf("reported %q", reported)
			}
		})
	}
}
