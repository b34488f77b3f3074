package deployment

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A Staging writes a version beside the one that is current.
type Staging struct {
	// Patch is a JSON patch (RFC 6902): a merge patch could not take fields of
	// the version staged before away without knowing them. It names the
	// resourceVersion it was decided on, and is refused as a conflict by another.
	Patch  []byte
	Secret *corev1.Secret // nil if there are no values
}

// Stage returns the JSON patch that stages a version of a deployment without making it
// current. old may lack its options, as in a cache: the patch does not touch those of the
// current version. values are the values of the current version, nil for none.
//
// An object that would be above MaxBytes once the version is current is a
// terminal error already when the version is staged.
func Stage(o Order, old *fleet.BundleDeployment, values []byte) (Staging, error) {
	o.Move = false
	payload, err := Compose(o, old, values)
	if err != nil {
		return Staging{}, err
	}
	bd := payload.Object
	whole := bd.DeepCopy()
	whole.Spec.Options = o.Version.Options
	if err := checkSize(whole); err != nil {
		return Staging{}, err
	}
	changes := []patchOperation{
		{"add", "/metadata/resourceVersion", old.ResourceVersion},
		{"add", "/metadata/labels", bd.Labels},
		{"add", "/metadata/annotations", bd.Annotations},
		{"add", "/spec/stagedDeploymentID", bd.Spec.StagedDeploymentID},
		{"add", "/spec/stagedOptions", bd.Spec.StagedOptions},
	}
	for _, c := range []struct {
		patchOperation
		old any
	}{
		{patchOperation{"add", "/metadata/finalizers", bd.Finalizers}, old.Finalizers},
		{patchOperation{"add", "/spec/paused", bd.Spec.Paused}, old.Spec.Paused},
		{patchOperation{"add", "/spec/offSchedule", bd.Spec.OffSchedule}, old.Spec.OffSchedule},
		{patchOperation{"add", "/spec/valuesHash", bd.Spec.ValuesHash}, old.Spec.ValuesHash},
	} {
		if reflect.DeepEqual(c.Value, c.old) {
			continue
		}
		changes = append(changes, c.patchOperation)
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return Staging{}, reconcile.TerminalError(ReasonOptions, fmt.Errorf("write the staged options: %w", err))
	}
	return Staging{Patch: patch, Secret: payload.Secret}, nil
}

// A patchOperation is one operation of a JSON patch.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}
