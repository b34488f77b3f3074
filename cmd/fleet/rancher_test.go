package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/rancher"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancherapi"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	anasToken  = "token-ana:s3cr3t-canary"
	kiosksUser = "u-kiosk"
)

// aRancher has two workspaces, and clusters in one of them: its own, and 250 more,
// of which two are called alike.
func aRancher() *rancherapi.Memory {
	object := func(kind, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "management.cattle.io/v3", "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": name, "creationTimestamp": "2026-08-20T14:10:44Z"},
		}}
	}
	clusters := []*unstructured.Unstructured{
		object("Cluster", "local", map[string]any{"displayName": "local", "internal": true, "fleetWorkspaceName": "fleet-local"}),
	}
	for i := range 250 {
		display := fmt.Sprintf("store %d", i)
		if i > 247 {
			display = "twin"
		}
		clusters = append(clusters, object("Cluster", fmt.Sprintf("c-%05d", i), map[string]any{"displayName": display, "fleetWorkspaceName": "fleet-default", "rkeConfig": map[string]any{"invented": "yes"}}))
	}
	return rancherapi.NewMemory(map[string][]*unstructured.Unstructured{
		"clusters": clusters,
		"fleetworkspaces": {
			object("FleetWorkspace", "fleet-local", nil), object("FleetWorkspace", "fleet-default", nil), object("FleetWorkspace", "team-a", nil),
		},
	})
}

// A rancherClient is the command line with a kubeconfig that Rancher has made.
type rancherClient struct {
	t       *testing.T
	globals *client.Globals
}

func newClient(t *testing.T, at *rancherapi.Server, token string) rancherClient {
	t.Setenv(rancher.EnvRancherToken, "")
	g := &client.Globals{DefaultNamespace: fleet.NamespaceLocal, Now: func() time.Time { return time.Date(2026, 8, 24, 14, 10, 44, 0, time.UTC) }}
	g.Dial = func(printer.Stdio) (client.Access, error) {
		cfg := &rest.Config{Host: at.URL + "/k8s/clusters/local", BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}}
		return client.Access{Server: cfg.Host, Rest: cfg}, nil
	}
	return rancherClient{t, g}
}

func (c rancherClient) fleet(args ...string) (out, notes string, err error) {
	var o, n bytes.Buffer
	root := command(c.globals, printer.Stdio{In: strings.NewReader(anasToken + "\n"), Out: &o, Err: &n})
	root.SetArgs(args)
	err = root.ExecuteContext(c.t.Context())
	return o.String(), n.String(), err
}

// people are who comes to the Rancher of these tests.
func people() map[string]rancherapi.User {
	return map[string]rancherapi.User{
		anasToken:     {ID: "u-ana", Adds: []string{"*"}},
		"token-kiosk": {ID: kiosksUser},
	}
}

// Workspaces are listed with all clusters, over several pages.
func TestRancherList(t *testing.T) {
	at := rancherapi.New(t, aRancher(), people())
	out, _, err := newClient(t, at, anasToken).fleet("workspace", "list", "--rancher")
	if err != nil {
		t.Fatal(err)
	}
	want := `WORKSPACE       CLUSTERS   BUNDLES   REPOS   CREATOR   AGE   MESSAGE
fleet-default   250        -         -       -         4d
fleet-local     1          -         -       -         4d
team-a          0          -         -       -         4d
`
	if out != want {
		t.Errorf("want\n%s\ngot\n%s", want, out)
	}
	pages := 0
	for _, r := range at.Seen() {
		if strings.HasPrefix(r, "GET /v3/clusters as u-ana") {
			pages++
		}
	}
	if pages != 2 {
		t.Errorf("want 251 clusters in two pages, got %d: %v", pages, at.Seen())
	}
}

// With -n the workspace of that name is listed alone.
func TestRancherListOne(t *testing.T) {
	c := newClient(t, rancherapi.New(t, aRancher(), people()), anasToken)
	if out, _, err := c.fleet("workspace", "list", "--rancher", "-n", "team-a", "-o", "name"); err != nil || out != "workspace/team-a\n" {
		t.Errorf("want team-a alone, got %q, %v", out, err)
	}
	const want = `no workspace "kitchen"; there are: fleet-default, fleet-local, team-a; to make it: fleet workspace create kitchen --rancher`
	if out, _, err := c.fleet("workspace", "list", "--rancher", "-n", "kitchen"); out != "" || err == nil || err.Error() != want {
		t.Errorf("want %q, got %q, %v", want, out, err)
	}
}

