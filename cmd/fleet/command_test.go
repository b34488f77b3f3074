package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/wait"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// docs/cli promises these numbers.
func TestExitCode(t *testing.T) {
	for want, err := range map[int]error{
		0: nil,
		1: errors.New("no connection"),
		2: cli.ErrDifferences,
		3: cli.EndingWith(cli.ErrNotReady),
		4: fmt.Errorf("a.yaml: %w", cli.ErrInput),
		5: cli.ErrRefused,
		6: fmt.Errorf("%w: %w", cli.ErrPartly, errors.New("x")),
	} {
		if got := cli.ExitCode(err, false); got != want {
			t.Errorf("%v: want %d, got %d", err, want, got)
		}
	}
	if got := cli.ExitCode(context.Canceled, true); got != 130 {
		t.Errorf("interrupted: want 130, got %d", got)
	}
}

// run runs a command against a fleet of testdata and returns what it prints.
func run(t *testing.T, fleetFile string, args ...string) (out, notes string, err error) {
	t.Helper()
	st := stage{fake: newFake(t, "testdata/fleets/"+fleetFile)}
	var o, n bytes.Buffer
	g := st.globals(func() {})
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &o, Err: &n})
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return o.String(), n.String(), err
}

func TestVersion(t *testing.T) {
	out, notes, err := run(t, "examples.yaml", "version")
	want := "client   " + version.Version + " (" + version.Commit + ")\nmanager  v0.1.0, leader for 11m, at https://127.0.0.1:31001\n"
	if err != nil || notes != "" || out != want {
		t.Errorf("want %q, got %q, %q, %v", want, out, notes, err)
	}
	out, _, err = run(t, "offline.yaml", "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var doc Version
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Kind != "Version" || doc.Client.Implementation != "fleet" {
		t.Errorf("%v: %s", err, out)
	}
}

// Who has no kubeconfig still learns the version of the program.
func TestVersionWithoutServer(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	var o, n bytes.Buffer
	root := newRootCommand(printer.Stdio{Out: &o, Err: &n})
	root.SetArgs([]string{"version"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(o.String(), "client   ") || !strings.Contains(n.String(), "manager  not asked: no kubeconfig") {
		t.Errorf("got %q and %q", o.String(), n.String())
	}
}

func TestCompletion(t *testing.T) {
	cases := map[string][]string{
		"get ":                         {"bundles", "clusters", "deployments", "groups", "helmops", "imagescans", "repos", "tokens"},
		"get clusters ":                {"c1", "c2", "c3", "local"},
		"get nonsense ":                nil,
		"wait ":                        {"bundle/", "cluster/", "helmop/", "repo/"},
		"wait repo ":                   {"examples"},
		"wait gitrepo/":                {"gitrepo/examples"},
		"get repo/":                    {"repo/examples"},
		"explain ":                     {"examples-metrics", "examples-settings", "examples-web"},
		"explain bundle ":              {"examples-metrics", "examples-settings", "examples-web"},
		"explain examples-web ":        {"c1", "c2", "c3", "local"},
		"explain bundle/x cluster ":    {"c1", "c2", "c3", "local"},
		"approve repo examples ":       {"bundle/", "cluster/", "helmop/", "repo/", "workspace/"},
		"wait repo/":                   {"repo/examples"},
		"suspend -n fleet-local repo/": {"repo/examples"},

		"get bundles -n ":                    {"fleet-default", "fleet-local"},
		"status --namespace ":                {"fleet-default", "fleet-local"},
		"get clusters -o ":                   {"json", "jsonpath=", "name", "wide", "yaml"},
		"test -o ":                           {"json", "jsonpath=", "yaml"},
		"lint -o s":                          {"sarif"},
		"get clusters --state ":              {"ErrApplied", "GitUpdating", "Held", "Modified", "NotReady", "Offline", "OutOfSync", "Paused", "Pending", "Ready", "Unreadable", "WaitApplied", "WaitCheckIn"},
		"get clusters --state Ready,Off":     {"Ready,Offline"},
		"get deployments --bundle ":          {"examples-metrics", "examples-settings", "examples-web"},
		"get deployments --cluster ":         {"c1", "c2", "c3", "local"},
		"get bundles --repo ":                {"examples"},
		"bundlediff --cluster ":              {"c1", "c2", "c3", "local"},
		"logs c1 --bundle examples-w":        {"examples-web"},
		"get clusters --color ":              {"always", "auto", "never"},
		"get bundles -n fleet-local --repo ": {"examples"},
	}
	for line, want := range cases {
		out, _, err := run(t, "examples.yaml", append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		var got []string
		for _, l := range strings.Fields(out) {
			if !strings.HasPrefix(l, ":") {
				got = append(got, l)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got\n%s", line, diff)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, _, err := run(t, "examples.yaml", "completion", shell); err != nil || out == "" {
			t.Errorf("completion %s: %v", shell, err)
		}
	}
}

// --context is completed from the kubeconfig that --kubeconfig names, without a server.
func TestCompletionOfContexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncontexts:\n- {name: b, context: {cluster: x}}\n- {name: a, context: {cluster: x}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, "examples.yaml", "__complete", "status", "-k", file, "--context", "")
	if err != nil || !strings.HasPrefix(out, "a\nb\n:") {
		t.Errorf("got %q, %v", out, err)
	}
}

// deniedWith401 is the error of a request that Rancher's webhook denies.
var deniedWith401 = apierrors.NewUnauthorized(`admission webhook "rancher.cattle.io.clusters" denied the request: Unauthorized`)

// Errors of a server say which one it was.
func TestReached(t *testing.T) {
	resource := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusters"}
	noResource := &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(404, "list", resource, "", "", 0, true).ErrStatus}
	for want, err := range map[string]error{
		"cannot reach https://x: connection refused":     &url.Error{Op: "Get", URL: "https://x/apis", Err: syscall.ECONNREFUSED},
		"cannot reach https://x: lookup x: no such host": &net.DNSError{Err: "no such host", Name: "x"},
		"https://x does not accept the credentials of the kubeconfig; they are wrong, or its token or certificate has expired": apierrors.NewUnauthorized("no"),
		"https://x does not let you do this: admission webhook":                                                                deniedWith401,
		"https://x does not know the kinds of Fleet":                                                                           noResource,
		"clusters.fleet.cattle.io \"c1\" not found":                                                                            apierrors.NewNotFound(resource, "c1"),
	} {
		if got := client.DescribeServerError("https://x", err); !strings.HasPrefix(got.Error(), want) || !errors.Is(got, err) && !errors.As(err, new(*url.Error)) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	if client.DescribeServerError("https://x", nil) != nil {
		t.Error("no error is none")
	}
}

// -q silences everything on stderr but errors, which main prints.
func TestQuiet(t *testing.T) {
	_, notes, err := run(t, "examples.yaml", "suspend", "-q", "--all", "--reason", "x")
	if err != nil || notes != "" {
		t.Errorf("want silence, got %q, %v", notes, err)
	}
}

// The commands are those of the README's table.
func TestCommands(t *testing.T) {
	root := newRootCommand(printer.Stdio{Out: io.Discard, Err: io.Discard})
	for _, name := range []string{"apply", "get", "status", "wait", "events", "suspend", "resume", "version"} {
		if c, _, err := root.Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("no command %q: %v", name, err)
		}
	}
}

// --commit @ is HEAD of the working copy, and what its commit says of itself.
func TestCommitHere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var o wait.Options
	o.Commit = "@"
	if err := o.Parse("repo/examples"); !errors.Is(err, git.ErrNoCheckout) {
		t.Errorf("want ErrNoCheckout, got %v", err)
	}
	repo, err := gogit.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := tree.Commit("web 1.4.0", &gogit.CommitOptions{AllowEmptyCommits: true, Author: &gitobject.Signature{Name: "Ana"}})
	if err != nil {
		t.Fatal(err)
	}
	o.Commit = "@"
	if err := o.Parse("repo/examples"); err != nil {
		t.Fatal(err)
	}
	if o.Commit != hash.String() || o.About != `"web 1.4.0" by Ana` {
		t.Errorf("got %s, %s", o.Commit, o.About)
	}
}

// A kubeconfig that is missing is named.
func TestMissingKubeconfig(t *testing.T) {
	missing := t.TempDir() + "/none"
	t.Setenv("KUBECONFIG", missing)
	t.Setenv("HOME", t.TempDir())
	root := newRootCommand(printer.Stdio{Out: io.Discard, Err: io.Discard})
	root.SetArgs([]string{"get", "clusters"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "KUBECONFIG names "+missing) {
		t.Errorf("got %v", err)
	}
}

// Of a file that is no kubeconfig, or not a whole one, the error says what it is: that of
// the flag, whatever KUBECONFIG says.
func TestBrokenKubeconfig(t *testing.T) {
	const (
		parts    = "; a kubeconfig (kind Config) has clusters, users, contexts and current-context"
		clusters = "apiVersion: v1\nkind: Config\nclusters:\n- {name: a, cluster: {server: 'https://127.0.0.1:1'}}\n"
		contexts = "contexts:\n- {name: x, context: {cluster: a, user: ana}}\n"
		users    = "users:\n- {name: ana, user: {token: t}}\n"
		current  = "current-context: x\n"
	)
	for name, c := range map[string]struct{ data, want string }{
		"Empty":       {"\n", "no kubeconfig: FILE is empty" + parts},
		"Manifest":    {"apiVersion: v1\nkind: ConfigMap\n", "no kubeconfig: FILE is a manifest (v1 ConfigMap)" + parts},
		"Certificate": {"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "no kubeconfig: FILE is a PEM file (CERTIFICATE)" + parts},
		"Text":        {"hello\n", "no kubeconfig: FILE is a text without fields" + parts},
		"CutOffWord":  {clusters + "contexts:\n- name: x\n  con", "no kubeconfig: FILE is no YAML, or was cut off"},
		"CutOffPart":  {clusters, "kubeconfig FILE: contexts is missing: the file may be cut off" + parts},
		"NoCurrent":   {clusters + contexts + users, "kubeconfig FILE: current-context is missing; choose one with --context: x"},
		"NoUser":      {clusters + contexts + current, `kubeconfig FILE: context "x" names user "ana", which is not in users: the file may be cut off`},
		"NoCluster":   {"clusters:\n- {name: b, cluster: {server: 'https://b'}}\n" + contexts + users + current, `kubeconfig FILE: context "x" names cluster "a", which is not in clusters`},
		"NoServer":    {"clusters:\n- {name: a, cluster: {}}\n" + contexts + users + current, `kubeconfig FILE: cluster "a" has no server`},
		"NoContext":   {clusters + contexts + users + "current-context: \"y\"\n", `kubeconfig FILE: current-context "y" is not in contexts; choose another with --context: x`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", t.TempDir()+"/other")
			t.Setenv("HOME", t.TempDir())
			_, err := (&client.Globals{Kubeconfig: file}).Open(printer.Stdio{Err: io.Discard})
			if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), file, "FILE"), c.want) {
				t.Errorf("want %s\ngot  %v", c.want, err)
			}
		})
	}
}

// The error for a server of the other scheme than the kubeconfig's differs from that for
// a server that is away.
func TestOtherScheme(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	plain.Config.ErrorLog, secure.Config.ErrorLog = log.New(io.Discard, "", 0), log.New(io.Discard, "", 0)
	for address, want := range map[string]string{
		strings.Replace(plain.URL, "http:", "https:", 1):  "it speaks HTTP and not HTTPS; write http:// in the server of the kubeconfig",
		strings.Replace(secure.URL, "https:", "http:", 1): "if it speaks HTTPS, write https:// in the server of the kubeconfig",
		strings.TrimPrefix(secure.URL, "https://"):        "if it speaks HTTPS, write https:// in the server of the kubeconfig",
	} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		data := "clusters:\n- {name: a, cluster: {server: '" + address + "', insecure-skip-tls-verify: true}}\n" +
			"contexts:\n- {name: x, context: {cluster: a}}\ncurrent-context: x\n"
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		root := newRootCommand(printer.Stdio{Out: io.Discard, Err: io.Discard})
		root.SetArgs([]string{"get", "clusters", "-k", file})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %s\ngot  %v", address, want, err)
		}
	}
}
