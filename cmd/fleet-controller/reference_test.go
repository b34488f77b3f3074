package main

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// parsed is what a command line and an environment become, without a process.
func parsed(t *testing.T, line string, env map[string]string) (*options, []notice, error) {
	t.Helper()
	getenv := func(name string) string { return env[name] }
	var o *options
	var notices []notice
	cmd := newCommandFor(getenv, func(cmd *cobra.Command, got *options) error {
		o, notices = got, withoutEffect(cmd.Flags(), getenv)
		return nil
	})
	cmd.SetArgs(strings.Fields(line))
	cmd.SetOut(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return o, notices, err
}

// Each command line of the reference's charts, and each of its flags, is accepted.
func TestCommandLinesOfTheReference(t *testing.T) {
	cases := map[string]struct {
		line string
		want func(*options) bool
		says string // flags without effect
	}{
		"Controller":      {"--debug --debug-level 3 --disable-metrics --shard-id blue", func(o *options) bool { return o.debug && o.scope.Shard == "blue" && o.metricsAddress == "" }, ""},
		"DebugLevel":      {"--debug-level 1", func(o *options) bool { return o.debug }, ""},
		"NoDebugLevel":    {"--debug-level 0", func(o *options) bool { return !o.debug }, ""},
		"Cleanup":         {"cleanup --kubeconfig k --namespace ns", func(o *options) bool { return o.kubeconfig == "k" && o.namespace == "ns" }, ""},
		"CleanupRole":     {"cleanup", hasRoles(roleCleanup), ""},
		"AgentManagement": {"agentmanagement --disable-bootstrap", hasRoles(roleAgentManagement), ""},
		"NoBootstrap":     {"agentmanagement --disable-bootstrap", func(o *options) bool { return o.noBootstrap }, ""},
		"GitJob": {
			`gitjob --gitjob-image rancher/fleet:v0.16.0 --shard-node-selector {"a":"b"} --listen :9090 --metrics-bind-address :9091 --leader-elect=false`,
			func(o *options) bool {
				return o.webhookAddress == ":9090" && o.metricsAddress == ":9091" && !o.leaderElect
			},
			"--gitjob-image --shard-node-selector",
		},
		"GitJobRole": {"gitjob", hasRoles(roleGitJob), ""},
		"HostKeys":   {"gitjob --insecure-skip-host-key-checks", func(o *options) bool { return o.gitJob.AcceptUnknownHosts }, ""},
		"HelmOps":    {"helmops --metrics-bind-address :8081 --shard-id blue", hasRoles(roleHelmOps), ""},
		"Zap": {
			"--zap-devel --zap-encoder json --zap-log-level debug --zap-stacktrace-level error --zap-time-encoding iso8601",
			func(*options) bool { return true }, "--zap-devel --zap-encoder --zap-log-level --zap-stacktrace-level --zap-time-encoding",
		},
	}
	for name, c := range cases {
		o, notices, err := parsed(t, c.line, map[string]string{"FLEET_METRICS_BIND_ADDRESS": ":8080"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var says []string
		for _, n := range notices {
			says = append(says, n.name)
		}
		if !c.want(o) || strings.Join(says, " ") != c.says {
			t.Errorf("%s: got %+v and %q", name, o, says)
		}
	}
}

func hasRoles(want ...string) func(*options) bool {
	return func(o *options) bool { return slices.Equal(o.roles, want) }
}

func TestRoleAsCommand(t *testing.T) {
	for line, want := range map[string]string{
		"gitjobs":                   `unknown command "gitjobs"`,
		"gitjob --roles=controller": "names a role, too",
		"cleanup --shard-id blue":   "--roles: cleanup is work for the manager of all objects",
	} {
		if _, _, err := parsed(t, line, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

// Each variable of the reference's manager acts, or a line of the log says why it does not.
func TestEnvironmentOfTheReference(t *testing.T) {
	acts := map[string]struct {
		value string
		want  func(*options) bool
	}{
		"NAMESPACE":                             {"ns", func(o *options) bool { return o.namespace == "ns" }},
		"BUNDLE_RECONCILER_WORKERS":             {"50", func(o *options) bool { return o.workers == 50 }},
		"GITREPO_RECONCILER_WORKERS":            {"50", func(o *options) bool { return o.gitJob.Workers == 50 }},
		"HELMOPS_RECONCILER_WORKERS":            {"50", func(o *options) bool { return o.helmOpWorkers == 50 }},
		"IMAGESCAN_RECONCILER_WORKERS":          {"50", func(o *options) bool { return o.gitJob.ImageScanWorkers == 50 }},
		"FLEET_METRICS_BIND_ADDRESS":            {":1", func(o *options) bool { return o.metricsAddress == ":1" }},
		"FLEET_HEALTHPROBE_BIND_ADDRESS":        {":1", func(o *options) bool { return o.healthAddress == ":1" }},
		"IMAGESCAN_ENABLED":                     {"true", func(o *options) bool { return o.imageScans }},
		"OCI_STORAGE":                           {"false", func(o *options) bool { return o.gitJob.NoOCIStorage }},
		"FLEET_REGISTRATION_TOKEN_TTL_REQUIRED": {"true", func(o *options) bool { return o.tokenTTLRequired }},
		"EXPERIMENTAL_SCHEDULES":                {"true", func(o *options) bool { return o.schedules }},
	}
	for name, c := range acts {
		o, notices, err := parsed(t, "", map[string]string{name: c.value})
		if err != nil || !c.want(o) || len(notices) > 0 {
			t.Errorf("%s: got %+v, %v, %v", name, o, notices, err)
		}
	}
	election := map[string]string{"CATTLE_ELECTION_LEASE_DURATION": "40s", "CATTLE_ELECTION_RENEW_DEADLINE": "26s", "CATTLE_ELECTION_RETRY_PERIOD": "11s"}
	if o, _, err := parsed(t, "", election); err != nil || o.lease != (lease{40 * time.Second, 26 * time.Second, 11 * time.Second}) {
		t.Errorf("times of leases: got %+v, %v", o, err)
	}
	for name := range environmentWithoutEffect {
		if _, notices, err := parsed(t, "", map[string]string{name: "1"}); err != nil || len(notices) != 1 || notices[0].name != name {
			t.Errorf("%s: got %v, %v", name, notices, err)
		}
	}
	all := slices.Sorted(maps.Keys(environmentWithoutEffect))
	for name := range maps.Keys(acts) {
		all = append(all, name)
	}
	all = append(all, slices.Sorted(maps.Keys(election))...)
	for _, name := range environmentOfReference {
		if !slices.Contains(all, name) {
			t.Errorf("this test does not know %s", name)
		}
	}
}

// environmentOfReference are the variables of the reference's chart fleet and of its
// manager, without those of proxies, which Go's net/http reads.
var environmentOfReference = []string{
	"NAMESPACE", "CATTLE_ELECTION_LEASE_DURATION", "CATTLE_ELECTION_RENEW_DEADLINE", "CATTLE_ELECTION_RETRY_PERIOD",
	"BUNDLE_RECONCILER_WORKERS", "BUNDLEDEPLOYMENT_RECONCILER_WORKERS", "CLUSTER_RECONCILER_WORKERS", "CLUSTERGROUP_RECONCILER_WORKERS",
	"IMAGESCAN_RECONCILER_WORKERS", "SCHEDULE_RECONCILER_WORKERS", "CONTENT_RECONCILER_WORKERS", "GITREPO_RECONCILER_WORKERS", "HELMOPS_RECONCILER_WORKERS",
	"FLEET_METRICS_BIND_ADDRESS", "FLEET_HEALTHPROBE_BIND_ADDRESS", "IMAGESCAN_ENABLED", "OCI_STORAGE", "FLEET_CLUSTER_ENQUEUE_DELAY",
	"FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS", "FLEET_DEBUG_DISABLE_SECURITY_CONTEXT", "FLEET_AGENT_REPLICA_COUNT",
	"FLEET_AGENT_ELECTION_LEASE_DURATION", "FLEET_AGENT_ELECTION_RENEW_DEADLINE", "FLEET_AGENT_ELECTION_RETRY_PERIOD",
	"FLEET_REGISTRATION_TOKEN_TTL_REQUIRED", "CATTLE_DEV_MODE", "EXPERIMENTAL_SCHEDULES", "PROXY_CA_BUNDLE", "GIT_CLIENT_TIMEOUT",
}

// A number of the command line has precedence over one of the environment.
func TestBundleWorkers(t *testing.T) {
	for _, c := range []struct {
		line, env string
		want      int
	}{{"", "", defaultBundleWorkers}, {"", "50", 50}, {"--bundle-workers=3", "50", 3}} {
		o, _, err := parsed(t, c.line, map[string]string{"BUNDLE_RECONCILER_WORKERS": c.env})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, o.workers); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
	if _, _, err := parsed(t, "", map[string]string{"BUNDLE_RECONCILER_WORKERS": "0"}); err == nil {
		t.Error("no workers are accepted")
	}
}
