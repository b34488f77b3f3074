package main

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command lines and environments of rancher/fleet v0.13 to v0.16 (the reference). What has an
// effect here has it under the reference's name. What has none is accepted, and a line of the
// log says why.

const logText = "the log is JSON; --debug makes it longer"

// flagsWithoutEffect are the reference's flags that have no effect here, and why.
var flagsWithoutEffect = map[string]string{
	"zap-devel":            logText,
	"zap-encoder":          logText,
	"zap-log-level":        logText,
	"zap-stacktrace-level": logText,
	"zap-time-encoding":    logText,
}

// environmentWithoutEffect are the reference's variables that have no effect here, and why.
var environmentWithoutEffect = map[string]string{
	"DRIFT_RECONCILER_WORKERS":                "the workers of BUNDLEDEPLOYMENT_RECONCILER_WORKERS detect drift",
	"FLEET_AGENT_PPROF_DISABLED":              "profiles are served only with --profile-address",
	"CATTLE_WRANGLER_CHECK_GVK_ERROR_MAPPING": "ignore.conditions of a bundle says which conditions do not count",
	"CATTLE_DEV_MODE":                         "leases have the times of CATTLE_ELECTION_*, or their defaults",
}

// referenceFlags adds the flags that only the reference has. Help does not list them.
func referenceFlags(f *pflag.FlagSet, debugLevel *int) {
	own := pflag.NewFlagSet("reference", pflag.ContinueOnError)
	own.IntVar(debugLevel, "debug-level", 0, "1 or more is --debug")
	for name, why := range flagsWithoutEffect {
		own.String(name, "", "no effect: "+why)
	}
	own.Lookup("zap-devel").NoOptDefVal = "true"
	own.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	f.AddFlagSet(own)
}

// A notice says of one flag or variable why it has no effect.
type notice struct{ name, reason string }

// withoutEffect returns what a command line and an environment say that has no effect,
// sorted.
func withoutEffect(flags *pflag.FlagSet, env func(string) string) []notice {
	var out []notice
	for name, why := range flagsWithoutEffect {
		if flags.Changed(name) {
			out = append(out, notice{"--" + name, why})
		}
	}
	for name, why := range environmentWithoutEffect {
		if env(name) != "" {
			out = append(out, notice{name, why})
		}
	}
	slices.SortFunc(out, func(a, b notice) int { return cmp.Compare(a.name, b.name) })
	return out
}

// formerCommands are the commands of the reference's agent until v0.12, as a pod of its
// Deployment may still call them: register in a container that must end, clusterstatus in
// one that must not. The process without a command does the work of both.
func formerCommands(errOut io.Writer) []*cobra.Command {
	command := func(name string, run func(context.Context)) *cobra.Command {
		return &cobra.Command{
			Use: name, Hidden: true, Args: cobra.NoArgs, Short: "No effect: fleet-agent without a command does this",
			FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
			Run: func(cmd *cobra.Command, _ []string) {
				log := logrus.New()
				log.SetOutput(errOut)
				log.SetFormatter(&logrus.JSONFormatter{})
				log.WithField("reason", "fleet-agent without a command does this").Warn(name + " has no effect")
				run(cmd.Context())
			},
		}
	}
	return []*cobra.Command{
		command("register", func(context.Context) {}),
		command("clusterstatus", func(ctx context.Context) { <-ctx.Done() }),
	}
}
