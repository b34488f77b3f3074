package deploy

import (
	"context"
	"slices"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// countInterval is how often the releases of the cluster are listed, to find those that
// no BundleDeployment asks for and that the store does not have.
const countInterval = 15 * time.Minute

// CountReleases lists the agent's releases at once and then every 15 minutes
// until ctx ends, and removes what is left of records that were never finished.
func (r *Reconciler) CountReleases(ctx context.Context) error {
	t := time.NewTicker(countInterval)
	defer t.Stop()
	for {
		if err := r.cfg.Helm.SweepParts(ctx, r.cfg.Now()); err != nil && ctx.Err() == nil {
			r.cfg.Log.WithField("error", err.Error()).Warn("parts of records not swept")
		}
		list, err := r.cfg.Helm.List(ctx)
		if err == nil {
			names := map[string]bool{}
			for _, o := range list {
				names[o.Memory.Owner.BundleID] = true
			}
			r.mu.Lock()
			r.releases = names
			r.mu.Unlock()
		} else if ctx.Err() == nil {
			r.cfg.Log.WithField("error", err.Error()).Warn("releases not counted")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Orphans returns the deployments that run and that the manager no longer has, without
// having ordered them to be removed, in order. It returns false while the manager's
// list is not known.
func (r *Reconciler) Orphans() ([]string, bool) {
	s := r.session.Load()
	if s == nil || !s.Deployments.HasSynced() {
		return nil, false
	}
	set := map[string]bool{}
	for _, rec := range r.cfg.Store.All() {
		set[rec.Key.Name] = rec.Ordered == ""
	}
	r.mu.Lock()
	for name := range r.releases {
		if _, recorded := set[name]; !recorded {
			set[name] = true
		}
	}
	r.mu.Unlock()
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
