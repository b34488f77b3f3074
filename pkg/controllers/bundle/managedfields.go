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

// dropInputHash removes the hash of inputs from a deployment if another client has
// changed its version since the manager wrote the hash: rancher/fleet keeps annotations
// when it writes a version. The manager then computes the version, and writes it if it
// differs.
func dropInputHash(bd *fleet.BundleDeployment) {
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