// Rancher records who has made a workspace: the token alone identifies the
// user.
func TestRancherCreate(t *testing.T) {
	b := aRancher()
	at := rancherapi.New(t, b, people())
	c := newClient(t, at, anasToken)
	out, notes, err := c.fleet("workspace", "create", "team-b", "--rancher")
	if err != nil || out != "workspace team-b is made, its owner is u-ana\n" {
		t.Fatalf("got %q, %q, %v", out, notes, err)
	}
	all, _ := b.All("fleetworkspaces")
	made := all[len(all)-1]
	if made.GetName() != "team-b" || made.GetAnnotations()["field.cattle.io/creatorId"] != "u-ana" {
		t.Errorf("not as it was asked for: %v", made.Object)
	}
	if _, _, err = c.fleet("workspace", "create", "team-b", "--rancher"); err == nil || err.Error() != "workspace team-b is there already" {
		t.Errorf("want that it is there, got %v", err)
	}
	if _, _, err = c.fleet("workspace", "create", "cattle-system", "--rancher"); cli.ExitCode(err, false) != 5 {
		t.Errorf("want a refusal, got %v", err)
	}
}

// A cluster is moved by what people call it, or by its id; nothing of it changes but
// the workspace.
func TestRancherMove(t *testing.T) {
	cases := map[string]struct {
		why   string
		token string
		args  []string
		out   string
		err   string
		code  int
	}{
		"ByName":  {why: "what people see in Rancher", args: []string{"store 7", "team-a"}, out: "cluster store 7 (c-00007) moves from workspace fleet-default to team-a\n"},
		"ByID":    {why: "what a Fleet Cluster is called", args: []string{"c-00007", "team-a"}, out: "cluster store 7 (c-00007) moves from workspace fleet-default to team-a\n"},
		"There":   {why: "twice is as once", args: []string{"c-00007", "fleet-default"}, out: "cluster store 7 (c-00007) is in workspace fleet-default already\n"},
		"Local":   {why: "the manager's own cluster stays", args: []string{"local", "team-a"}, err: "cannot be moved: it is the cluster that Rancher runs in", code: 5},
		"Twins":   {why: "names are not unique in Rancher", args: []string{"twin", "team-a"}, err: `several clusters "twin": c-00248, c-00249; name one of these`, code: 1},
		"Unknown": {why: "a wrong name", args: []string{"store 999", "team-a"}, err: `no cluster "store 999"`, code: 1},
		"Nowhere": {why: "no workspace comes to be by a slip", args: []string{"c-00007", "tema-a"}, err: `no workspace "tema-a"; did you mean "team-a"?`, code: 1},
		"NowhereNear": {why: "which workspaces there are", args: []string{"c-00007", "kitchen"},
			err: `no workspace "kitchen"; there are: fleet-default, fleet-local, team-a; to make it: fleet workspace create kitchen --rancher`, code: 1},
		"Elsewhere": {why: "-n says in which workspace it is meant", args: []string{"c-00007", "team-a", "-n", "fleet-local"},
			err: `no cluster "c-00007"`, code: 1},
		"Denied": {why: "Rancher checks what a user may do", token: "token-kiosk", args: []string{"c-00007", "team-a"},
			err: `does not let you do this: admission webhook "rancher.cattle.io.clusters.management.cattle.io" denied the request`, code: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := aRancher()
			if c.token == "" {
				c.token = anasToken
			}
			at := rancherapi.New(t, b, people())
			out, _, err := newClient(t, at, c.token).fleet(append([]string{"workspace", "move", "--rancher"}, c.args...)...)
			if out != c.out || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || cli.ExitCode(err, false) != c.code {
				t.Fatalf("%s\nwant %q, %q, %d\ngot  %q, %v", c.why, c.out, c.err, c.code, out, err)
			}
			all, _ := b.All("clusters")
			for _, o := range all {
				at, _, _ := unstructured.NestedString(o.Object, "spec", "fleetWorkspaceName")
				kept, _, _ := unstructured.NestedString(o.Object, "spec", "rkeConfig", "invented")
				moved := strings.Contains(c.out, "moves from") && o.GetName() == "c-00007"
				if o.GetName() != "local" && (moved != (at == "team-a") || kept != "yes") {
					t.Errorf("%s: not as it should be: %v", c.why, o.Object)
				}
			}
		})
	}
}

