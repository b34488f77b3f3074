package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/chartpull"
	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/controllers/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/controllers/helmop"
	"github.com/fleetworkspace/fleet/pkg/controllers/imagecommit"
	"github.com/fleetworkspace/fleet/pkg/controllers/imagescan"
	"github.com/fleetworkspace/fleet/pkg/controllers/notimplemented"
	"github.com/fleetworkspace/fleet/pkg/controllers/webhook"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/crash"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Run works as the controller role until ctx ends or a loop cannot go on, and
// then waits for all loops to stop. It holds the role's lease while it works.
func Run(ctx context.Context, cfg Config, c *kube.Client, log *logrus.Entry) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return Lead(ctx, cfg, c, cfg.Scope.Lease(LeaseController), func(ctx context.Context) error {
		bundles := bundle.New(bundle.Config{
			Namespace: cfg.Namespace, ManagerID: cfg.ManagerID,
			CheckinInterval: cfg.CheckinInterval, Workers: cfg.Workers, Scope: cfg.Scope,
			Registry:               oci.New(oci.Config{UserAgent: "fleet-controller", Proxy: cfg.Proxy, Addresses: cfg.Addresses}),
			RequireDownstreamLabel: cfg.RequireDownstreamLabel,
			Schedules:              cfg.Schedules, Location: cfg.Location,
		}, c, log)
		refusals := notimplemented.New(cfg.Scope, c, cfg.ImageScans, cfg.Schedules)
		cfg.Metrics.Loops(append(bundles.Loops(), refusals.Loops()...)...)
		defer cfg.Metrics.Watch(bundles)()
		log.WithField("reason", cfg.Scope.String()).Info("controller started")
		return kube.Run(ctx, Report(log), append(bundles.Runnables(), refusals.Runnables()...)...)
	})
}

// A GitJob holds the additional configuration of the process that reads repositories.
type GitJob struct {
	// Dir is where downloads are kept while it runs.
	Dir       string
	UserAgent string
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Workers is how many GitRepos are worked on at once; 8 where 0.
	Workers int
	// Timeout is how long a git server may take to list its references; 30 s
	// where 0.
	Timeout time.Duration
	// DownloadBytes is how much is kept of downloaded charts; 2 GiB where 0.
	DownloadBytes int64
	// NoOCIStorage keeps bundles in the cluster even if Secrets name registries.
	NoOCIStorage bool
	// AcceptUnknownHosts accepts SSH hosts whose key is not known. One that shows another
	// key than the known one is refused in any case.
	AcceptUnknownHosts bool
	// ImageScanWorkers is how many ImageScans are worked on at once; 50 where 0.
	ImageScanWorkers int
}

// worker returns the configuration of package gitrepo.
func (j GitJob) worker(c Config, remotes *git.Remotes, read *bundlesource.Reader, counts *gitrepo.Metrics) gitrepo.Config {
	cfg := gitrepo.Config{Namespace: c.Namespace, Scope: c.Scope, Remotes: remotes, Reader: read, Workers: j.Workers, ImageScans: c.ImageScans, Metrics: counts}
	if !j.NoOCIStorage {
		cfg.OCI = oci.New(oci.Config{UserAgent: j.UserAgent, Proxy: j.Proxy, Addresses: c.Addresses})
	}
	return cfg
}

// maxUnknownHosts is how many accepted keys of SSH hosts are logged: those who name
// repositories choose the hosts, and a host can show another key each time.
const maxUnknownHosts = 1000

// unknownHost returns what is done about SSH hosts whose key is not known: nil refuses them.
// It logs each key of a host once, and the first maxUnknownHosts of them.
func (j GitJob) unknownHost(log *logrus.Entry) func(host, fingerprint string) {
	if !j.AcceptUnknownHosts {
		return nil
	}
	log.WithField("reason", "insecureSkipHostKeyChecks").Warn("SSH hosts are accepted whose key is not known: a server to which a connection is redirected can send commits")
	var mu sync.Mutex
	seen := map[[2]string]bool{}
	return func(host, fingerprint string) {
		key := [2]string{host, fingerprint}
		mu.Lock()
		defer mu.Unlock()
		if seen[key] || len(seen) == maxUnknownHosts {
			return
		}
		seen[key] = true
		log.WithFields(logrus.Fields{"host": host, "key": fingerprint, "reason": "insecureSkipHostKeyChecks"}).Warn("SSH host accepted whose key is not known")
	}
}

