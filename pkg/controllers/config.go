// Package controllers composes the loops of three roles of the manager: controller, which
// turns Bundles into deployments, gitjob, which reads git repositories, and helmops, which
// asks chart repositories for versions. Each runs under a lease of its own.
package controllers

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Leases of the roles. The names are those of rancher/fleet, which has none for
// cleanup: of two managers in one namespace only one works.
const (
	LeaseController = "fleet-controller-leader-election-shard"
	LeaseGitJob     = "fleet-gitops-leader-election-shard"
	LeaseHelmOps    = "fleet-helmops-leader-election-shard"
	LeaseCleanup    = "fleet-cleanup-lock"
)

// LeaseTimes are the times of leader election; zero means the default: 30 s,
// 25 s and 10 s.
type LeaseTimes struct{ Duration, Renew, Retry time.Duration }

// Config configures the controllers. Start from Default.
type Config struct {
	// Namespace is where Fleet itself runs.
	Namespace string
	// Identity distinguishes this process from others that want the same lease. It does
	// not change while the process runs.
	Identity string
	// LeaderElect turns leases on. Without them only one process may run.
	LeaderElect bool
	// Lease are the times of leader election.
	Lease LeaseTimes
	// ManagerID is the id of this installation.
	ManagerID string
	// Scope selects the objects that this process manages, if other managers
	// share the cluster.
	Scope scope.Scope
	// CheckinInterval is how often agents report. After 3 missed reports a
	// cluster is Offline.
	CheckinInterval time.Duration
	// Workers is how many Bundles are worked on at once, 1 to 500.
	Workers int
	// ImageScans reports that image scanning is on.
	ImageScans bool
	// Schedules reports that Schedules are acted on. Location is the time zone of those
	// without one; UTC where empty.
	Schedules bool
	Location  string
	// RequireDownstreamLabel: only Secrets and ConfigMaps with the label
	// fleet.cattle.io/downstream-resource are copied with bundles.
	RequireDownstreamLabel bool
	// Proxy chooses the proxy of requests to registries, where bundles are
	// deleted. Nil: none.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses says which reserved addresses are dialled for git, charts and
	// registries; none by default.
	Addresses address.Policy
	// Metrics, where not nil, is where durations and states are shown.
	Metrics *Metrics
}

// Default returns the configuration that the chart installs, without what only a
// process knows.
func Default() Config {
	return Config{Namespace: "cattle-fleet-system", LeaderElect: true, CheckinInterval: time.Minute, Workers: 8}
}

// Validate returns all that is wrong, not just the first.
func (c Config) Validate() error {
	var errs []error
	if c.Namespace == "" {
		errs = append(errs, errors.New("namespace: must be set"))
	}
	if c.LeaderElect && c.Identity == "" {
		errs = append(errs, errors.New("identity: must be set with leader election"))
	}
	if err := c.Scope.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.CheckinInterval <= 0 {
		errs = append(errs, fmt.Errorf("check-in interval: %s is not above 0", c.CheckinInterval))
	}
	if c.Workers < 1 || c.Workers > 500 {
		errs = append(errs, fmt.Errorf("workers: %d is not within 1 to 500", c.Workers))
	}
	return errors.Join(errs...)
}
