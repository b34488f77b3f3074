package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// Commands that watch look at the same kinds as those that list.
func TestWatchWithoutManager(t *testing.T) {
	for _, args := range []string{"status -w", "wait repo/web --timeout 1m", "bundlediff -w", "explain web c1 -w", "events -w"} {
		f := newFake(t, "testdata/fleets/downstream.yaml")
		f.without("kinds")
		g := (&stage{fake: f}).globals(func() {})
		g.Watch = func(ctx context.Context, s *client.Session, of client.Selection) (client.FleetWatch, error) {
			return s.Watch(ctx, of)
		}
		var out, notes bytes.Buffer
		root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
		root.SetArgs(strings.Fields(args))
		if err := root.ExecuteContext(t.Context()); !errors.As(err, new(*client.NotManagementError)) || out.Len() > 0 {
			t.Errorf("%s: got %v, %q", args, err, out.String())
		}
	}
}

// webServer answers every request as a server does that is not Kubernetes'.
type webServer struct{ *fake }

func (w webServer) List(_ context.Context, q client.Query, _ client.Page) (*unstructured.UnstructuredList, error) {
	return nil, apierrors.NewGenericServerResponse(404, "list", q.Resource.GroupResource(), "", "404 page not found", 0, true)
}

// An address at which no Kubernetes is has another remedy than one without Fleet.
func TestNoKubernetes(t *testing.T) {
	g := (&stage{}).globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: webServer{newFake(t, "testdata/fleets/examples.yaml")}, Server: "https://x"}, nil
	}
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	root.SetArgs([]string{"status"})
	const want = "https://x does not answer as the API server of Kubernetes does: see the server of the kubeconfig, or choose another context (--context)"
	if err := root.ExecuteContext(t.Context()); err == nil || err.Error() != want {
		t.Errorf("want %s\ngot  %v", want, err)
	}
}

// forbidding is an API server that forbids all lists.
type forbidding struct{ *fake }

func (f forbidding) List(_ context.Context, q client.Query, _ client.Page) (*unstructured.UnstructuredList, error) {
	return nil, apierrors.NewForbidden(q.Resource.GroupResource(), "", errors.New("not for you"))
}

// A user without rights in a cluster without Fleet needs another context, not more rights.
func TestForbiddenWithoutKinds(t *testing.T) {
	for name, c := range map[string]struct {
		code int // of discovery
		want string
	}{
		"Lacking": {404, "no Fleet in this cluster (https://x)"},
		"Served":  {200, "this user may list clusters neither in all workspaces nor in"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"fleet.cattle.io/v1alpha1","resources":[]}`)
			}))
			defer server.Close()
			g := (&stage{}).globals(func() {})
			g.Dial = func(printer.Stdio) (client.Access, error) {
				return client.Access{API: forbidding{newFake(t, "testdata/fleets/examples.yaml")}, Server: "https://x", Rest: &rest.Config{Host: server.URL}}, nil
			}
			root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
			root.SetArgs([]string{"get", "clusters"})
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %s\ngot  %v", c.want, err)
			}
		})
	}
}

// A user who may not list FleetWorkspaces makes a namespace where there are none, as one
// who may does.
func TestWorkspaceCreateForbidden(t *testing.T) {
	for name, c := range map[string]struct {
		code int // of discovery of Rancher's kinds
		want string
	}{
		"Lacking": {404, "workspace ws9 is there: a namespace alone, since there are no FleetWorkspaces here\n"},
		"Served":  {200, "workspace ws9 is there, with its namespace\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(r.URL.Path, client.Records.Group) {
					w.WriteHeader(c.code)
				}
				_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"x/v1","resources":[]}`)
			}))
			defer server.Close()
			g := (&stage{}).globals(func() {})
			g.Now = time.Now
			g.Dial = func(printer.Stdio) (client.Access, error) {
				return client.Access{API: forbidding{newFake(t, "testdata/fleets/examples.yaml")}, Server: "https://x", Rest: &rest.Config{Host: server.URL}}, nil
			}
			var out bytes.Buffer
			root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &bytes.Buffer{}})
			root.SetArgs([]string{"workspace", "create", "ws9"})
			if err := root.ExecuteContext(t.Context()); err != nil || out.String() != c.want {
				t.Errorf("want %s\ngot  %s, %v", c.want, out.String(), err)
			}
		})
	}
}