// RunGitJob works as the gitjob role, the process that reads repositories,
// until ctx ends or a loop cannot go on, and then waits for all loops to stop.
// It holds the role's lease while it works.
func RunGitJob(ctx context.Context, cfg Config, job GitJob, c *kube.Client, log *logrus.Entry) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return Lead(ctx, cfg, c, cfg.Scope.Lease(LeaseGitJob), func(ctx context.Context) (err error) {
		remotes, err := git.New(git.Config{
			Dir: job.Dir, UserAgent: job.UserAgent, Proxy: job.Proxy, Addresses: cfg.Addresses, Timeout: job.Timeout,
			UnknownHost: job.unknownHost(log),
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remotes.Close()) }()
		read, err := bundlesource.New(bundlesource.Config{
			Dir: job.Dir, UserAgent: job.UserAgent, Proxy: job.Proxy, Addresses: cfg.Addresses, Git: remotes,
			Limits: bundlesource.Limits{StoreBytes: job.DownloadBytes},
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, read.Close()) }()
		counts := gitrepo.NewMetrics()
		defer cfg.Metrics.Serve(counts)()
		worker := gitrepo.New(job.worker(cfg, remotes, read, counts), c, log)
		charts := chartpull.New(chartpull.Config{Charts: read, Contents: worker.Publisher(), Scope: cfg.Scope}, c, log)
		loops, parts := append(worker.Loops(), charts.Loops()...), append(worker.Runnables(), charts.Runnables()...)
		if cfg.ImageScans {
			scans := imagescan.New(imagescan.Config{
				Scope: cfg.Scope, Workers: job.ImageScanWorkers, Secrets: worker.Secrets(),
				Registry: oci.New(oci.Config{UserAgent: job.UserAgent, Proxy: job.Proxy, Addresses: cfg.Addresses}),
			}, c, log)
			loops, parts = append(loops, scans.Loops()...), append(parts, scans.Runnables()...)
			commits := imagecommit.New(imagecommit.Config{Scope: cfg.Scope, Remotes: remotes, Repositories: worker}, c, log)
			loops, parts = append(loops, commits.Loops()...), append(parts, commits.Runnables()...)
		}
		cfg.Metrics.Loops(loops...)
		log.WithField("reason", cfg.Scope.String()).Info("gitjob started")
		return kube.Run(ctx, Report(log), parts...)
	})
}

// A HelmOps holds the additional configuration of the process that asks for versions of
// charts.
type HelmOps struct {
	// Dir is where indexes are kept while it runs.
	Dir       string
	UserAgent string
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Workers is how many HelmOps are worked on at once; 64 where 0.
	Workers int
}

// RunHelmOps works as the helmops role until ctx ends or a loop cannot go on, and then
// waits for all loops to stop. It holds the role's lease while it works.
func RunHelmOps(ctx context.Context, cfg Config, ops HelmOps, c *kube.Client, log *logrus.Entry) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return Lead(ctx, cfg, c, cfg.Scope.Lease(LeaseHelmOps), func(ctx context.Context) (err error) {
		read, err := bundlesource.New(bundlesource.Config{Dir: ops.Dir, UserAgent: ops.UserAgent, Proxy: ops.Proxy, Addresses: cfg.Addresses})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, read.Close()) }()
		worker := helmop.New(helmop.Config{Namespace: cfg.Namespace, Scope: cfg.Scope, Versions: read, Workers: ops.Workers}, c, log)
		cfg.Metrics.Loops(worker.Loops()...)
		log.WithField("reason", cfg.Scope.String()).Info("helmops started")
		return kube.Run(ctx, Report(log), worker.Runnables()...)
	})
}

// RunWebhooks receives webhooks on a listener until ctx ends, and closes the listener. It
// needs no lease: each process of the role gitjob receives them.
func RunWebhooks(ctx context.Context, cfg Config, l net.Listener, c *kube.Client, log *logrus.Entry) error {
	receiver := webhook.New(webhook.Config{Namespace: cfg.Namespace, Scope: cfg.Scope}, c, log)
	return kube.Run(ctx, Report(log), receiver.Runnables(l)...)
}

// Lead calls f while it holds a lease; without leader election at once.
func Lead(ctx context.Context, cfg Config, c *kube.Client, lease string, f func(context.Context) error) error {
	if !cfg.LeaderElect {
		return f(ctx)
	}
	return kube.Lead(ctx, c, kube.Lease{
		Namespace: cfg.Namespace, Name: lease, Identity: cfg.Identity,
		Duration: cfg.Lease.Duration, Renew: cfg.Lease.Renew, Retry: cfg.Lease.Retry,
		Crashed: func(ctx context.Context) { noteCrash(ctx, c, kube.Key{Namespace: cfg.Namespace, Name: lease}) },
	}, f)
}

// noteTime is how long noting a crash may take: the work waits for it.
const noteTime = 5 * time.Second

// noteCrash adds the present time to the record of crashes on a lease. A failure to
// write the record does not stop a process.
func noteCrash(ctx context.Context, c *kube.Client, key kube.Key) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	leases := kube.StoreOf[*coordinationv1.Lease](c)
	have, err := leases.Get(ctx, key)
	if err != nil {
		return
	}
	record := crash.Add(have.Annotations[fleet.AnnotationCrashes], time.Now())
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{fleet.AnnotationCrashes: record}}})
	if err == nil {
		_, _ = leases.PatchRaw(ctx, key, types.MergePatchType, patch) // see above
	}
}

// Report returns a function that logs failed runs of loops: what waits for a change or
// a time as information, the rest as an error, each once per failure.
func Report(log *logrus.Entry) func(loop string, key kube.Key, err error) {
	return func(loop string, key kube.Key, err error) {
		entry := log.WithFields(logrus.Fields{
			"action": loop, "workspace": key.Namespace, subject(loop): key.Name, "error": err.Error(), "reason": reconcile.ReasonOf(err),
		})
		switch {
		case reconcile.IsRequeue(err):
			entry.Debug("waits")
		case reconcile.IsTerminal(err):
			entry.Warn("needs a change")
		case errors.Is(err, context.Canceled):
		default:
			entry.Error("failed, will try again")
		}
	}
}

// subject is the log key for what a loop works on.
func subject(loop string) string {
	for _, name := range []string{"gitrepo", "helmop", "bundle", "cluster", "content"} {
		if strings.HasPrefix(loop, name) {
			return name
		}
	}
	switch loop {
	case "heartbeat":
		return "cluster"
	case "imagecommit":
		return "gitrepo"
	}
	return "deployment"
}
