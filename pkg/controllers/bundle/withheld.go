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
func (e *copyController) secretUses(namespace string) []deployment.SecretUse {
	clusters := e.cache.clusters.List("") // each may name a Secret of another namespace
	return deployment.SecretUses(namespace, clusters, e.cache.repos.List(namespace), e.cache.bundles.List(namespace))
}

// withheld says why a source of a Bundle may not go along; empty if it may.
func (e *copyController) withheld(s *snapshot, one deployment.Source, o deployment.Origin) string {
	return deployment.Withheld(one, o, s.secretUses, e.cfg.RequireDownstreamLabel, !deployment.Named(&s.bundle.Spec, one))
}

// withheldError is the fault of a Bundle that names what may not go along.
func withheldError(reasons []string) error {
	text := reasons[0]
	if len(reasons) > 1 {
		text = fmt.Sprintf("%s (and %d more)", text, len(reasons)-1)
	}
	return reconcile.TerminalError(deployment.ReasonWithheld, errors.New("downstreamResources: "+text))
}

// refuses reports whether the Bundle of a deployment names a source that may
// not go along.
func (e *copyController) refuses(bd *fleet.BundleDeployment, one deployment.Source) bool {
	bundle, ok := fleetstate.BundleOf(bd)
	return ok && slices.Contains(e.sources.refusedOf(bundle), one)
}

// checkCopies looks at the copies of what a Bundle named, and may not go along
// now, and of what may go along again.
func (e *copyController) checkCopies(s *snapshot, before []deployment.Source) {
	now := e.sources.refusedOf(s.key)
	for _, one := range slices.Concat(before, now) {
		if slices.Contains(before, one) && slices.Contains(now, one) {
			continue
		}
		for _, bd := range s.deployments {
			e.copyQueue.Add(portKey(bd.Namespace, one))
		}
	}
}

// onClusterSecrets, onRepoSecrets and onBundleSecrets plan the Bundles that take
// along a Secret which is a credential now, or is none any more.
func (e *copyController) onClusterSecrets(old, changed *fleet.Cluster) {
	e.sources.judge(deployment.UsesOfCluster(old), deployment.UsesOfCluster(changed))
}

func (e *copyController) onRepoSecrets(old, changed *fleet.GitRepo) {
	e.sources.judge(deployment.UsesOfRepo(old), deployment.UsesOfRepo(changed))
}

func (e *copyController) onBundleSecrets(old, changed *fleet.Bundle) {
	e.sources.judge(deployment.UsesOfBundle(old), deployment.UsesOfBundle(changed))
}