// lacking is an API server that does not know one kind of Fleet.
type lacking struct {
	*fake
	resource string
}

func (l lacking) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	if q.Resource.Resource == l.resource {
		return nil, apierrors.NewGenericServerResponse(404, "list", q.Resource.GroupResource(), "", "404 page not found", 0, true)
	}
	return l.fake.List(ctx, q, p)
}

// A manager of another version may lack a kind: then its cluster is still the
// management cluster.
func TestOneKindLacks(t *testing.T) {
	g := (&stage{}).globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: lacking{newFake(t, "testdata/fleets/examples.yaml"), "clustergroups"}, Server: "https://x"}, nil
	}
	s, err := g.Connect(t.Context(), printer.Stdio{Err: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.API.List(t.Context(), client.Query{Resource: cli.MustKind("groups").Resource()}, client.Page{})
	if !client.UnknownResource(err) || errors.As(err, new(*client.NotManagementError)) {
		t.Errorf("got %v", err)
	}
	for resource, kind := range map[string]string{"clustergroups": "ClusterGroup", "clusters": "Cluster", "bundles": "Bundle", "gitrepos": "GitRepo"} {
		g.Dial = func(printer.Stdio) (client.Access, error) {
			return client.Access{API: lacking{newFake(t, "testdata/fleets/examples.yaml"), resource}, Server: "https://x"}, nil
		}
		root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		root.SetArgs([]string{"get", resource})
		want := "the CRD of " + kind + " (" + resource + ".fleet.cattle.io) is missing"
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "chart fleet-crd") {
			t.Errorf("%s: want %s, got %v", resource, want, err)
		}
	}
}

// The other contexts of the kubeconfig are those that the user has not chosen.
func TestOtherContexts(t *testing.T) {
	file := contextsFile(t, "a", "b", "c")
	for context, want := range map[string]string{"": "b c", "b": "a c"} {
		a, err := (&client.Globals{Kubeconfig: file, Context: context}).Open(printer.Stdio{Err: &bytes.Buffer{}})
		if got := strings.Join(a.Contexts, " "); err != nil || got != want {
			t.Errorf("--context %q: want %q, got %q, %v", context, want, got, err)
		}
	}
}

// A context that the kubeconfig does not have is an error that names those it has.
func TestUnknownContext(t *testing.T) {
	file := contextsFile(t, "management", "shop-eu", "shop-us")
	for context, want := range map[string]string{
		"managemnet": `no context "managemnet" in the kubeconfig; did you mean "management"? (there are: management, shop-eu, shop-us)`,
		"nope":       `no context "nope" in the kubeconfig; there are: management, shop-eu, shop-us`,
	} {
		_, err := (&client.Globals{Kubeconfig: file, Context: context}).Open(printer.Stdio{Err: &bytes.Buffer{}})
		if err == nil || err.Error() != want {
			t.Errorf("--context %q: want %q, got %v", context, want, err)
		}
	}
}

// contextsFile writes a kubeconfig with contexts of these names, of which the first
// is the current one.
func contextsFile(t *testing.T, contexts ...string) string {
	t.Helper()
	text := "apiVersion: v1\nkind: Config\ncurrent-context: " + contexts[0] +
		"\nclusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\ncontexts:\n"
	for _, name := range contexts {
		text += "- {name: " + name + ", context: {cluster: x, user: u}}\n"
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// bare is an API server with one FleetWorkspace, whose namespace is not made yet.
type bare struct{ *fake }

func (b bare) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	if q.Resource != client.Records {
		return b.fake.List(ctx, q, p)
	}
	record := unstructured.Unstructured{Object: map[string]any{}}
	record.SetName("new")
	return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{record}}, nil
}

// A workspace that exists is never refused with its own name as the nearest one.
func TestWorkspaceIsBeingMade(t *testing.T) {
	g := (&stage{}).globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: bare{newFake(t, "testdata/fleets/examples.yaml")}, Server: "https://x"}, nil
	}
	s, err := g.Connect(t.Context(), printer.Stdio{Err: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MissingWorkspace(t.Context(), "new"); err != nil {
		t.Errorf("got %v", err)
	}
	if err := s.MissingWorkspace(t.Context(), "neww"); err == nil || err.Error() != `no workspace "neww"; did you mean "new"?` {
		t.Errorf("got %v", err)
	}
}
