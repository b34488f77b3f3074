package options

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DeploymentID names a deployment by what is deployed and how:
// "<content id>:<digest of the options>". Options are digested with their Helm
// values and without diff and correctDrift, which change nothing in the
// cluster. contentID is empty for bundles whose chart the agent downloads.
//
// It fails only for values that have no JSON, such as infinity.
func DeploymentID(contentID string, o fleet.BundleDeploymentOptions) (string, error) {
	o.Diff, o.CorrectDrift = nil, nil
	raw, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("deployment id of %q: %w", contentID, err)
	}
	sum := sha256.Sum256(append(raw, '\n'))
	return contentID + ":" + hex.EncodeToString(sum[:]), nil
}
