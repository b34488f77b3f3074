package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/apply"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/deletion"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// sessionAt is a session in a fleet of testdata that writes its notes to a text.
func sessionAt(t *testing.T, f *fake) (*client.Session, *strings.Builder) {
	t.Helper()
	notes := &strings.Builder{}
	s, err := (&stage{fake: f}).globals(func() {}).Connect(t.Context(), printer.Stdio{Out: notes, Err: notes}, true)
	if err != nil {
		t.Fatal(err)
	}
	s.System = fleet.NamespaceSystem
	return s, notes
}

// A deletion that is not done in time names the manager that does not run.
func TestUntilGoneWithoutManager(t *testing.T) {
	s, _ := sessionAt(t, newFake(t, "testdata/fleets/silent.yaml"))
	s.Scope = "fleet-default"
	o := deletion.Options{Kind: cli.MustKind("bundles"), Name: "examples-web"}
	u, err := s.API.Get(t.Context(), o.Kind.Resource(), s.Scope, o.Name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, client.ErrLeft)
	defer cancel()
	outcome, err := deletion.UntilGone(ctx, s, o, u.GetUID())
	if outcome != deletion.OutcomeTimeout || !errors.Is(err, cli.ErrNotReady) || !strings.Contains(err.Error(), "the manager does not run, last sign of life 3m ago") {
		t.Errorf("%s: %v", outcome, err)
	}
}

// A request without credentials is not helped by a right for everybody.
func TestMissingRightOfAnonymous(t *testing.T) {
	clusters := fleet.GroupVersion.WithResource("clusters").GroupResource()
	for user, want := range map[string]string{"system:anonymous": "sends no credentials", "ana": "RoleBinding"} {
		err := apierrors.NewForbidden(clusters, "", errors.New(`User "`+user+`" cannot list resource "clusters"`))
		err.ErrStatus.Message = `clusters.fleet.cattle.io is forbidden: User "` + user + `" cannot list resource "clusters"`
		if got := client.MissingRight(err); !strings.Contains(got, want) {
			t.Errorf("%s: %q", user, got)
		}
		root := command((&stage{}).globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
		if got := client.Failure(root, err, 1, true); got.Reason != "Forbidden" || strings.Contains(got.Hint, "--kubeconfig") != (user != "ana") {
			t.Errorf("%s: %+v", user, got)
		}
	}
}

// fleet apply prints a note about a bundle that matches no cluster.
func TestApplyNotesUntargeted(t *testing.T) {
	f := newFake(t, "testdata/fleets/examples.yaml")
	s, notes := sessionAt(t, f)
	web, lost := &fleet.Bundle{}, &fleet.Bundle{}
	web.Name, web.Spec.Targets = "web", []fleet.BundleTarget{{ClusterName: "c1"}}
	lost.Name, lost.Spec.Targets = "lost", []fleet.BundleTarget{{ClusterName: "c77"}}
	o := &apply.Options{}
	o.Bundle.Namespace = "fleet-default"
	set := bundle.Set{Results: []bundle.Result{{Bundle: web}, {}, {Bundle: lost}}}
	o.Untargeted(t.Context(), s, set)
	if got := notes.String(); !strings.HasPrefix(got, "note: bundle lost matches no cluster of fleet-default, which has ") || strings.Contains(got, "web") {
		t.Errorf("got %q", got)
	}
	notes.Reset()
	f.refuse["clusters fleet-default"], f.refuse["clusters"] = true, true
	if o.Untargeted(t.Context(), s, set); notes.Len() > 0 {
		t.Errorf("without the right: %q", notes)
	}
}

// fleet apply prints a note where NAME is also a directory and no PATH is given.
func TestApplyNotesDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "settings"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "settings", "cm.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     []string
		reported bool
	}{{[]string{"settings"}, true}, {[]string{"settings", "settings"}, false}, {[]string{"shop"}, false}} {
		_, notes, err := applyDir(t, dir, append([]string{"-o", "-", "--commit", "c1"}, c.args...)...)
		if err != nil || strings.Contains(notes, "note: settings is the NAME of the bundles and a directory here") != c.reported {
			t.Errorf("%q: %v\n%s", c.args, err, notes)
		}
	}
}
