package deploy

import (
	"maps"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// withAccount records the service account that a release was made with.
func withAccount(m map[string]string, id release.ID, account string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[id.String()] = account
	return out
}

// rights returns the rights with which the release of a deployment is uninstalled:
// those of the accepted deployment, which made it.
func (s *snapshot) rights() helm.Rights {
	if s.hasRecord {
		return helm.RightsOf(s.rec.Spec.Options)
	}
	return helm.RightsOf(s.spec.Options)
}
