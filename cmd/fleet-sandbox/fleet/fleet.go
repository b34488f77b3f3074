// Package fleet runs a whole fleet on this machine: a management cluster with
// the manager's processes, downstream clusters with an agent process each,
// and a git server. A downstream cluster may have a manager of its own, with
// clusters below that. The programs are the real ones, installed by their charts
// and run with tokens of the service accounts that the charts make; only
// their Deployments are left out, since the processes run on the host.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/link"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Config says what fleet to run, and from what.
type Config struct {
	Dir        string        // a folder of its own; made if it is missing
	LogDir     string        // one folder per cluster; Dir/log where empty
	Kubernetes string        // the multi-call executable (package kubebin)
	Programs   string        // folder with fleet-controller and fleet-agent
	Charts     string        // folder with the charts fleet-crd, fleet and fleet-agent
	Downstream []Downstream  // clusters besides the management cluster
	Ports      Ports         // any free ones where zero
	CheckIn    time.Duration // how often agents say that they live
	Debug      bool          // the programs log debug messages
	GOGC       int           // of the control planes: see cluster.Config

	// Metrics are the addresses at which the management cluster's manager serves metrics, by
	// the names of its Deployments. Nil: those of Ports, where these are set.
	Metrics map[string]string

	// ImageScans switches image scanning on, as the chart's value imagescan.enabled does.
	ImageScans bool

	// ControlPlane, where not nil, starts the control plane of a cluster instead of
	// cluster.Start. Kubernetes and GOGC mean nothing then.
	ControlPlane func(name string, port int) (ControlPlane, error)

	// Report, where not nil, is called for each finished step. Calls are one
	// after the other.
	Report func(step, text string)
	// Waiting, where not nil, is called with what is being waited for whenever
	// that changes. Calls may come from several goroutines.
	Waiting func(text string)
}

// Downstream is a cluster to be registered.
type Downstream struct {
	Name   string            // a DNS label, not "local"
	Labels map[string]string // of its Cluster in workspace fleet-default

	// Downstream, where not empty, gives the cluster a manager of its own, with
	// which these are registered.
	Downstream []Downstream
}

// A ControlPlane serves the API of one cluster. The usual one is a *cluster.Cluster,
// whose methods say what these are.
type ControlPlane interface {
	Name() string
	URL() string
	Port() int
	CA() []byte
	Kubeconfig() string
	REST() *rest.Config
	Admin() kubeconfig.Entry
	Processes() []cluster.Child
	Deaths() <-chan *process.Death
	Running() int
	Stop()
}

// A Member is one cluster of the fleet.
type Member struct {
	Name      string
	Workspace string
	Labels    map[string]string
	Cluster   ControlPlane
	Link      *link.Link // between its agent and the manager; nil for local

	agent *program // of the manager above; of local that of its own
	local *program // of its own manager, where one is above that; else nil
}

// A Fleet is a running fleet.
type Fleet struct {
	Local      *Member
	Downstream []*Member // of all managers, in the order of their ports
	Git        *gitserver.Server

	cfg       Config
	group     *process.Group
	tiers     []*Tier
	cancel    context.CancelCauseFunc
	ctx       context.Context // ends with the first fatal failure
	reporting sync.Mutex
	waiting   atomic.Value // string: what Start waits for
	started   atomic.Bool
}

// Start brings up everything and returns when every cluster is registered.
// No repository is deployed yet.
//
// If ctx ends or a process dies before that, all is stopped again, and the
// error is or wraps the *process.Death of that process.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	if cfg.LogDir == "" {
		cfg.LogDir = filepath.Join(cfg.Dir, "log")
	}
	if cfg.CheckIn == 0 {
		cfg.CheckIn = 10 * time.Second
	}
	f := &Fleet{cfg: cfg, group: process.NewGroup()}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.waiting.Store("")
	stop := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	defer stop()
	if err := f.bringUp(f.ctx); err != nil {
		if cause := context.Cause(f.ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("wait for %s: %w", f.Waiting(), cause) // instead of a request that was cut off
		}
		f.Stop()
		return nil, err
	}
	f.started.Store(true)
	return f, nil
}

