// Package agent is the program in each cluster. It reads the BundleDeployments of its
// cluster from the manager, deploys them as Helm releases, corrects drift, and reports.
// Without its manager it continues with what it accepted last. Its decisions are in
// pkg/plan, except those of restoreguard.
//
// Its packages: register gets the credential, credential keeps it valid, managerclient
// is the connection to the manager, checkin sends check-ins, pull downloads charts,
// store keeps what the agent accepted, deploy installs and uninstalls releases, drift
// looks at live objects and corrects them, watch reports their changes, statuswriter
// writes statuses, and restoreguard holds what a restored manager repeats.
//
// In this package, connection decides when the agent is connected, the registrar gets
// its credential, the dialer makes connections, and a session works over one of them.
// Each has the parts that it uses; base is what all of them use.
package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/pull"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// leaseName is the lease of agents that take turns.
const leaseName = "fleet-agent"

// Config configures an agent. The zero Config is not valid: start from Default.
type Config struct {
	Namespace       string        // where the agent runs
	Scope           string        // distinguishes the objects of several agents of one cluster; usually empty
	CheckinInterval time.Duration // between two signs of life, 1 s to 1 h; 0: as its manager says, else a minute
	Workers         int           // deployments worked on at once, 1 to 100
	LeaderElect     bool          // hold a lease while working
	Identity        string        // holder of the lease; needed with LeaderElect
	Lease           kube.Lease    // its times; those of package kube where 0
	Version         string        // of the program

	// Poll is when the agent connects to the manager, does what there is to do, and
	// disconnects. Nil: it is always connected.
	Poll *heartbeat.Schedule

	// OrphanPolicy is OrphansKept or OrphansCollected: what the agent does with
	// releases that the manager no longer has and did not order to remove, after lists
	// without a gap for OrphanGracePeriod.
	OrphanPolicy      string
	OrphanGracePeriod time.Duration

	// Proxy chooses the proxy of requests to registries. Nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	// Metrics record what the agent does. Nil: there are none.
	Metrics *Metrics

	// wrapManager, where not nil, wraps the transport of all requests to the manager.
	wrapManager transport.WrapperFunc
}

// Default returns the configuration that the chart installs.
func Default() Config {
	return Config{
		Namespace: fleet.NamespaceSystem, Workers: 8, Version: "unknown",
		OrphanPolicy: OrphansKept, OrphanGracePeriod: time.Hour,
	}
}

// Validate returns all errors of the configuration, not only the first.
func (c Config) Validate() error {
	var errs []error
	if c.Namespace == "" {
		errs = append(errs, errors.New("namespace: must be set"))
	}
	if d := c.CheckinInterval; d != 0 && (d < heartbeat.Shortest || d > heartbeat.Longest) {
		errs = append(errs, fmt.Errorf("checkin-interval: %s is not within 1s to 1h", d))
	}
	if c.Workers < 1 || c.Workers > 100 {
		errs = append(errs, fmt.Errorf("workers: %d is not within 1 to 100", c.Workers))
	}
	if err := validOrphans(c.OrphanPolicy, c.OrphanGracePeriod); err != nil {
		errs = append(errs, err)
	}
	if c.LeaderElect && c.Identity == "" {
		errs = append(errs, errors.New("leader-elect: needs an identity"))
	}
	return errors.Join(errs...)
}

// userAgent returns the User-Agent header of the agent's requests.
func (c Config) userAgent() string { return "fleet-agent/" + c.Version }

// Run runs the agent until ctx ends. own is the connection to the agent's own cluster.
func Run(ctx context.Context, cfg Config, own *rest.Config, log *logrus.Entry) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	health := &ownCluster{namespace: cfg.Namespace}
	own = health.judgeAnswers(cfg.Metrics.countRequests(own, serverOwn))
	down, err := kube.Connect(kube.Config{REST: own, UserAgent: cfg.userAgent(), FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		return err
	}
	work := func(ctx context.Context) error { return run(ctx, cfg, health, down, log) }
	if !cfg.LeaderElect {
		return work(ctx)
	}
	lease := cfg.Lease
	lease.Namespace, lease.Name, lease.Identity, lease.Watched = cfg.Namespace, leaseName, cfg.Identity, true
	return kube.Lead(ctx, down, lease, work)
}

// agent is a running agent.
type agent struct {
	*base
	settings   *settings
	deploy     *deploy.Controller
	orphans    *orphans
	registrar  *registrar
	connection *connection
}

func run(ctx context.Context, cfg Config, health *ownCluster, down *kube.Client, log *logrus.Entry) error {
	group, ctx := errgroup.WithContext(ctx)
	a, err := prepare(ctx, cfg, health, down, log)
	if err != nil {
		return err
	}
	kept := newCredentialBackup(a.base)
	crds := kube.NewMetaCache(down.Loop("kinds"), crdKind, kube.Watch{}, nil)
	crds.OnError(func(error) {}) // the cache tries again; the loops log what fails
	crds.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		switch {
		case changed == nil:
			a.deploy.KindChanged(old.Name, true)
		case crds.HasSynced():
			a.deploy.KindChanged(changed.Name, false)
		}
	})
	group.Go(func() error {
		return kube.Run(ctx, a.report, crds, a.registrar.bootstrap, kept, kube.RunnerFunc(kept.rewriteDeleted), a.settings.watch(), a.deploy.Loop(), a.events.recorder, kube.RunnerFunc(a.deploy.Orphans().Count), a.orphans)
	})
	group.Go(func() error { return a.connection.serve(ctx) })
	a.deploy.Sessions().EnqueueAll() // accepted deployments are maintained with or without a manager
	err = group.Wait()
	a.events.journal.store()
	return err
}

