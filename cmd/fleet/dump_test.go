package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// dumped runs fleet dump and returns the files of the archive, and what is on stderr.
func dumped(t *testing.T, api func(*fake) client.API, args ...string) (map[string]string, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.tgz")
	notes, err := runDump(t, api, append([]string{"-p", path}, args...)...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("want mode 0600, got %v, %v", info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("temporary files are left: %v", left)
	}
	return unpack(t, path), notes
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[h.Name]; twice || strings.ContainsAny(h.Name, "/\\") || h.Typeflag != tar.TypeReg {
			t.Errorf("file %q is there twice, is not flat, or is no file", h.Name)
		}
		files[h.Name] = string(text)
	}
}

// runDump runs fleet dump against an API server with logs and metrics, of which one container and one service
// do not answer.
func runDump(t *testing.T, api func(*fake) client.API, args ...string) (notes string, err error) {
	t.Helper()
	return runDumpIn(t.Context(), t, api, args...)
}

func runDumpIn(ctx context.Context, t *testing.T, api func(*fake) client.API, args ...string) (notes string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/pods/fleet-controller-1/log") && r.URL.Query().Get("container") == "fleet-controller":
			fmt.Fprintf(w, "tail %s previous %q https://u:CANARY-log@git.example\n", r.URL.Query().Get("tailLines"), r.URL.Query().Get("previous"))
		case path == "/api/v1/namespaces/cattle-fleet-system/services/monitoring-fleet-controller:8080/proxy/metrics":
			fmt.Fprintln(w, "fleet_bundle_state 1")
		default:
			http.Error(w, "no endpoints available", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	f := newFake(t, "testdata/fleets/dump.yaml")
	g := (&stage{fake: f}).globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		a := client.Access{API: f, Server: "https://x", Rest: &rest.Config{Host: server.URL}}
		if api != nil {
			a.API = api(f)
		}
		return a, nil
	}
	var o, n bytes.Buffer
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &o, Err: &n})
	root.SetArgs(append([]string{"dump"}, args...))
	err = root.ExecuteContext(ctx)
	if len(f.writes) > 0 {
		t.Errorf("the command writes: %v", f.writes)
	}
	return n.String(), err
}

