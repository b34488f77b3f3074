package git

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
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
