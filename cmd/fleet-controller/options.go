package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Roles that a process can take.
const (
	roleController      = "controller"
	roleAgentManagement = "agentmanagement"
	roleCleanup         = "cleanup"
	roleWorkspace       = "workspace"
	roleGitJob          = "gitjob"
	roleHelmOps         = "helmops"
)

var roles = []string{roleController, roleAgentManagement, roleCleanup, roleWorkspace, roleGitJob, roleHelmOps}

// options are the command line of the process, set by a user or a chart.
type options struct {
	roles          []string
	namespace      string
	kubeconfig     string
	identity       string
	metricsAddress string
	// metricsAllObjects is controllers.Metrics.AllObjects.
	metricsAllObjects bool
	healthAddress     string
	webhookAddress    string
	leaderElect       bool
	debug             bool
	workers           int
	workersGiven      bool // by the command line
	workspaceMode     string
	takeover          bool // others may be at work: wait for their end
	scope             scope.Scope
	// from the environment only
	lease            lease
	tokenTTLRequired bool
	addresses        address.Policy
	gitJob           controllers.GitJob // without what the process itself knows
	imageScans       bool
	schedules        bool
	location         string // time zone of Schedules without one
	helmOpWorkers    int
	mode             workspace.Mode // workspaceMode, read
	noBootstrap      bool           // this cluster does not become one of the fleet
}

// lease are the times of leader election; zero means the default.
type lease struct{ duration, renew, retry time.Duration }

func newCommand(getenv func(string) string, stderr io.Writer) *cobra.Command {
	return newCommandFor(getenv, func(cmd *cobra.Command, o *options) error {
		log := newLog(stderr, o.debug)
		for _, n := range withoutEffect(cmd.Flags(), getenv) {
			log.WithField("reason", n.reason).Warn(n.name + " has no effect")
		}
		return run(cmd.Context(), o, log)
	})
}

// newCommandFor is the command line of a process; start begins with what it says.
func newCommandFor(getenv func(string) string, start func(*cobra.Command, *options) error) *cobra.Command {
	o, reference := &options{}, &referenceFlags{}
	cmd := &cobra.Command{
		Use:           "fleet-controller",
		Short:         "The manager of a fleet",
		Version:       version.Version,
		Args:          cobra.MaximumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.takeRole(cmd, args); err != nil {
				return err
			}
			o.workersGiven = cmd.Flags().Changed("bundle-workers")
			if err := errors.Join(o.complete(getenv), o.completeScope(len(args) > 0 || cmd.Flags().Changed("roles"))); err != nil {
				return err
			}
			reference.apply(o)
			return start(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.roles, "roles", []string{roleController, roleAgentManagement, roleCleanup, roleWorkspace},
		"roles of this process: "+strings.Join(roles, ", "))
	f.StringVar(&o.namespace, "namespace", orElse(getenv("NAMESPACE"), fleet.NamespaceSystem), "namespace that Fleet runs in (env NAMESPACE)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the management cluster; without it the process runs in that cluster")
	f.StringVar(&o.identity, "identity", getenv("POD_UID"), "name of this process in leases, the same after a restart (env POD_UID)")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "work only while holding the lease of the role")
	f.StringVar(&o.metricsAddress, "metrics-address", getenv("FLEET_METRICS_BIND_ADDRESS"),
		"address for Prometheus, such as :8080; empty or 0 for none (env FLEET_METRICS_BIND_ADDRESS)")
	f.StringVar(&o.healthAddress, "health-address", getenv("FLEET_HEALTHPROBE_BIND_ADDRESS"),
		"address for probes, such as :8081; empty or 0 for none (env FLEET_HEALTHPROBE_BIND_ADDRESS)")
	f.StringVar(&o.webhookAddress, "webhook-address", getenv("FLEET_WEBHOOK_BIND_ADDRESS"),
		"address for webhooks of git hosts, such as :8080, in the role gitjob; empty or 0 for none (env FLEET_WEBHOOK_BIND_ADDRESS)")
	f.IntVar(&o.workers, "bundle-workers", defaultBundleWorkers, "Bundles worked on at once, 1 to 500 (env "+envBundleWorkers+")")
	f.StringVar(&o.workspaceMode, "workspace-mode", string(workspace.Auto),
		"who makes Fleet's clusters and namespaces of Rancher's: rancher, standalone (this process), or auto: Rancher while it is there")
	f.BoolVar(&o.takeover, "takeover", false,
		"start although another manager of the same API is at work or was installed in this namespace, and begin when it has ended")
	o.addScope(f, getenv)
	f.BoolVar(&o.debug, "debug", false, "log more")
	reference.add(f, o)
	cmd.AddCommand(newGitClonerCommand(getenv))
	return cmd
}

// complete reads the rest of the environment and checks everything.
func (o *options) complete(getenv func(string) string) error {
	var errs []error
	for _, r := range o.roles {
		if !slices.Contains(roles, r) {
			errs = append(errs, fmt.Errorf("--roles: %q is none of %s", r, strings.Join(roles, ", ")))
		}
	}
	if len(o.roles) == 0 {
		errs = append(errs, errors.New("--roles: at least one is needed"))
	}
	if o.identity == "" {
		o.identity = defaultIdentity(o.kubeconfig)
	}
	var err error
	if o.lease, err = leaseFrom(getenv); err != nil {
		errs = append(errs, err)
	}
	if o.mode, err = workspace.ParseMode(o.workspaceMode); err != nil {
		errs = append(errs, fmt.Errorf("--workspace-mode: %w", err))
	}
	o.tokenTTLRequired = getenv("FLEET_REGISTRATION_TOKEN_TTL_REQUIRED") == "true"
	if text := getenv(envAllowedReserved); text != "" {
		if o.addresses, err = address.Parse(strings.Split(text, ",")); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", envAllowedReserved, err))
		}
	}
	if err := o.completeGitJob(getenv); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// defaultBundleWorkers is how many Bundles are worked on at once.