// names are the names of the files of some kinds, sorted.
func names(files map[string]string, kinds ...string) []string {
	var out []string
	for name := range files {
		if kind, _, _ := strings.Cut(name, "_"); slices.Contains(kinds, kind) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// The flags say which objects are in the archive.
func TestDumpSelects(t *testing.T) {
	kinds := []string{"gitrepos", "helmops", "bundles", "bundledeployments", "contents", "secrets", "imagescans"}
	metadata := []string{"--with-secrets-metadata", "--with-content-metadata"}
	cases := map[string]struct {
		args []string
		want []string
	}{
		"default workspace": {nil, []string{"bundles_fleet-local_agent"}},
		"workspace": {append([]string{"-n", "shops"}, metadata...), []string{
			"bundledeployments_cluster-c1_db", "bundledeployments_cluster-c1_web-app", "bundles_shops_db", "bundles_shops_other-app",
			"bundles_shops_web-app", "contents_s-db", "contents_s-web", "contents_s-web-1", "gitrepos_shops_other", "gitrepos_shops_web", "helmops_shops_db",
			"imagescans_shops_scan-other", "imagescans_shops_scan-web", "secrets_shops_down-web", "secrets_shops_elsewhere", "secrets_shops_git-other",
			"secrets_shops_git-web", "secrets_shops_helm-db", "secrets_shops_helm-web", "secrets_shops_values-web",
		}},
		"repository": {append([]string{"-n", "shops", "--gitrepo", "web"}, metadata...), []string{
			"bundledeployments_cluster-c1_web-app", "bundles_shops_web-app", "contents_s-web", "contents_s-web-1", "gitrepos_shops_web",
			"imagescans_shops_scan-web", "secrets_shops_down-web", "secrets_shops_git-web", "secrets_shops_helm-web", "secrets_shops_values-web",
		}},
		"bundle with its repository": {append([]string{"-n", "shops", "--bundle", "web-app"}, metadata...), []string{
			"bundledeployments_cluster-c1_web-app", "bundles_shops_web-app", "contents_s-web", "contents_s-web-1", "gitrepos_shops_web",
			"secrets_shops_down-web", "secrets_shops_git-web", "secrets_shops_helm-web", "secrets_shops_values-web",
		}},
		"HelmOp": {append([]string{"-n", "shops", "--helmop", "db"}, metadata...), []string{
			"bundledeployments_cluster-c1_db", "bundles_shops_db", "contents_s-db", "helmops_shops_db", "secrets_shops_helm-db",
		}},
		"everything without contents and secrets": {[]string{"-A", "-l", "1"}, []string{
			"bundledeployments_cluster-c1_db", "bundledeployments_cluster-c1_web-app", "bundles_fleet-local_agent", "bundles_shops_db",
			"bundles_shops_other-app", "bundles_shops_web-app", "gitrepos_shops_other", "gitrepos_shops_web", "helmops_shops_db",
			"imagescans_shops_scan-other", "imagescans_shops_scan-web",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files, _ := dumped(t, nil, c.args...)
			if diff := cmp.Diff(c.want, names(files, kinds...)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Whatever the flags: no byte of the archive is data of a Secret. With --with-content the manifests that were
// committed are in it, and nothing else.
func TestDumpHoldsNoCredential(t *testing.T) {
	for _, args := range [][]string{
		{"-A"}, {"-A", "--with-secrets"}, {"-A", "--with-secrets-metadata", "--with-content-metadata"}, {"-n", "shops", "--with-secrets"},
		{"-n", "shops", "--gitrepo", "web", "--with-secrets", "--with-content"}, {"-A", "--with-secrets", "--with-content"},
	} {
		files, notes := dumped(t, nil, args...)
		for name, text := range files {
			if slices.Contains(args, "--with-content") {
				for _, committed := range []string{"CANARY-file", "CANARY-content", "CANARY-part", "CANARY-db"} {
					text = strings.ReplaceAll(text, committed, "")
				}
			}
			if strings.Contains(text, "CANARY") || strings.Contains(text, "Q0FOQVJZ") {
				t.Errorf("%v: %s holds a credential:\n%s", args, name, text)
			}
		}
		for flag, note := range map[string]string{"--with-secrets": "leaves out the data of Secrets", "--with-content": "any credential that was committed"} {
			if slices.Contains(args, flag) != strings.Contains(notes, note) {
				t.Errorf("%v: %s: notes are %q", args, flag, notes)
			}
		}
	}
}

// Of a Secret there are its type, labels, and the sizes of its keys.
func TestDumpShowsSecretMetadata(t *testing.T) {
	files, _ := dumped(t, nil, "-A", "--with-secrets-metadata")
	const want = `annotationNames:
- kubectl.kubernetes.io/last-applied-configuration
- note
apiVersion: v1
kind: Secret
metadata:
  labels:
    team: web
  name: git-web
  namespace: shops
  uid: ""
sizes:
  password: 6
  username: 3
type: kubernetes.io/basic-auth
`
	got := files["secrets_shops_git-web"]
	if i := strings.Index(got, "  uid: "); i >= 0 { // the fake gives it
		rest := got[i:]
		got = got[:i] + "  uid: \"\"\n" + rest[strings.Index(rest, "\n")+1:]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if files["secrets_cattle-fleet-system_tls"] == "" {
		t.Error("-A leaves out the Secrets of the manager's namespace")
	}
}

// Workloads, logs, metrics and events of the system are in every archive; what does not answer is named.
func TestDumpOfTheSystem(t *testing.T) {
	files, notes := dumped(t, nil, "-n", "shops")
	want := []string{
		"deployments_cattle-fleet-system_fleet-controller", "errors_logs_cattle-fleet-system_fleet-controller-1_gone",
		"errors_metrics_cattle-fleet-system_monitoring-gitjob", "events_cattle-fleet-local-system", "events_cattle-fleet-system",
		"events_cluster-c1", "events_default", "events_kube-system", "events_shops", "leases_cattle-fleet-system_fleet-controller-leader-election-shard",
		"logs_cattle-fleet-system_fleet-controller-1_fleet-controller", "logs_cattle-fleet-system_fleet-controller-1_fleet-controller_previous", "metrics_cattle-fleet-system_monitoring-fleet-controller",
		"pods_cattle-fleet-system_fleet-controller-1",
	}
	if diff := cmp.Diff(want, names(files, "deployments", "errors", "events", "leases", "logs", "metrics", "pods")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := files["logs_cattle-fleet-system_fleet-controller-1_fleet-controller"]; got != "tail 5000 previous \"\" https://(left out)@git.example\n" {
		t.Errorf("log is %q", got)
	}
	if !strings.Contains(notes, "warning: 2 parts are missing") {
		t.Errorf("notes are %q", notes)
	}
}

// halfBroken is an API server that forbids bundles, does not know policies, and loses the second page of
// repositories.
type halfBroken struct{ *fake }

func (h halfBroken) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	switch {
	case q.Resource.Resource == "bundles":
		return nil, apierrors.NewForbidden(q.Resource.GroupResource(), "", errors.New("not for ana"))
	case q.Resource.Resource == "policies":
		return nil, apierrors.NewGenericServerResponse(404, "list", q.Resource.GroupResource(), "", "404 page not found", 0, true)
	case q.Resource.Resource == "gitrepos" && p.From != "":
		return nil, apierrors.NewResourceExpired("the continue token is too old")
	}
	return h.fake.List(ctx, q, p)
}

// A part that cannot be read does not end the dump: the archive says which, and why.
func TestDumpOfAHalfBrokenServer(t *testing.T) {
	files, notes := dumped(t, func(f *fake) client.API { return halfBroken{f} }, "-n", "shops", "-l", "1")
	if got := names(files, "gitrepos", "clusters"); len(got) != 2 {
		t.Errorf("what could be read is %v", got)
	}
	var m struct {
		Missing  int
		Versions struct{ CLI, Manager string }
		LeftOut  []struct{ What, Cause, Text string }
	}
	if err := yaml.Unmarshal([]byte(files["manifest"]), &m); err != nil {
		t.Fatal(err)
	}
	causes := map[string]string{}
	for _, l := range m.LeftOut {
		causes[l.What] = l.Cause
	}
	for what, cause := range map[string]string{
		"bundles_shops": "right", "policies_shops": "failure", "gitrepos_shops": "failure", "other namespaces": "filter", "secrets": "filter", "values": "secret",
	} {
		if causes[what] != cause {
			t.Errorf("%s: want %s, got %q", what, cause, causes[what])
		}
	}
	if m.Missing != 5 || len(names(files, "errors")) != 5 || m.Versions.Manager != "v0.1.0" || m.Versions.CLI == "" {
		t.Errorf("the manifest is\n%s", files["manifest"])
	}
	if !strings.Contains(notes, "warning: 5 parts are missing") {
		t.Errorf("notes are %q", notes)
	}
}

// Without any kind of Fleet there is an archive of the manager's workloads.
func TestDumpWithoutTheKinds(t *testing.T) {
	bare := func(f *fake) client.API {
		f.without("kinds")
		return f
	}
	files, _ := dumped(t, bare, "-A", "--with-content-metadata")
	for _, name := range []string{
		"errors_gitrepos", "errors_bundledeployments", "errors_contents", "errors_policies", "pods_cattle-fleet-system_fleet-controller-1",
		"logs_cattle-fleet-system_fleet-controller-1_fleet-controller", "manifest",
	} {
		if files[name] == "" {
			t.Errorf("no file %s", name)
		}
	}
}

// pages keeps the limits of all lists.
type pages struct {
	*fake
	limits map[string]int64
}

func (p pages) List(ctx context.Context, q client.Query, page client.Page) (*unstructured.UnstructuredList, error) {
	p.limits[q.Resource.Resource] = max(p.limits[q.Resource.Resource], page.Limit)
	return p.fake.List(ctx, q, page)
}

// Lists have the pages of --fetch-limit; those of large objects are smaller.
func TestDumpInPages(t *testing.T) {
	for args, want := range map[string][2]int64{"": {500, 20}, "0": {0, 20}, "7": {7, 7}} {
		limits := map[string]int64{}
		flags := []string{"-A", "--with-content"}
		if args != "" {
			flags = append(flags, "-l", args)
		}
		dumped(t, func(f *fake) client.API { return pages{f, limits} }, flags...)
		if limits["bundledeployments"] != want[0] || limits["bundles"] != want[1] || limits["contents"] != want[1] {
			t.Errorf("-l %q: want %v, got %v", args, want, limits)
		}
	}
}

// unreachable is no API server.
type unreachable struct{ *fake }

func (u unreachable) List(context.Context, client.Query, client.Page) (*unstructured.UnstructuredList, error) {
	return nil, errors.New("connection refused")
}

// Nothing is written if the flags are wrong, the server is away, or the file exists.
func TestDumpRefuses(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
		away bool
	}{
		"no path":            {args: nil, want: "--dump-path FILE is missing"},
		"negative limit":     {args: []string{"-p", "x", "-l", "-1"}, want: "must not be below 0"},
		"two filters":        {args: []string{"-p", "x", "-n", "shops", "--gitrepo", "web", "--bundle", "web-app"}, want: "only one of"},
		"filter without -n":  {args: []string{"-p", "x", "--gitrepo", "web"}, want: "need the workspace"},
		"filter with -A":     {args: []string{"-p", "x", "-A", "--gitrepo", "web"}, want: "need the workspace"},
		"-A and -n":          {args: []string{"-p", "x", "-A", "-n", "shops"}, want: "do not go together"},
		"both of secrets":    {args: []string{"-p", "x", "--with-secrets", "--with-secrets-metadata"}, want: "do not go together"},
		"both of content":    {args: []string{"-p", "x", "--with-content", "--with-content-metadata"}, want: "do not go together"},
		"unknown repository": {args: []string{"-p", "x", "-n", "shops", "--gitrepo", "wbe"}, want: `no gitrepo "wbe" in namespace shops`},
		"unknown workspace":  {args: []string{"-p", "x", "-n", "shpos"}, want: `no workspace "shpos"`},
		"existing file":      {args: []string{"-p", "there"}, want: "there exists"},
		"no folder":          {args: []string{"-p", "none/x"}, want: "no such file"},
		"no server":          {args: []string{"-p", "x"}, want: "connection refused", away: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			there := filepath.Join(dir, "there")
			if err := os.WriteFile(there, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := slices.Clone(c.args)
			if len(args) > 1 {
				args[1] = filepath.Join(dir, args[1])
			}
			var api func(*fake) client.API
			if c.away {
				api = func(f *fake) client.API { return unreachable{f} }
			}
			if _, err := runDump(t, api, args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
			left, _ := os.ReadDir(dir)
			if kept, _ := os.ReadFile(there); len(left) != 1 || string(kept) != "kept" {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// interrupting is an API server during whose list of clusters the user interrupts the command.
type interrupting struct {
	*fake
	interrupt func()
}

func (i interrupting) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	if q.Resource.Resource == "clusters" {
		i.interrupt()
		return nil, ctx.Err()
	}
	return i.fake.List(ctx, q, p)
}

// A command that is interrupted leaves no file.
func TestDumpInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	_, err := runDumpIn(ctx, t, func(f *fake) client.API { return interrupting{f, interrupt} }, "-p", filepath.Join(dir, "x"))
	if left, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("got %v; left are %v", err, left)
	}
}
