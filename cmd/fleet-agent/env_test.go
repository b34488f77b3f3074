package main

import (
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestEnvironment: what the manager says by variables counts where the command
// line says nothing.
func TestEnvironment(t *testing.T) {
	type said struct {
		Namespace, Scope string
		Elect            bool
		Workers          int
		Duration         time.Duration
	}
	cases := map[string]struct {
		why  string
		env  map[string]string
		args []string
		want said
		bad  bool
	}{
		"Nothing": {why: "the defaults", want: said{Namespace: "cattle-fleet-system", Workers: 8}},
		"Variables": {
			why: "an agent whose command line is its chart's",
			env: map[string]string{
				"NAMESPACE": "edge", "AGENT_SCOPE": "s", "FLEET_AGENT_LEADER_ELECT": "true",
				"BUNDLEDEPLOYMENT_RECONCILER_WORKERS": "50", "CATTLE_ELECTION_LEASE_DURATION": "40s",
			},
			want: said{"edge", "s", true, 50, 40 * time.Second},
		},
		"CommandLineFirst": {
			why: "what a person has said stays", env: map[string]string{"NAMESPACE": "edge"}, args: []string{"--namespace=mine"},
			want: said{Namespace: "mine", Workers: 8},
		},
		"Broken": {why: "an agent that misunderstands does not start", env: map[string]string{"BUNDLEDEPLOYMENT_RECONCILER_WORKERS": "many"}, bad: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			root := command(func(key string) string { return c.env[key] }, io.Discard, io.Discard)
			var got said
			root.RunE = func(cmd *cobra.Command, _ []string) error {
				fs := cmd.Flags()
				got.Namespace, _ = fs.GetString("namespace")
				got.Scope, _ = fs.GetString("agent-scope")
				got.Elect, _ = fs.GetBool("leader-elect")
				got.Workers, _ = fs.GetInt("workers")
				got.Duration, _ = fs.GetDuration("lease-duration")
				return nil
			}
			root.SetArgs(c.args)
			err := root.Execute()
			if c.bad != (err != nil) {
				t.Fatalf("%s: %v", c.why, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" && !c.bad {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