const defaultBundleWorkers = 8

// Environment of the roles.
const (
	envBundleWorkers  = "BUNDLE_RECONCILER_WORKERS"           // --bundle-workers if that is not given
	envGitRepoWorkers = "GITREPO_RECONCILER_WORKERS"          // 1 to 500; 8 where it is not set
	envHelmOpWorkers  = "HELMOPS_RECONCILER_WORKERS"          // 1 to 500; 64 where it is not set
	envOCIStorage     = "OCI_STORAGE"                         // false keeps bundles in the cluster
	envUnknownHosts   = "FLEET_INSECURE_SKIP_HOST_KEY_CHECKS" // true accepts SSH hosts whose key is not known
	envImageScan      = "IMAGESCAN_ENABLED"                   // true switches image scanning on, also in the role controller
	envSchedules      = "EXPERIMENTAL_SCHEDULES"              // true switches Schedules on, in the role controller
	envTimeZone       = "TZ"                                  // time zone of Schedules without one; UTC where it is not set
	envScanWorkers    = "IMAGESCAN_RECONCILER_WORKERS"        // 1 to 500; 50 where it is not set
	envAllObjects     = "FLEET_METRICS_ALL_OBJECTS"           // true serves series of each cluster and deployment, however many there are
	envGitTimeout     = "FLEET_GIT_CLIENT_TIMEOUT"            // how long a git server may take to list its references; 30s where it is not set
)

// completeGitJob reads what the environment says about reading repositories.
func (o *options) completeGitJob(getenv func(string) string) error {
	var errs []error
	truth := func(name string, otherwise bool) bool {
		text := getenv(name)
		if text == "" {
			return otherwise
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is neither true nor false", name, text))
		}
		return v
	}
	o.gitJob.NoOCIStorage = !truth(envOCIStorage, true)
	o.imageScans = truth(envImageScan, false)
	o.metricsAllObjects = truth(envAllObjects, false)
	o.schedules = truth(envSchedules, false)
	errs = append(errs, o.completeLocation(getenv))
	o.gitJob.AcceptUnknownHosts = truth(envUnknownHosts, false)
	bundleWorkers := &o.workers
	if o.workersGiven {
		bundleWorkers = new(int) // the command line has precedence
	}
	for _, workers := range []struct {
		env  string
		into *int
	}{{envBundleWorkers, bundleWorkers}, {envGitRepoWorkers, &o.gitJob.Workers}, {envScanWorkers, &o.gitJob.ImageScanWorkers}, {envHelmOpWorkers, &o.helmOpWorkers}} {
		text := getenv(workers.env)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 500 {
			errs = append(errs, fmt.Errorf("%s: %q is not a number from 1 to 500", workers.env, text))
		}
		*workers.into = n
	}
	if text := getenv(envGitTimeout); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %q is not a duration above 0", envGitTimeout, text))
		}
		o.gitJob.Timeout = d
	}
	return errors.Join(errs...)
}

// completeLocation reads the time zone of Schedules without one.
func (o *options) completeLocation(getenv func(string) string) error {
	if o.location = strings.TrimPrefix(getenv(envTimeZone), ":"); o.location == time.Local.String() {
		o.location = "" // the zone of this process would be another one at agents
	}
	if _, err := time.LoadLocation(o.location); o.schedules && err != nil {
		return fmt.Errorf("%s: unknown time zone %q", envTimeZone, o.location)
	}
	return nil
}

// defaultIdentity names a process outside of a cluster by its machine and its
// kubeconfig, so that it is the same after a restart.
func defaultIdentity(kubeconfig string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	path, err := filepath.Abs(kubeconfig)
	if err != nil || kubeconfig == "" {
		return host
	}
	return host + ":" + path
}

// leaseFrom reads the times of leader election: all three, or none.
func leaseFrom(getenv func(string) string) (lease, error) {
	names := []string{"CATTLE_ELECTION_LEASE_DURATION", "CATTLE_ELECTION_RENEW_DEADLINE", "CATTLE_ELECTION_RETRY_PERIOD"}
	var l lease
	set := 0
	for i, into := range []*time.Duration{&l.duration, &l.renew, &l.retry} {
		text := getenv(names[i])
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return lease{}, fmt.Errorf("%s: %w", names[i], err)
		}
		*into = d
		set++
	}
	if set != 0 && set != len(names) {
		return lease{}, fmt.Errorf("%s: all three are needed, %d are set", strings.Join(names, ", "), set)
	}
	return l, nil
}

func newLog(w io.Writer, debug bool) *logrus.Entry {
	l := logrus.New()
	l.SetOutput(w)
	l.SetFormatter(&logrus.JSONFormatter{})
	if debug {
		l.SetLevel(logrus.DebugLevel)
	}
	entry := logrus.NewEntry(l)
	klog.LogToStderr(false) // client-go's own words, in our format
	klog.SetOutputBySeverity("INFO", lineLogger{entry.WithField("action", "client-go")})
	return entry
}

// lineLogger makes one log entry of each line.
type lineLogger struct{ log *logrus.Entry }

func (l lineLogger) Write(p []byte) (int, error) {
	l.log.Debug(strings.TrimSpace(string(p)))
	return len(p), nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
