package publish

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The Bundle of a HelmOp has an owner: a GitRepo or fleet apply does not replace it.
func TestOwnerOf(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		`GitRepo "r"`: {fleet.LabelRepoName: "r", fleet.LabelHelmOpName: "h"},
		`HelmOp "h"`:  {fleet.LabelHelmOpName: "h"},
		"no GitRepo":  {"team": "a"},
	} {
		b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
		if got := ownerOf(b); got != want {
			t.Errorf("want %s, got %s", want, got)
		}
		if isUnowned(b) != (want == "no GitRepo") {
			t.Errorf("%s: isUnowned is %v", want, isUnowned(b))
		}
	}
}
