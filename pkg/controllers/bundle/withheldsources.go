package bundle

import (
	"errors"
	"fmt"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// secretUses returns how the management cluster uses the Secrets of a
// namespace.
func (c *copyController) secretUses(namespace string) []deployment.SecretUse {
	clusters := c.cache.clusters.List("") // each may name a Secret of another namespace
	return deployment.SecretUses(namespace, clusters, c.cache.repos.List(namespace), c.cache.bundles.List(namespace))
}

// withheldReason returns why a source must not be copied to clusters; empty if it may.
func (c *copyController) withheldReason(s *snapshot, one deployment.Source, o deployment.Origin) string {
	return deployment.WithholdReason(one, o, s.secretUses, c.cfg.RequireDownstreamLabel, !deployment.NamesSource(&s.bundle.Spec, one))
}

// withheldError returns the error of a Bundle that names sources which must not be
// copied.
func withheldError(reasons []string) error {
	text := reasons[0]
	if len(reasons) > 1 {
		text = fmt.Sprintf("%s (and %d more)", text, len(reasons)-1)
	}
	return reconcile.TerminalError(deployment.ReasonWithheld, errors.New("downstreamResources: "+text))
}

// isWithheld reports whether the Bundle of a deployment names a source that must not be
// copied.
func (c *copyController) isWithheld(bd *fleet.BundleDeployment, one deployment.Source) bool {
	bundle, ok := fleetstate.BundleOf(bd)
	return ok && slices.Contains(c.sources.refusedOf(bundle), one)
}

// checkCopies enqueues the copies of sources that must not be copied any more, and of
// those that may be copied again. before are the sources that were refused before.
func (c *copyController) checkCopies(s *snapshot, before []deployment.Source) {
	now := c.sources.refusedOf(s.key)
	for _, one := range slices.Concat(before, now) {
		if slices.Contains(before, one) && slices.Contains(now, one) {
			continue
		}
		for _, bd := range s.deployments {
			c.copyQueue.Add(copyKey(bd.Namespace, one))
		}
	}
}

// onClusterSecrets, onRepoSecrets and onBundleSecrets enqueue the Bundles that name a
// Secret which has become a credential of a Cluster, GitRepo or Bundle, or has ceased
// to be one.
func (c *copyController) onClusterSecrets(old, changed *fleet.Cluster) {
	c.sources.onSecretUse(deployment.UsesOfCluster(old), deployment.UsesOfCluster(changed))
}

func (c *copyController) onRepoSecrets(old, changed *fleet.GitRepo) {
	c.sources.onSecretUse(deployment.UsesOfRepo(old), deployment.UsesOfRepo(changed))
}

func (c *copyController) onBundleSecrets(old, changed *fleet.Bundle) {
	c.sources.onSecretUse(deployment.UsesOfBundle(old), deployment.UsesOfBundle(changed))
}
