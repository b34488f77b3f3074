package deploy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// countInterval is how often the releases of the cluster are listed, to find those that
// no BundleDeployment asks for and that the store does not have.
const countInterval = 15 * time.Minute

// Orphans knows the deployments that run and that the manager does not have any more.
type Orphans struct {
	helm    *helm.Client
	records records
	link    *link
	log     *logrus.Entry
	now     func() time.Time
	enqueue func(name string)

	mu       sync.Mutex
	releases map[string]bool // bundle ids of all releases, as counted last
}

// forget removes what is known of a deployment.
func (o *Orphans) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.releases, name)
}

// Count lists the agent's releases at once and then every 15 minutes until ctx ends,
// and deletes incomplete records.
func (o *Orphans) Count(ctx context.Context) error {
	t := time.NewTicker(countInterval)
	defer t.Stop()
	for {
		if err := o.helm.SweepParts(ctx, o.now()); err != nil && ctx.Err() == nil {
			o.log.WithField("error", err.Error()).Warn("parts of records not swept")
		}
		list, err := o.helm.List(ctx)
		if err == nil {
			names := map[string]bool{}
			for _, release := range list {
				names[release.Memory.Owner.BundleID] = true
			}
			o.mu.Lock()
			o.releases = names
			o.mu.Unlock()
		} else if ctx.Err() == nil {
			o.log.WithField("error", err.Error()).Warn("releases not counted")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// List returns the sorted deployments that run, that the manager does not have any
// more, and whose removal it did not order. It returns false until the manager's list
// is known.
func (o *Orphans) List() ([]string, bool) {
	s := o.link.session.Load()
	if s == nil || !s.Deployments.HasSynced() {
		return nil, false
	}
	set := map[string]bool{}
	for _, rec := range o.records.All() {
		set[rec.Key.Name] = rec.Ordered == ""
	}
	o.mu.Lock()
	for name := range o.releases {
		if _, recorded := set[name]; !recorded {
			set[name] = true
		}
	}
	o.mu.Unlock()
	var names []string
	for name, lost := range set {
		if !lost {
			continue
		}
		if _, there := s.Deployments.Get(kube.Key{Namespace: s.Namespace, Name: name}); !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, true
}

// orderOfCollection begins the order by which an orphan is collected.
const orderOfCollection = "collected "

// MadeBy reports whether the agent accepted an orphan from its present manager in its
// present epoch. It is false for a release without record.
func (o *Orphans) MadeBy(name string) bool {
	mark := *o.link.mark.Load()
	rec, known := o.records.recordOf(name, mark)
	return known && rec.Key.Manager == mark.ID && rec.Epoch == mark.Epoch
}

// Collect uninstalls an orphan, if the manager confirms that it does not have the
// deployment. It keeps releases without a record.
func (o *Orphans) Collect(ctx context.Context, name, why string) error {
	s := o.link.session.Load()
	if s == nil {
		return nil
	}
	list, err := s.Statuses.List(ctx, s.Namespace, "")
	if err != nil {
		return fmt.Errorf("collect %q: %w", name, err)
	}
	for _, bd := range list {
		if bd.Name == name {
			return nil
		}
	}
	rec, known := o.records.recordOf(name, *o.link.mark.Load())
	if !known {
		return nil
	}
	rec.Ordered = orderOfCollection + name
	if err := o.records.Save(ctx, rec); err != nil {
		return err
	}
	o.log.WithFields(logrus.Fields{
		"deployment": name, "action": string(release.Uninstall), "reason": why, "commit": rec.Labels[fleet.LabelCommit],
	}).Warn("orphan collected")
	o.enqueue(name)
	return nil
}
