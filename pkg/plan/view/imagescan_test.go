package view

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestImageScan(t *testing.T) {
	scan := func(conditions ...fleet.Condition) *fleet.ImageScan {
		s := &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		s.Status.Conditions = conditions
		return s
	}
	says := func(kind string, status corev1.ConditionStatus, generation int64, message string) fleet.Condition {
		return fleet.Condition{Type: kind, Status: status, ObservedGeneration: generation, Message: message}
	}
	const refused = "not committed: no rights"
	cases := map[string]struct {
		why     string
		scan    *fleet.ImageScan
		state   fleet.BundleState
		message string
	}{
		"New":       {"it was not scanned yet", scan(), fleet.Pending, notWorkedOn},
		"Found":     {"its GitRepo does not commit", scan(says(fleet.ConditionImageScanned, corev1.ConditionTrue, 2, "")), fleet.Ready, refused},
		"Changed":   {"it was changed since", scan(says(fleet.ConditionImageScanned, corev1.ConditionTrue, 1, "")), fleet.Pending, notWorkedOn},
		"Reference": {"rancher/fleet writes no generation", scan(says(fleet.ConditionImageScanned, corev1.ConditionTrue, 0, "")), fleet.Ready, refused},
		"Failed":    {"its own failure goes first", scan(says(fleet.ConditionImageScanned, corev1.ConditionFalse, 2, "no answer")), Unreadable, "no answer"},
		"Off":       {"no manager scans", scan(says(fleet.ConditionAccepted, corev1.ConditionFalse, 2, "switched off")), Unreadable, "switched off"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if state, message := ImageScanState(c.scan), ImageScanMessage(c.scan, refused); state != c.state || message != c.message {
				t.Errorf("%s: got %s %q", c.why, state, message)
			}
		})
	}
	r := &fleet.GitRepo{}
	if got := Uncommitted(r); got != "" {
		t.Errorf("nothing speaks against a commit, got %q", got)
	}
	r.Status.Conditions = []fleet.Condition{says(fleet.ConditionImageSynced, corev1.ConditionFalse, 1, "no rights")}
	if got := Uncommitted(r); got != refused {
		t.Errorf("got %q", got)
	}
}
