// Package gitrepo decides what is done about a GitRepo: when the manager asks its
// repository for new commits, when it reads the repository, which Bundles it then writes
// and removes, and what the status says.
package gitrepo

import (
	"fmt"
	"maps"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Bounds of polling.
const (
	// MinInterval is the shortest pollingInterval; shorter ones count as this.
	MinInterval = time.Second
	// A repository that cannot be asked is tried ever more rarely, at most eight
	// times as rarely as it is polled, and not more rarely than once a minute;
	// at first, within 15 seconds.
	maxDelay   = time.Minute
	firstDelay = 15 * time.Second
	maxGrowth  = 8
	// maxJitter is the part of the interval by which polls are spread.
	maxJitter = 0.1
)

// ReasonTargetNamespace says that targetNamespace of the GitRepo is no name of a namespace.
const ReasonTargetNamespace = "InvalidTargetNamespace"

// SpecError returns what in the spec of a GitRepo cannot work whatever its repository
// holds: Terminal, ReasonTargetNamespace; nil for nothing.
func SpecError(spec fleet.GitRepoSpec) error {
	if name := spec.TargetNamespace; name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return reconcile.TerminalError(ReasonTargetNamespace, fmt.Errorf(
			"targetNamespace %q of the GitRepo is not possible: want at most %d lower case letters, digits and -, a letter or digit first and last",
			name, validation.DNS1123LabelMaxLength))
	}
	return nil
}

// Delay returns the time until a repository is asked again after so many failures in a row:
// the interval, doubled with each failure up to the bounds, plus up to a tenth of it.
// random, from 0 to 1, chooses that part. The manager asks a repository that is not polled
// (interval 0) again only after failures. A wait.Backoff would count the failures itself
// and choose random itself.
func Delay(interval time.Duration, failures int, random float64) time.Duration {
	if failures == 0 && interval == 0 {
		return 0
	}
	delay := max(interval, MinInterval)
	if failures > 0 {
		limit := min(maxDelay, max(firstDelay, maxGrowth*delay))
		grown := float64(delay) * math.Pow(2, float64(min(failures, 10)))
		delay = max(delay, time.Duration(min(grown, float64(limit))))
	}
	return delay + time.Duration(float64(delay)*maxJitter*random)
}

// Options returns what a GitRepo says about all its bundles as they are read from a commit.
// All labels of the GitRepo are passed on.
func Options(repo *fleet.GitRepo, commit string) bundle.Options {
	o := bundle.Options{
		Repo: repo.Name, Namespace: repo.Namespace,
		TargetNamespace: repo.Spec.TargetNamespace,
		ServiceAccount:  repo.Spec.ServiceAccount,
		SyncGeneration:  repo.Spec.ForceSyncGeneration,
		Paused:          repo.Spec.Paused,
		KeepResources:   repo.Spec.KeepResources,
		DeleteNamespace: repo.Spec.DeleteNamespace,
		CorrectDrift:    repo.Spec.CorrectDrift,
		Labels:          map[string]string{},
	}
	maps.Copy(o.Labels, repo.Labels)
	o.Labels[fleet.LabelRepoName] = repo.Name
	o.Labels[fleet.LabelCommit] = commit
	o.Labels[fleet.LabelOwnerBucket] = naming.OwnerBucket(repo.Namespace, repo.Name)
	targets := repo.Spec.Targets
	if len(targets) == 0 {
		targets = []fleet.GitTarget{bundle.DefaultTarget}
	}
	for _, t := range targets {
		o.Targets = append(o.Targets, bundle.TargetOf(t))
		o.Restrictions = append(o.Restrictions, bundle.RestrictionOf(t))
	}
	return o
}
