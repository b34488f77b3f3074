package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// options are what the command line says.
type options struct {
	agent.Config
	kubeconfig     string
	debug          bool
	metricsAddress string
	healthAddress  string
	profileAddress string
	touch          connectionFlags
	notices        []notice // what the command line and the environment say without effect
}

// command is the whole command line. env reads the environment: POD_UID is the
// holder of the lease.
func command(env func(string) string, out, errOut io.Writer) *cobra.Command {
	o, debugLevel := &options{Config: agent.Default()}, 0
	o.Version, o.Proxy = version.Version, http.ProxyFromEnvironment
	root := &cobra.Command{
		Use:           "fleet-agent",
		Short:         "Deploys to this cluster what its Fleet manager wants",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd, env)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Identity, o.debug = identity(env), o.debug || debugLevel > 0
			o.notices = withoutEffect(cmd.Flags(), env)
			return run(cmd.Context(), *o, errOut)
		},
	}
	root.SetOut(out)
	root.SetErr(errOut)
	shared := root.PersistentFlags()
	shared.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of this cluster; default: the pod's own")
	shared.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "`namespace` that the agent lives in")
	shared.StringVar(&o.Scope, "agent-scope", "", "`word` that tells the objects of several agents of one cluster apart")
	own := root.Flags()
	own.Var(interval{&o.CheckinInterval}, "checkin-interval", "`time` between two signs of life to the manager, 1s to 1h; auto: as the manager says")
	o.touch.flags(own)
	own.StringVar(&o.OrphanPolicy, "orphan-policy", o.OrphanPolicy,
		"what becomes of releases that the manager does not have any more, without having ordered to remove them: `keep` or collect")
	own.DurationVar(&o.OrphanGracePeriod, "orphan-grace-period", o.OrphanGracePeriod, "for how `long` they must have been missing to be collected")
	own.IntVar(&o.Workers, "workers", o.Workers, "how many deployments are worked on at once")
	own.BoolVar(&o.LeaderElect, "leader-elect", false, "work only while holding the lease fleet-agent")
	own.DurationVar(&o.Lease.Duration, "lease-duration", o.Lease.Duration, "how `long` the lease holds that nobody renews; 0 is 30s")
	own.DurationVar(&o.Lease.Renew, "lease-renew-deadline", o.Lease.Renew, "for how `long` its holder tries to renew it; 0 is 25s")
	own.DurationVar(&o.Lease.Retry, "lease-retry-period", o.Lease.Retry, "how `often` it is asked for and renewed; 0 is 10s")
	own.StringVar(&o.metricsAddress, "metrics-address", env("FLEET_AGENT_METRICS_BIND_ADDRESS"),
		"serve Prometheus metrics at /metrics of this `address`; default: FLEET_AGENT_METRICS_BIND_ADDRESS, else not at all")
	own.StringVar(&o.healthAddress, "health-address", env("FLEET_AGENT_PROBE_BIND_ADDRESS"),
		"serve /healthz and /readyz at this `address`; default: FLEET_AGENT_PROBE_BIND_ADDRESS, else not at all")
	own.StringVar(&o.profileAddress, "profile-address", "", "serve profiles of memory and processor at /debug/pprof of this `address`; default: not at all")
	own.BoolVar(&o.debug, "debug", false, "log debug messages")
	referenceFlags(own, &debugLevel)
	root.AddCommand(statusCommand(o), versionCommand())
	root.AddCommand(formerCommands(errOut)...)
	return root
}

// identity returns what distinguishes holders of the lease: the pod, else the machine.
func identity(env func(string) string) string {
	if uid := env("POD_UID"); uid != "" {
		return uid
	}
	name, err := os.Hostname()
	if err != nil {
		return "fleet-agent"
	}
	return name
}

func run(ctx context.Context, o options, errOut io.Writer) error {
	var err error
	if o.Poll, err = o.touch.schedule(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	log := logrus.New()
	log.SetOutput(errOut)
	log.SetFormatter(&logrus.JSONFormatter{})
	if o.debug {
		log.SetLevel(logrus.DebugLevel)
	}
	for _, n := range o.notices {
		log.WithField("reason", n.reason).Warn(n.name + " has no effect")
	}
	quietLibraries()
	own, err := kube.RESTConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("connect to this cluster: %w", err)
	}
	if o.Metrics, err = serve(ctx, o); err != nil {
		return err
	}
	log.WithFields(logrus.Fields{"agent": o.Namespace, "action": "start"}).Info("fleet-agent " + version.Version)
	return agent.Run(ctx, o.Config, own, logrus.NewEntry(log))
}

// quietLibraries drops the logs of Kubernetes' and Helm's libraries: failures are
// returned as errors and logged once. Helm's log shows Helm values.
func quietLibraries() {
	stdlog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s (%s)\n", version.Version, version.Commit)
		},
	}
}
