package workspace

import (
	"cmp"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// tolerated are tolerations of taints, one for those that several nodes have.
func tolerated(taints []corev1.Taint) []corev1.Toleration {
	out := make([]corev1.Toleration, 0, len(taints))
	for _, t := range taints {
		out = append(out, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect})
	}
	return slices.CompactFunc(sortedTolerations(out), func(a, b corev1.Toleration) bool { return reflect.DeepEqual(a, b) })
}

// sortedTolerations puts tolerations into one order, so that the order of nodes does not count.
// Those that a person repeats stay, as in Rancher. None are nil.
func sortedTolerations(list []corev1.Toleration) []corev1.Toleration {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b corev1.Toleration) int {
		return cmp.Or(
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Operator, b.Operator),
			cmp.Compare(a.Effect, b.Effect), cmp.Compare(seconds(a), seconds(b)),
		)
	})
	return out
}

// seconds of a toleration; those that last for ever come first.
func seconds(t corev1.Toleration) int64 {
	if t.TolerationSeconds == nil {
		return -1
	}
	return *t.TolerationSeconds
}

// Labels of nodes of the control plane, the newer one first. The older one is used where no
// node has the newer one.
const (
	labelControlPlane    = "node-role.kubernetes.io/control-plane"
	labelControlPlaneOld = "node-role.kubernetes.io/controlplane"
)

// ControlPlaneTaints returns the taints of the nodes of the control plane.
func ControlPlaneTaints(nodes []corev1.Node) []corev1.Taint {
	for _, label := range []string{labelControlPlane, labelControlPlaneOld} {
		var taints []corev1.Taint
		found := false
		for i := range nodes {
			if nodes[i].Labels[label] == yes {
				found = true
				taints = append(taints, nodes[i].Spec.Taints...)
			}
		}
		if found {
			return taints
		}
	}
	return nil
}
