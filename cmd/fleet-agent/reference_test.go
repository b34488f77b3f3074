package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// said is what a flag of the agent has after a command line and an environment.
func said(t *testing.T, flag, line string, env map[string]string) (string, []notice, error) {
	t.Helper()
	getenv := func(key string) string { return env[key] }
	root := command(getenv, io.Discard, io.Discard)
	var value string
	var notices []notice
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		value, notices = cmd.Flags().Lookup(flag).Value.String(), withoutEffect(cmd.Flags(), getenv)
		return nil
	}
	root.SetArgs(strings.Fields(line))
	err := root.Execute()
	return value, notices, err
}

// Each flag of the reference's agent acts, or a line of the log says why it does not.
func TestCommandLinesOfTheReference(t *testing.T) {
	for name, c := range map[string]struct{ line, flag, want, says string }{
		"Namespace":    {"--namespace cattle-fleet-system --agent-scope s", "namespace", "cattle-fleet-system", ""},
		"Scope":        {"--namespace cattle-fleet-system --agent-scope s", "agent-scope", "s", ""},
		"Interval":     {"--checkin-interval 15m", "checkin-interval", "15m", ""},
		"LeaderElect":  {"--leader-elect", "leader-elect", "true", ""},
		"Debug":        {"--debug --debug-level 2", "debug", "true", ""},
		"Kubeconfig":   {"--kubeconfig /k", "kubeconfig", "/k", ""},
		"ZapDevel":     {"--zap-devel", "debug", "false", "--zap-devel"},
		"ZapEncoder":   {"--zap-encoder json --zap-log-level 1", "debug", "false", "--zap-encoder --zap-log-level"},
		"ZapStackTime": {"--zap-stacktrace-level error --zap-time-encoding rfc3339", "debug", "false", "--zap-stacktrace-level --zap-time-encoding"},
	} {
		got, notices, err := said(t, c.flag, c.line, nil)
		var names []string
		for _, n := range notices {
			names = append(names, n.name)
		}
		if err != nil || got != c.want || strings.Join(names, " ") != c.says {
			t.Errorf("%s: got %q, %q, %v", name, got, names, err)
		}
	}
}

// Each variable of the reference's agent acts, or a line of the log says why it does not.
func TestEnvironmentOfTheReference(t *testing.T) {
	acts := map[string]struct{ value, flag, want string }{
		"NAMESPACE": {"ns", "namespace", "ns"}, "AGENT_SCOPE": {"s", "agent-scope", "s"}, "CHECKIN_INTERVAL": {"15m", "checkin-interval", "15m"},
		"BUNDLEDEPLOYMENT_RECONCILER_WORKERS": {"50", "workers", "50"},
		"CATTLE_ELECTION_LEASE_DURATION":      {"40s", "lease-duration", "40s"}, "CATTLE_ELECTION_RENEW_DEADLINE": {"26s", "lease-renew-deadline", "26s"},
		"CATTLE_ELECTION_RETRY_PERIOD":     {"11s", "lease-retry-period", "11s"},
		"FLEET_AGENT_METRICS_BIND_ADDRESS": {":1", "metrics-address", ":1"}, "FLEET_AGENT_PROBE_BIND_ADDRESS": {":2", "health-address", ":2"},
	}
	for name, c := range acts {
		if got, notices, err := said(t, c.flag, "", map[string]string{name: c.value}); err != nil || got != c.want || len(notices) > 0 {
			t.Errorf("%s: got %q, %v, %v", name, got, notices, err)
		}
	}
	for _, name := range []string{"DRIFT_RECONCILER_WORKERS", "FLEET_AGENT_PPROF_DISABLED", "CATTLE_WRANGLER_CHECK_GVK_ERROR_MAPPING", "CATTLE_DEV_MODE"} {
		if _, notices, err := said(t, "debug", "", map[string]string{name: "1"}); err != nil || len(notices) != 1 || notices[0].name != name || notices[0].reason == "" {
			t.Errorf("%s: got %v, %v", name, notices, err)
		}
	}
	if got := identity(func(key string) string {
		return map[string]string{"POD_UID": "uid", "HOSTNAME": "h", "POD_NAME": "p"}[key]
	}); got != "uid" {
		t.Errorf("holder of the lease: got %q", got) // POD_NAME and HOSTNAME are not unique over time
	}
}

// A container that called register ends at once; one that called clusterstatus runs until
// it is stopped, so that its pod does not start it again and again.
func TestFormerCommands(t *testing.T) {
	for _, line := range []string{"register --debug --debug-level 1", "clusterstatus --checkin-interval 15m"} {
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		root := command(func(string) string { return "" }, io.Discard, &log)
		root.SetArgs(strings.Fields(line))
		if strings.HasPrefix(line, "clusterstatus") {
			stop()
		}
		if err := root.ExecuteContext(ctx); err != nil || !strings.Contains(log.String(), "has no effect") {
			t.Errorf("%s: %v, %s", line, err, log.String())
		}
		stop()
	}
}

// Help lists no flag that only the reference has.
func TestReferenceFlagsAreHidden(t *testing.T) {
	root := command(func(string) string { return "" }, io.Discard, io.Discard)
	var shown []string
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if _, of := flagsWithoutEffect[f.Name]; (of || f.Name == "debug-level") && !f.Hidden {
			shown = append(shown, f.Name)
		}
	})
	if slices.Sort(shown); len(shown) > 0 {
		t.Errorf("help lists %v", shown)
	}
}
