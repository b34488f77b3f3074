package view

import (
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// ImageScanState returns Ready for an ImageScan whose newest tag is known, Unreadable for
// one whose registry or policy gives none, and Pending for one that was not scanned since
// it was changed.
func ImageScanState(s *fleet.ImageScan) fleet.BundleState {
	c := condition.Find(s.Status.Conditions, fleet.ConditionImageScanned)
	switch {
	case imageScanRefusal(s) != "" || c != nil && c.Status == corev1.ConditionFalse:
		return Unreadable
	case c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration != s.Generation:
		return fleet.Pending
	}
	return fleet.Ready
}

// imageScanRefusal returns why no manager scans images; empty if one does.
func imageScanRefusal(s *fleet.ImageScan) string {
	if c := condition.Find(s.Status.Conditions, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse {
		return c.Message
	}
	return ""
}

// ImageScanMessage says what keeps an ImageScan from having a tag, else what keeps its
// GitRepo from committing it: uncommitted is that of Uncommitted.
func ImageScanMessage(s *fleet.ImageScan, uncommitted string) string {
	if text := imageScanRefusal(s); text != "" {
		return text
	}
	switch c := condition.Find(s.Status.Conditions, fleet.ConditionImageScanned); {
	case c != nil && c.Status == corev1.ConditionFalse:
		return c.Message
	case ImageScanState(s) == fleet.Pending:
		return notWorkedOn
	}
	return uncommitted
}

// Uncommitted says why a GitRepo does not commit what image scans have found; empty if
// nothing speaks against it.
func Uncommitted(r *fleet.GitRepo) string {
	c := condition.Find(r.Status.Conditions, fleet.ConditionImageSynced)
	if c == nil || c.Status != corev1.ConditionFalse {
		return ""
	}
	return "not committed: " + c.Message
}
