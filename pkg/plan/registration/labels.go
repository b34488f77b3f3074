package registration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reserved are the domains whose labels steer targeting and ownership: only the management
// cluster sets them. Those of objectset.rio.cattle.io say to which set of objects one
// belongs, and would make a Cluster part of another owner's set.
var reserved = []string{"fleet.cattle.io", "management.cattle.io", "objectset.rio.cattle.io"}

// AcceptedLabels returns the labels that a new Cluster gets of those that its agent asked
// for. Dropped names the others with the reason, sorted by label. With ignore all are
// dropped, without a word.
func AcceptedLabels(asked map[string]string, ignore bool) (accepted map[string]string, dropped []string) {
	accepted = map[string]string{}
	if ignore {
		return accepted, nil
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if why := refusal(key, asked[key]); why != "" {
			dropped = append(dropped, fmt.Sprintf("%q: %s", key, why))
			continue
		}
		accepted[key] = asked[key]
	}
	return accepted, dropped
}

// refusal is why an agent may not have a label; empty if it may.
func refusal(key, value string) string {
	if key != fleet.LabelCreatedByAgentPod {
		domain, _, ok := strings.Cut(key, "/")
		for _, r := range reserved {
			if ok && (domain == r || strings.HasSuffix(domain, "."+r)) {
				return "labels of " + r + " are reserved"
			}
		}
	}
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		return "not a label: " + errs[0]
	}
	if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
		return "not a value of a label: " + errs[0]
	}
	return ""
}
