package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command lines and environments of rancher/fleet v0.13 to v0.16 (the reference). What has an
// effect here has it under the reference's name. What has none is accepted, and a line of the
// log says why.

// referenceRoles are the subcommands of the reference's manager, which are roles here.
var referenceRoles = []string{roleGitJob, roleHelmOps, roleCleanup, roleAgentManagement}

// referenceFlags are the flags that only the reference has.
type referenceFlags struct {
	debugLevel       int
	disableMetrics   bool
	disableBootstrap bool
	acceptHosts      bool
}

// flagsWithoutEffect are the reference's flags that have no effect here, and why.
var flagsWithoutEffect = map[string]string{
	"gitjob-image":         "there are no Jobs that read repositories",
	"shard-node-selector":  "there are no Jobs that read repositories",
	"zap-devel":            logText,
	"zap-encoder":          logText,
	"zap-log-level":        logText,
	"zap-stacktrace-level": logText,
	"zap-time-encoding":    logText,
}

const (
	logText      = "the log is JSON; --debug makes it longer"
	workersText  = "there are no such workers; BUNDLE_RECONCILER_WORKERS and GITREPO_RECONCILER_WORKERS set those that there are"
	settingsText = "the ConfigMap fleet-controller says this"
)

// environmentWithoutEffect are the reference's variables that have no effect here, and why.
var environmentWithoutEffect = map[string]string{
	"BUNDLEDEPLOYMENT_RECONCILER_WORKERS":      workersText,
	"CLUSTER_RECONCILER_WORKERS":               workersText,
	"CLUSTERGROUP_RECONCILER_WORKERS":          workersText,
	"SCHEDULE_RECONCILER_WORKERS":              workersText,
	"CONTENT_RECONCILER_WORKERS":               workersText,
	"EXPERIMENTAL_HELM_OPS":                    "the role helmops works on HelmOps",
	"EXPERIMENTAL_OCI_STORAGE":                 "GitRepos name their registries; OCI_STORAGE=false switches these off",
	"FLEET_CLUSTER_ENQUEUE_DELAY":              "changes are counted at once",
	"FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS": settingsText,
	"FLEET_DEBUG_DISABLE_SECURITY_CONTEXT":     settingsText,
	"FLEET_AGENT_REPLICA_COUNT":                settingsText,
	"FLEET_AGENT_ELECTION_LEASE_DURATION":      settingsText,
	"FLEET_AGENT_ELECTION_RENEW_DEADLINE":      settingsText,
	"FLEET_AGENT_ELECTION_RETRY_PERIOD":        settingsText,
	"GIT_CLIENT_TIMEOUT":                       "FLEET_GIT_CLIENT_TIMEOUT says this",
	"CATTLE_DEV_MODE":                          "leases have the times of CATTLE_ELECTION_*, or their defaults",
	"PROXY_CA_BUNDLE":                          "only gitcloner reads this; SSL_CERT_DIR adds authorities to all connections",
}

// add adds the reference's flags. Help does not list them.
func (r *referenceFlags) add(f *pflag.FlagSet, o *options) {
	own := pflag.NewFlagSet("reference", pflag.ContinueOnError)
	own.IntVar(&r.debugLevel, "debug-level", 0, "1 or more is --debug")
	own.BoolVar(&r.disableMetrics, "disable-metrics", false, "serve no metrics")
	own.BoolVar(&r.disableBootstrap, "disable-bootstrap", false, "do not make this cluster a cluster of the fleet")
	own.BoolVar(&r.acceptHosts, "insecure-skip-host-key-checks", false, "accept SSH hosts whose key is not known")
	own.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, "is --metrics-address")
	own.StringVar(&o.webhookAddress, "listen", o.webhookAddress, "is --webhook-address")
	for name, why := range flagsWithoutEffect {
		own.String(name, "", "no effect: "+why)
	}
	own.Lookup("zap-devel").NoOptDefVal = "true"
	own.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	f.AddFlagSet(own)
}

// apply puts what the flags say into the options, after the environment was read.
func (r *referenceFlags) apply(o *options) {
	o.debug = o.debug || r.debugLevel > 0
	o.gitJob.AcceptUnknownHosts = o.gitJob.AcceptUnknownHosts || r.acceptHosts
	o.noBootstrap = r.disableBootstrap
	if r.disableMetrics {
		o.metricsAddress = ""
	}
}

// takeRole reads a subcommand of the reference as the role of the process.
func (o *options) takeRole(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	role := args[0]
	if !slices.Contains(referenceRoles, role) {
		return fmt.Errorf("unknown command %q for %q; a role is one of %s", role, cmd.CommandPath(), strings.Join(referenceRoles, ", "))
	}
	if cmd.Flags().Changed("roles") {
		return errors.New("--roles: the command " + role + " names a role, too")
	}
	o.roles = []string{role}
	return nil
}

// A notice says of one flag or variable why it has no effect.
type notice struct{ name, reason string }

// withoutEffect returns what a command line and an environment say that has no effect,
// sorted.
func withoutEffect(flags *pflag.FlagSet, getenv func(string) string) []notice {
	var out []notice
	for name, why := range flagsWithoutEffect {
		if flags.Changed(name) {
			out = append(out, notice{"--" + name, why})
		}
	}
	for name, why := range environmentWithoutEffect {
		if getenv(name) != "" {
			out = append(out, notice{name, why})
		}
	}
	slices.SortFunc(out, func(a, b notice) int { return cmp.Compare(a.name, b.name) })
	return out
}
