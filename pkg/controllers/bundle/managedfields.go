package bundle

import (
	"bytes"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stagedField is the field of a deployment that changes with every version, as
// it stands in managedFields.
var stagedField = []byte(`"f:stagedDeploymentID"`)

// unknownInputs replaces unknown inputs in cached marks; no inputs have it as their
// hash.
const unknownInputs = "?"

// distrust removes from a deployment, as it came from the API server, the hash of
// inputs if another writer has changed the version since the hash was written: the
// reference keeps annotations as they are. The version is then computed again, and
// written only if it differs.
func distrust(bd *fleet.BundleDeployment) {
	mark, ok := bd.Annotations[fleet.AnnotationInputHash]
	if !ok || bd.Spec.StagedDeploymentID == "" {
		return
	}
	for _, f := range bd.ManagedFields {
		if f.Manager == fleet.FieldManagerController && f.Subresource == "" && f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), stagedField) {
			return
		}
	}
	if _, rest, ok := strings.Cut(mark, "."); ok {
		bd.Annotations[fleet.AnnotationInputHash] = unknownInputs + "." + rest
	}
}
