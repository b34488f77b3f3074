package bundlesource_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
	"github.com/fleetworkspace/fleet/test/dialcount"
)

// A committer cannot make gitjob ask its own ports: neither by address, nor by a
// name, nor by a server that redirects there.
func TestLoopbackIsNotDialled(t *testing.T) {
	own, connections := dialcount.Listen(t, "127.0.0.2:0")
	_, port, err := net.SplitHostPort(own)
	if err != nil {
		t.Fatal(err)
	}
	moved := webtest.Redirect(http.StatusTemporaryRedirect, "http://"+own+"/metrics")
	server := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/moved.tgz": moved}})
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "demo", "1.0.0", webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack())
	registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		moved(w, r)
		return true
	})
	remote := gittest.ServeHTTP(t, t.TempDir())
	remote.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://"+own+"/repo/info/refs?"+r.URL.RawQuery, http.StatusFound)
		return true
	})
	sources := map[string]string{
		"ArchiveMoved": helmYAML("chart: " + server.URL + "/moved.tgz"), "OCIMoved": helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"),
		"GitMoved": helmYAML("chart: git::" + remote.URL + "/repo"), "SSH": helmYAML("chart: git::ssh://git@" + own + "/repo"),
	}
	for what, host := range map[string]string{"Address": own, "Mapped": "[::ffff:127.0.0.2]:" + port} {
		sources["Repository"+what] = helmYAML("repo: http://"+host+"/charts", "chart: demo")
		sources["Archive"+what] = helmYAML("chart: http://" + host + "/a.tgz")
		sources["Git"+what] = helmYAML("chart: git::http://" + host + "/repo")
	}
	sources["OCIAddress"] = helmYAML("repo: oci://"+own+"/demo", "version: 1.0.0")
	one, err := address.Parse([]string{"127.0.0.1/32"}) // where the servers are that redirect
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, one, sources)
	name := net.JoinHostPort("localhost", port)
	refuse(t, address.Policy{}, map[string]string{
		"RepositoryName": helmYAML("repo: http://"+name+"/charts", "chart: demo"), "ArchiveName": helmYAML("chart: http://" + name + "/a.tgz"),
		"GitName": helmYAML("chart: git::http://" + name + "/repo"), "OCIName": helmYAML("repo: oci://"+name+"/demo", "version: 1.0.0"),
	})
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections to a loopback address that is refused", n)
	}
}

// refuse wants each source to be refused because of its address.
func refuse(t *testing.T, policy address.Policy, sources map[string]string) {
	t.Helper()
	remotes, err := git.New(git.Config{Addresses: policy, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remotes.Close() })
	r := newReader(t, func(c *bundlesource.Config) { c.Git, c.Addresses = remotes, policy })
	for name, yaml := range sources {
		t.Run(name, func(t *testing.T) {
			in := input(nil)
			in.Access.Default.BasicHTTP = true
			if f, result := onlyOne(t, r, in, yaml); !strings.Contains(f.Message, "loopback address; chart value allowedReservedCIDRs") || result.Retry {
				t.Errorf("want a refusal and no other try (%v): %q", result.Retry, f.Message)
			}
		})
	}
}
