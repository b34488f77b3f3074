package git

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

// Submodules over SSH are read with the key of the parent on its host,
// recursively, with relative and absolute URLs.
func TestSubmodulesOverSSH(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	server := gittest.ServeSSH(t, f.root)
	at := "ssh://git@" + server.Addr
	deep := f.commit("deep", map[string]string{"z.yaml": "deep\n"})
	lib := f.commit("team/lib", map[string]string{"a.yaml": "lib\n"}, link{"vendor/deep", at + "/deep", deep})
	top := Commit(f.commit("team/top", map[string]string{"fleet.yaml": "top\n"}, link{"libs/one", "../lib", lib}))
	src := Source{URL: at + "/team/top", Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: server.KnownHosts}}
	tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Branch: "main"}, top)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	wantFile(t, tree, "fleet.yaml", "top\n")
	wantFile(t, tree, "libs/one/a.yaml", "lib\n")
	wantFile(t, tree, "libs/one/vendor/deep/z.yaml", "deep\n")
}

// The key of the parent goes to no other host: without a key the manager does
// not even connect to it.
func TestSubmoduleOverSSHElsewhere(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	server := gittest.ServeSSH(t, f.root)
	var connections atomic.Int32
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	go func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	lib := f.commit("lib", map[string]string{"a.yaml": "lib\n"})
	top := Commit(f.commit("top", nil, link{"lib", "ssh://git@" + other.Addr().String() + "/lib", lib}))
	src := Source{
		URL:         "ssh://git@" + server.Addr + "/top",
		Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: server.KnownHosts},
	}
	_, err = newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Branch: "main"}, top)
	wantFault(t, err, ReasonInvalidCredentials, "")
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections to the other host", n)
	}
}
