package summary

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// setWithdrawing keeps condition Withdrawing while deployments are being
// withdrawn and removes it afterwards.
func setWithdrawing(list []fleet.Condition, w Withdrawing, generation int64, now time.Time) []fleet.Condition {
	if w.Count == 0 {
		return condition.Remove(list, fleet.ConditionWithdrawing)
	}
	message := fmt.Sprintf("%d to uninstall", w.Count)
	if w.Why != "" {
		message += ": " + w.Why
	}
	return condition.Set(list, fleet.Condition{
		Type: fleet.ConditionWithdrawing, Status: corev1.ConditionTrue, ObservedGeneration: generation,
		Reason: fleet.ReasonProgressing, Message: condition.Message(message),
	}, now)
}
