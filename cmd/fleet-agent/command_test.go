package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestStatus(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 8, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	rows := []agent.Row{
		{Bundle: "examples-metrics", Commit: "8b7d4101234", Sight: deploy.Sight{State: fleet.Ready, Since: ago(16 * time.Minute)}},
		{Bundle: "examples-web", Commit: "8b7d4101234", Sight: deploy.Sight{State: fleet.Ready, Since: ago(5 * time.Minute), Corrected: true}, CorrectedAlone: ago(5 * time.Minute)},
		{Bundle: "old", Sight: deploy.Sight{State: fleet.NotReady, Since: ago(72 * time.Hour), Message: "deployment.apps old/x [progressing] Available: 0/1"}},
	}
	cases := map[string]agent.Overview{
		"reached": {Registered: true, Reached: true, Cluster: "fleet-default/c2", URL: "https://127.0.0.1:31001", Since: ago(2 * time.Hour), Rows: rows[:1]},
		"alone": {
			Registered: true, Cluster: "fleet-default/c2", URL: "https://127.0.0.1:31001", Since: ago(6 * time.Minute), Rows: rows,
			Error: `check in: patch cluster "fleet-default/c2": Patch "https://127.0.0.1:31001/apis": dial tcp 127.0.0.1:31001: connect: connection refused`,
		},
		"refused": {
			Registered: true, Refused: true, URL: "https://fleet.example", Since: ago(30 * time.Second), Rows: rows[:1],
			Error: "Unauthorized", Hint: "to join again: helm upgrade fleet-agent -n cattle-fleet-system with the values of a new registration token",
		},
		"unregistered": {},
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printStatus(&out, o, now); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "TestStatus", name+".golden"), out.String())
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string // piece of the error
	}{
		"Interval": {[]string{"--checkin-interval=1ms"}, "checkin-interval"},
		"Workers":  {[]string{"--workers=0"}, "workers"},
		"Unknown":  {[]string{"--nothing"}, "unknown flag"},
		"Config":   {[]string{"--kubeconfig=/does/not/exist"}, "connect to this cluster"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			cmd := command(func(string) string { return "" }, &out, &errOut)
			cmd.SetArgs(c.args)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	if got := identity(func(string) string { return "uid-1" }); got != "uid-1" {
		t.Errorf("want the pod's UID, got %q", got)
	}
	if identity(func(string) string { return "" }) == "" {
		t.Error("a holder needs a name")
	}
}
