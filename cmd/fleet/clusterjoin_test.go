package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A cluster whose agent is in as another Cluster is refused, also where that has a
// clientID of its own; nothing is made then.
func TestClusterJoinUnderAnotherName(t *testing.T) {
	const inAsC1 = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fleet-agent, namespace: cattle-fleet-system}\n" +
		"data: {config: '{\"clientID\": \"6c9d0a4e-0000-0000-0000-000000000001\"}'}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: fleet-agent, namespace: cattle-fleet-system}\ndata: {clusterName: YzE=, clusterNamespace: ZmxlZXQtZGVmYXVsdA==}\n---\n"
	const refusal = "refused: that cluster is fleet-default/c1 already (clientID 6c9d0a4e-0000-0000-0000-000000000001); " +
		"to let it in as c5, first: fleet cluster forget -n fleet-default c1"
	installed := errors.New("the agent is installed")
	cases := map[string]struct {
		why, args string
		there     string // objects of the new cluster
		want      string
	}{
		"Workspace":      {args: "-n fleet-default c5", there: inAsC1, want: refusal},
		"OtherWorkspace": {why: "its Secret names it", args: "-n fleet-local c5", there: inAsC1, want: refusal},
		"SameName":       {why: "its agent comes back", args: "-n fleet-default c1", there: inAsC1, want: installed.Error()},
		"New":            {args: "-n fleet-default c5", want: installed.Error()},
		"OfAnotherManager": {
			why: "no Cluster here has its clientID", args: "-n fleet-default c5", there: strings.ReplaceAll(inAsC1, `000001"`, `000009"`), want: installed.Error(),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			notes, err := joinCluster(t, c.there, installed, "--to-context there "+c.args)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: want %q, got %v\n%s", c.why, c.want, err, notes)
			}
			if refused := c.want == refusal; errors.Is(err, cli.ErrRefused) != refused || refused && strings.Contains(notes, "made") {
				t.Errorf("want it refused before anything is made, got %v\n%s", err, notes)
			}
		})
	}
}

// joinCluster runs fleet cluster join for a new cluster that holds objects, and on which
// the agent is installed with an outcome.
func joinCluster(t *testing.T, objects string, outcome error, args string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "there.yaml")
	text := "now: 2026-08-24T14:10:44Z\n---\n" + objects + "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	there := newFake(t, file)
	st := stage{fake: newFake(t, "testdata/fleets/gate.yaml")}
	other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": fleet.GroupVersion.String(), "kind": "Cluster"}}
	other.SetNamespace(fleet.NamespaceLocal)
	other.SetName("local")
	st.fake.take(step{objects: []*unstructured.Unstructured{other}})
	g := st.globals(func() {})
	var out, notes bytes.Buffer
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
	g.Other = func(string, string) (client.Access, error) {
		return client.Access{API: there, Server: "https://there.example.com"}, nil
	}
	g.Bring = func(context.Context, client.Access, []*unstructured.Unstructured) error { return outcome }
	root.SetArgs(append([]string{"cluster", "join", "--server-url", "https://fleet.example.com:6443"}, strings.Fields(args)...))
	err := root.ExecuteContext(t.Context())
	return notes.String(), err
}

// Where the agent does not come in time, the command that reads its log reaches the
// cluster as the user has named it.
func TestClusterJoinTimeout(t *testing.T) {
	for args, want := range map[string]string{
		"--to-context there":                             "kubectl --context there -n ",
		"--to-kubeconfig my.kc":                          "kubectl --kubeconfig my.kc -n ",
		"--to-kubeconfig my.kc --to-context there@admin": "kubectl --kubeconfig my.kc --context there@admin -n ",
		"--kubeconfig all.kc --to-context there":         "kubectl --kubeconfig all.kc --context there -n ",
	} {
		_, err := joinCluster(t, "", nil, args+" -n fleet-default c5 --timeout 0s")
		if !errors.Is(err, cli.ErrNotReady) || !strings.Contains(err.Error(), "what it says: "+want+"cattle-fleet-system logs deployment/fleet-agent;") {
			t.Errorf("%s: want %q, got %v", args, want, err)
		}
	}
}