func (f *Fleet) bringUp(ctx context.Context) error {
	if err := os.MkdirAll(f.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	git, err := gitserver.Start(gitserver.Config{Dir: filepath.Join(f.cfg.Dir, "git"), Port: f.cfg.Ports.Git()})
	if err != nil {
		return err
	}
	f.Git = git
	if err := f.startClusters(ctx); err != nil {
		return err
	}
	f.report("start", f.names()+": serving")
	for _, t := range f.tiers {
		if err := f.installManager(ctx, t); err != nil {
			return err
		}
		if err := f.register(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// startClusters starts all control planes side by side.
func (f *Fleet) startClusters(ctx context.Context) error {
	f.waitFor("the API servers")
	f.Local = &Member{Name: api.ClusterLocal, Workspace: api.NamespaceLocal}
	f.addTier(f.Local, f.cfg.Downstream)
	all, ctx := errgroup.WithContext(ctx)
	for i, m := range f.Members() {
		all.Go(func() error { return f.startCluster(ctx, i, m) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, m := range f.Members() {
		go f.watch(m)
	}
	return nil
}

func (f *Fleet) startCluster(ctx context.Context, i int, m *Member) (err error) {
	if f.cfg.ControlPlane != nil {
		if err := os.MkdirAll(f.dir(m), 0o700); err != nil {
			return fmt.Errorf("make folder of %s: %w", m.Name, err)
		}
		m.Cluster, err = f.cfg.ControlPlane(m.Name, f.cfg.Ports.API(i))
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Name:   m.Name,
		Dir:    f.dir(m),
		LogDir: f.logDir(m),
		Binary: f.cfg.Kubernetes,
		Port:   f.cfg.Ports.API(i),
		GOGC:   f.cfg.GOGC,
	})
	if err != nil {
		return err
	}
	m.Cluster = c
	return nil
}

// watch makes the death of a part of a control plane fatal for the fleet.
func (f *Fleet) watch(m *Member) {
	select {
	case death := <-m.Cluster.Deaths():
		f.cancel(death)
	case <-f.ctx.Done():
	}
}

// Done is closed when the fleet cannot go on; Err says why.
func (f *Fleet) Done() <-chan struct{} { return f.ctx.Done() }

// Err is why the fleet cannot go on, or nil.
func (f *Fleet) Err() error { return context.Cause(f.ctx) }

// Stop ends all processes and servers and returns when they are gone. The
// folder stays. Any number of calls may be made.
func (f *Fleet) Stop() {
	f.cancel(context.Canceled)
	var all sync.WaitGroup
	for _, p := range f.programs() {
		all.Go(func() { p.end(true) })
	}
	all.Wait()
	f.group.Close(0)
	for _, m := range f.Members() {
		if m.Link != nil {
			m.Link.Close()
		}
		if m.Cluster != nil {
			all.Go(m.Cluster.Stop)
		}
	}
	all.Wait()
	if f.Git != nil {
		f.Git.Close()
	}
}

// Members lists all clusters, the management cluster first.
func (f *Fleet) Members() []*Member {
	var all []*Member
	if f.Local != nil {
		all = append(all, f.Local)
	}
	return append(all, f.Downstream...)
}

// Member finds a cluster by name.
func (f *Fleet) Member(name string) (*Member, bool) {
	for _, m := range f.Members() {
		if m.Name == name {
			return m, true
		}
	}
	return nil, false
}

// Client is the administrator's connection to the management cluster; nil before
// it serves.
func (f *Fleet) Client() *kube.Client {
	if len(f.tiers) == 0 {
		return nil
	}
	return f.tiers[0].client
}

// Kubeconfig writes a kubeconfig with the administrator's credentials for all
// clusters, the management cluster first and current.
func (f *Fleet) Kubeconfig(path string) error {
	var entries []kubeconfig.Entry
	for _, m := range f.Members() {
		entries = append(entries, m.Cluster.Admin())
	}
	return kubeconfig.Write(path, entries...)
}

// Running is the number of processes that run.
func (f *Fleet) Running() int {
	n := len(f.group.Running())
	for _, m := range f.Members() {
		if m.Cluster != nil {
			n += m.Cluster.Running()
		}
	}
	return n
}

// Waiting says what Start or WaitReady waits for at this moment.
func (f *Fleet) Waiting() string {
	text, _ := f.waiting.Load().(string)
	return text
}

// waitFor notes what is being waited for from now on.
func (f *Fleet) waitFor(text string) {
	if f.waiting.Swap(text) != text && f.cfg.Waiting != nil {
		f.cfg.Waiting(text)
	}
}

func (f *Fleet) report(step, text string) {
	f.reporting.Lock()
	defer f.reporting.Unlock()
	if f.cfg.Report != nil {
		f.cfg.Report(step, text)
	}
}

func (f *Fleet) names() string {
	var names []string
	for _, m := range f.Members() {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

func (f *Fleet) dir(m *Member) string    { return filepath.Join(f.cfg.Dir, m.Name) }
func (f *Fleet) logDir(m *Member) string { return filepath.Join(f.cfg.LogDir, m.Name) }
