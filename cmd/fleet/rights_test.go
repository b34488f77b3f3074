package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// granting is an API server for a user who has a few rights: on deployments everywhere,
// on all else in fleet-default.
type granting struct {
	*fake
	rights map[string]bool // "list clusters"
}

func (g granting) may(verb string, r schema.GroupVersionResource, namespace string) error {
	if g.rights[verb+" "+r.Resource] && (namespace == "fleet-default" || r.Resource == "bundledeployments") {
		return nil
	}
	return apierrors.NewForbidden(r.GroupResource(), "", errors.New("this user may not "+verb))
}

func (g granting) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	if err := g.may("list", q.Resource, q.Namespace); err != nil {
		return nil, err
	}
	return g.fake.List(ctx, q, p)
}

func (g granting) Watch(ctx context.Context, q client.Query, version string) (watch.Interface, error) {
	if err := g.may("watch", q.Resource, q.Namespace); err != nil {
		return nil, err
	}
	return g.fake.Watch(ctx, q, version)
}

func (g granting) Get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	if err := g.may("get", r, namespace); err != nil {
		return nil, err
	}
	return g.fake.Get(ctx, r, namespace, name)
}

func (g granting) Patch(ctx context.Context, r schema.GroupVersionResource, namespace, name string, merge []byte) (*unstructured.Unstructured, error) {
	if err := g.may("patch", r, namespace); err != nil {
		return nil, err
	}
	return g.fake.Patch(ctx, r, namespace, name, merge)
}

func (g granting) Delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error {
	if err := g.may("delete", r, namespace); err != nil {
		return err
	}
	return g.fake.Delete(ctx, r, namespace, name)
}

// A canceler ends a command that has printed something.
type canceler context.CancelFunc

func (c canceler) Write(p []byte) (int, error) {
	c()
	return len(p), nil
}

// forbidden reports whether a command line is refused to a user with these rights alone.
func forbidden(t *testing.T, line string, rights map[string]bool) bool {
	t.Helper()
	path := "testdata/fleets/examples.yaml"
	if strings.Contains(line, "helmop/") {
		path = "testdata/fleets/helmops.yaml"
	}
	f := newFake(t, path)
	return apierrors.IsForbidden(runLine(t, line, f, granting{f, rights}))
}

// runLine runs a command line in fleet-default for a user of an API server. What goes on ends
// with what it prints first.
func runLine(t *testing.T, line string, f *fake, api client.API) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := io.Discard
	if strings.Contains(line, "--watch") {
		out = canceler(cancel)
	}
	g := (&stage{fake: f}).globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: api, Server: "https://x"}, nil
	}
	g.Watch = func(ctx context.Context, s *client.Session, of client.Selection) (client.FleetWatch, error) {
		return s.Watch(ctx, of)
	}
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: out, Err: io.Discard})
	root.SetArgs(append(strings.Fields(line), "-n", "fleet-default"))
	return root.ExecuteContext(ctx)
}

// A status is watched without HelmOps where the cluster lacks the kind; a wait for one is
// not.
func TestWatchWithoutHelmOps(t *testing.T) {
	run := func(line string) error {
		f := newFake(t, "testdata/fleets/helmops.yaml") // watches of the line before may still read theirs
		f.without("helmops")
		return runLine(t, line, f, f)
	}
	if err := run("status --watch"); err != nil {
		t.Errorf("status --watch: %v", err)
	}
	if err := run("wait helmop/redis --timeout 1ms"); !client.UnknownResource(err) {
		t.Errorf("wait helmop/redis: %v", err)
	}
}

// The rights on Fleet's kinds that docs/rights.md names for a command are enough, and
// without one of those to read the command is refused.
func TestRightsOfCommands(t *testing.T) {
	page, err := os.ReadFile("../../docs/rights.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "| command | rights on Fleet's kinds |\n|---|---|\n")
	table, _, _ := strings.Cut(after, "\n\n")
	rows := map[string]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(row, "|\n "), " | ")
		if len(cells) != 2 {
			t.Fatalf("row %q", row)
		}
		rows[strings.Trim(cells[0], "`")] = cells[1]
	}
	for name, line := range map[string]string{
		"fleet status":                    "status",
		"fleet status --watch":            "status --watch",
		"fleet wait":                      "wait repo/examples --timeout 1ms",
		"fleet wait helmop/NAME":          "wait helmop/redis --timeout 1ms",
		"fleet get repos":                 "get repos",
		"fleet get deployments":           "get deployments",
		"fleet approve":                   "approve",
		"fleet approve repo/NAME HASH":    "approve repo/examples 0000",
		"fleet approve helmop/NAME HASH":  "approve helmop/redis 0000",
		"fleet suspend repo/NAME":         "suspend repo/examples",
		"fleet suspend helmop/NAME":       "suspend helmop/redis",
		"fleet delete repo/NAME":          "delete repo/examples --yes --wait=false",
		"fleet delete helmop/NAME":        "delete helmop/redis --yes --wait=false",
		"fleet delete helmop/NAME --keep": "delete helmop/redis --keep --yes --wait=false --timeout 1ms",
		"fleet delete bundle/NAME":        "delete bundle/examples-web --yes --wait=false",
		"fleet delete repo/NAME --keep":   "delete repo/examples --keep --yes --wait=false --timeout 1ms",
	} {
		t.Run(name, func(t *testing.T) {
			rights := map[string]bool{}
			for part := range strings.SplitSeq(rows[name], "; ") {
				verbs, resources, _ := strings.Cut(part, ": ")
				for verb := range strings.SplitSeq(verbs, ", ") {
					for resource := range strings.SplitSeq(resources, ", ") {
						rights[verb+" "+resource] = true
					}
				}
			}
			if forbidden(t, line, rights) {
				t.Errorf("fleet %s is refused with %q", line, rows[name])
			}
			for right := range rights {
				if !strings.HasPrefix(right, "get ") && !strings.HasPrefix(right, "list ") {
					continue
				}
				fewer := maps.Clone(rights) // what a command watches may go on for a moment after it
				delete(fewer, right)
				if !forbidden(t, line, fewer) {
					t.Errorf("fleet %s does without %q", line, right)
				}
			}
		})
	}
}