// The address of Rancher and the token can be given in several ways, and the error
// for a wrong one does not contain the token.
func TestRancherPlace(t *testing.T) {
	dir := t.TempDir()
	at := rancherapi.New(t, aRancher(), people())
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	for path, data := range map[string][]byte{ca: at.CA, token: []byte(anasToken + "\n"), filepath.Join(dir, "no.pem"): []byte("nothing")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request went to another server") }))
	defer elsewhere.Close()
	leading := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-API-Schemas", elsewhere.URL+"/v3/schemas")
	}))
	defer leading.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer redirecting.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()

	cases := map[string]struct {
		why  string
		args []string
		env  string
		err  string // empty: it works
	}{
		"Files":        {why: "everything by flags", args: []string{"--rancher=" + at.URL, "--rancher-ca-file", ca, "--rancher-token-file", token}},
		"Stdin":        {why: "a token that is never in a file", args: []string{"--rancher=" + at.URL + "/v3/", "--rancher-ca-file", ca, "--rancher-token-file", "-"}},
		"Environment":  {why: "as Rancher's other clients", args: []string{"--rancher=" + at.URL, "--rancher-ca-file", ca}, env: anasToken},
		"NoToken":      {why: "an address alone opens nothing", args: []string{"--rancher=" + at.URL, "--rancher-ca-file", ca}, err: "no token for Rancher"},
		"WrongToken":   {why: "it has ended", args: []string{"--rancher=" + at.URL, "--rancher-ca-file", ca}, env: "token-old:s3cr3t-canary", err: "does not accept the token: must authenticate"},
		"NoAuthority":  {why: "no known authority signed the certificate", args: []string{"--rancher=" + at.URL}, env: anasToken, err: "cannot reach Rancher at " + at.URL + ": tls: failed to verify certificate"},
		"BadAuthority": {why: "a file that is none", args: []string{"--rancher=" + at.URL, "--rancher-ca-file", filepath.Join(dir, "no.pem")}, env: anasToken, err: "no certificate in"},
		"InTheClear":   {why: "the token would be read on the way", args: []string{"--rancher=http://rancher.example.com"}, env: anasToken, err: "would send the token in the clear"},
		"NoRancher":    {why: "another server", args: []string{"--rancher=" + other.URL}, env: anasToken, err: "answers 404"},
		"LeadsAway":    {why: "links lead to where the token must not go", args: []string{"--rancher=" + leading.URL}, env: anasToken, err: "where the token was not meant to go"},
		"Redirects":    {why: "so do redirections", args: []string{"--rancher=" + redirecting.URL}, env: anasToken, err: "where the token was not meant to go"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cl := newClient(t, at, anasToken)
			t.Setenv(rancher.EnvRancherToken, c.env)
			out, notes, err := cl.fleet(append([]string{"workspace", "list", "--debug"}, c.args...)...)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%s: want %q, got %v", c.why, c.err, err)
			}
			if err == nil && !strings.Contains(out, "team-a") {
				t.Errorf("%s: got %q", c.why, out)
			}
			if reported := fmt.Sprint(out, notes, err); strings.Contains(reported, "canary") {
				t.Errorf("%s: the output contains the token: %s", c.why, reported)
			}
		})
	}
}

// An interrupted command ends, whatever Rancher does.
func TestRancherInterrupted(t *testing.T) {
	asked := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() }))
	defer silent.Close()
	t.Setenv(rancher.EnvRancherToken, anasToken)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	g := &client.Globals{Now: time.Now}
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	root.SetArgs([]string{"workspace", "list", "--rancher=" + silent.URL})
	if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("want that it was interrupted, got %v", err)
	}
}