// namespaceKind is watched where deployments are restricted by labels.
var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// crdKind is watched to learn which kinds the cluster serves.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// prepare makes an agent. It waits for the API server of its own cluster if it needs
// data from there.
func prepare(ctx context.Context, cfg Config, own *ownCluster, down *kube.Client, log *logrus.Entry) (*agent, error) {
	loop := down.Loop("deploy")
	h, err := helm.Connect(helm.Config{REST: loop.REST(), AgentNamespace: cfg.Namespace, AgentScope: cfg.Scope})
	if err != nil {
		return nil, err
	}
	live, err := kube.NewLive(loop)
	if err != nil {
		return nil, err
	}
	b, kept, identity := newBase(cfg, down, log), store.New(down.Loop("store"), cfg.Namespace), &identityCheck{}
	settings := &settings{base: b, mode: newConnectionMode(cfg)}
	version := ""
	err = retryUntilDone(ctx, log, "the agent's own cluster", func() (err error) {
		if version, err = h.KubernetesVersion(); err != nil {
			return err
		}
		if identity.judge.Own, err = clusterUID(ctx, down); err != nil {
			return err
		}
		return loadState(ctx, b, settings, kept)
	})
	if err != nil {
		return nil, err
	}
	if identity.instance, err = checkin.NewInstance(time.Now(), identity.judge.Own); err != nil {
		return nil, err
	}
	restores := &restores{log: log, contact: b.contact, events: b.events}
	deploy := newDeploy(ctx, b, deploy.Config{
		Helm: h, Live: live, Store: kept, Predecessor: settings.predecessor, OnRestored: restores.reportRestore, KeepVersion: restores.keepVersion,
		Reader: func(ctx context.Context, serviceAccount string) (drift.Reader, error) {
			return drift.ReaderOf(ctx, h, live, serviceAccount)
		},
	})
	orphans := newOrphans(b, deploy.Orphans())
	dialer := &dialer{base: b, mode: settings.mode, identity: identity, orphans: orphans, own: own, version: version}
	registrar := &registrar{base: b, bootstrap: register.NewBootstrapWatcher(down.Loop("register"), cfg.Namespace), dialer: dialer}
	b.events.journal.add(journal.Entry{Verb: verbStart, Message: cfg.userAgent()})
	return &agent{
		base: b, settings: settings, deploy: deploy, orphans: orphans, registrar: registrar,
		connection: &connection{base: b, mode: settings.mode, identity: identity, registrar: registrar, sessions: &sessions{
			base: b, mode: settings.mode, identity: identity, dialer: dialer, deploy: deploy.Sessions(), orphans: orphans, restores: restores, own: own,
		}},
	}, nil
}

// loadState reads what the previous run of the agent has stored, and the agent's
// ConfigMap.
func loadState(ctx context.Context, b *base, s *settings, kept *store.Store) error {
	if err := b.contact.load(ctx); err != nil {
		return err
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := b.events.journal.load(ctx); err != nil {
		return err
	}
	return loadStore(ctx, kept, b.log)
}

// newDeploy makes the controller of deployments. The caller sets the fields of c that
// do not come from the agent's configuration.
func newDeploy(ctx context.Context, b *base, c deploy.Config) *deploy.Controller {
	cfg := b.cfg
	c.Namespace, c.Scope, c.Workers, c.Log = cfg.Namespace, cfg.Scope, cfg.Workers, b.log
	c.Namespaces = kube.NewMetaCache(b.down.Loop("namespaces"), namespaceKind, kube.Watch{}, nil)
	c.LastVersion, c.OnAct, c.OnDrift = b.contact.managerVersion, b.events.recordAct, cfg.Metrics.recordDrift
	c.Registry = oci.New(oci.Config{UserAgent: cfg.userAgent(), Proxy: cfg.Proxy, Addresses: address.WithLoopback()})
	c.Charts = pull.New(pull.Config{UserAgent: cfg.userAgent(), Proxy: cfg.Proxy})
	d := deploy.New(ctx, c)
	d.Loop().OnDone(cfg.Metrics.recordReconcile)
	cfg.Metrics.setStates(d.States)
	return d
}

// loadStore reads the records of accepted deployments, and deletes chunks of incomplete
// records. The agent starts also if a record cannot be read.
func loadStore(ctx context.Context, kept *store.Store, log *logrus.Entry) error {
	err := kept.Load(ctx)
	if errors.Is(err, store.ErrBroken) {
		log.WithField("error", err.Error()).Warn("record left out")
		err = nil
	}
	if err == nil {
		_, err = kept.Sweep(ctx)
	}
	return err
}

// report logs the error of a controller.
func (a *agent) report(loop string, key kube.Key, err error) {
	a.log.WithFields(logrus.Fields{"action": loop, "deployment": key.Name, "error": err.Error()}).Warn("not done")
}

// retryUntilDone repeats f until it succeeds or ctx ends, with the delays of a
// kube.Backoff.
func retryUntilDone(ctx context.Context, log *logrus.Entry, what string, f func() error) error {
	var delays kube.Backoff
	for {
		err := f()
		if err == nil {
			return nil
		}
		log.WithField("error", err.Error()).Warn("waiting for " + what)
		if err := delays.Wait(ctx); err != nil {
			return err
		}
	}
}

// A signal is an event that happens once and that others wait for.
type signal struct {
	sync.Once
	done chan struct{}
}

func newSignal() *signal { return &signal{done: make(chan struct{})} }

// set makes the event happen; later calls do nothing.
func (s *signal) set() { s.Do(func() { close(s.done) }) }
